"""HDFNet's dynamic dilated pyramid module (DDPM) on the fused operator, for PyTorch.

Load the operators first: torch.ops.load_library("build/lib/libhdfnet_ops.so"). The module has the
parameter names and shapes of the original, so its state dicts load unchanged.
"""

import torch
from torch import nn


class BasicConv2d(nn.Module):
    """Convolution without bias, batch normalisation, ReLU."""

    def __init__(self, inputs, outputs, kernel_size=3, padding=1):
        super().__init__()
        self.basicconv = nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel_size, padding=padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.basicconv(x)


class DenseLayer(nn.Module):
    """`steps` convolutions, each reading the results of the earlier ones and the reduced input."""

    def __init__(self, inputs, outputs, down_factor=4, steps=4):
        super().__init__()
        mid = inputs // down_factor
        self.down = nn.Conv2d(inputs, mid, 1)
        self.denseblock = nn.ModuleList(BasicConv2d(mid * i, mid) for i in range(1, steps + 1))
        self.fuse = BasicConv2d(inputs + mid, outputs)

    def forward(self, x):
        reduced = self.down(x)
        results = []
        for convolution in self.denseblock:
            results.append(convolution(torch.cat(results + [reduced], 1)))
        return self.fuse(torch.cat([x, results[-1]], 1))


class Branch(nn.Module):
    """The generator of one dilation's taps, and the convolution after the filter."""

    def __init__(self, source_channels, channels, kernel_size, dilation, down_factor):
        super().__init__()
        self.dilation = dilation
        self.gernerate_kernel = nn.Sequential(
            nn.Conv2d(source_channels, source_channels, 3, padding=1),
            DenseLayer(source_channels, source_channels, down_factor),
            nn.Conv2d(source_channels, channels * kernel_size**2, 1),
        )
        self.fuse = nn.Conv2d(channels, channels, 3, padding=1)


class DDPM(nn.Module):
    """Filters x, reduced to in_xC / down_factor channels, with taps made of y, at three dilations."""

    dilations = (1, 3, 5)

    def __init__(self, in_xC, in_yC, out_C, kernel_size=3, down_factor=4):
        super().__init__()
        mid = out_C // down_factor
        self.down_input = nn.Conv2d(in_xC, mid, 1)
        for dilation in self.dilations:
            self.add_module(f"branch_{dilation}", Branch(in_yC, mid, kernel_size, dilation, down_factor))
        self.fuse = BasicConv2d(mid * (1 + len(self.dilations)), out_C)

    def branches(self):
        return [getattr(self, f"branch_{dilation}") for dilation in self.dilations]

    def forward(self, x, y):
        x = self.down_input(x)
        # The generator's last 1x1 convolution runs inside of the operator: its result, the taps, is the
        # largest tensor of the module and is never stored.
        branches = self.branches()
        sources = torch.stack([branch.gernerate_kernel[:2](y) for branch in branches], 1)
        last = [branch.gernerate_kernel[2] for branch in branches]
        weight = torch.stack([convolution.weight.flatten(1) for convolution in last])
        bias = torch.stack([convolution.bias for convolution in last])
        filtered = torch.ops.hdfnet.generated_dynamic_filter(x, sources, weight, bias, list(self.dilations))
        results = [branch.fuse(part) for branch, part in zip(branches, filtered.chunk(len(branches), 1))]
        return self.fuse(torch.cat([x] + results, 1))

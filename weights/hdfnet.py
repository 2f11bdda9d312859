"""The reference HDFNet (VGG16-BN, VGG19-BN, ResNet-50) in plain PyTorch.

It is the measure of correctness for the C++ engine and the model behind `export.py` and
`train.py`. Its state dict has the names and shapes of the published checkpoints, including the
spelling `gernerate_kernel`, so those load with `strict=True`. It needs nothing but torch.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VARIANTS = ("vgg16", "vgg19", "res50")

# Output channels of the 3x3 convolutions in each of the five VGG stages.
_VGG_STAGES: Dict[str, List[List[int]]] = {
    "vgg16": [[64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3],
    "vgg19": [[64] * 2, [128] * 2, [256] * 4, [512] * 4, [512] * 4],
}
_RESNET50_BLOCKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, count, stride


class BasicConv2d(nn.Module):
    """Convolution without bias, BatchNorm, ReLU: (N,in,H,W) -> (N,out,H,W)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3) -> None:
        super().__init__()
        self.basicconv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.basicconv(x)


class DenseLayer(nn.Module):
    """`k` densely connected convolutions on a reduced map, fused with the input.

    (N,in,H,W) -> (N,out,H,W); the inner maps have in / down_factor channels. The i-th convolution
    reads the earlier outputs first and the reduced input last: that order is part of the format.
    """

    def __init__(self, in_channels: int, out_channels: int, down_factor: int = 4, k: int = 4):
        super().__init__()
        mid = in_channels // down_factor
        self.down = nn.Conv2d(in_channels, mid, 1)
        self.denseblock = nn.ModuleList(BasicConv2d(mid * i, mid) for i in range(1, k + 1))
        self.fuse = BasicConv2d(in_channels + mid, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        reduced = self.down(x)
        outputs: List[Tensor] = []
        for block in self.denseblock:
            outputs.append(block(torch.cat(outputs + [reduced], dim=1)))
        return self.fuse(torch.cat([x, outputs[-1]], dim=1))


class DenseTransLayer(nn.Module):
    """Merges the two streams of one scale: rgb, depth (N,C,H,W) -> (N,out,H,W)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.fuse_down_mul = BasicConv2d(in_channels, in_channels)
        self.res_main = DenseLayer(in_channels, in_channels, in_channels // out_channels)
        self.fuse_main = BasicConv2d(in_channels, out_channels)

    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        fused = self.fuse_down_mul(rgb + depth)
        return self.fuse_main(self.res_main(fused) + fused)


def dynamic_filter(x: Tensor, kernels: Tensor, kernel_size: int, dilation: int) -> Tensor:
    """Filters every pixel of every channel with a kernel of its own.

    x (N,C,H,W), kernels (N,C*K*K,H,W), channel-major with row-major taps; result (N,C,H,W).
    Outside the map x is zero. The sizes are read from the tensors, so that a trace keeps them
    dynamic.
    """
    n, c, h, w = x.shape
    taps = kernel_size * kernel_size
    patches = F.unfold(
        x, kernel_size, dilation=dilation, padding=dilation * (kernel_size - 1) // 2
    ).reshape(n, c, taps, h, w)
    return (patches * kernels.reshape(n, c, taps, h, w)).sum(dim=2)


class DynamicBranch(nn.Module):
    """One dilation of a DDPM: x (N,mid,H,W), y (N,Cy,H,W) -> (N,mid,H,W).

    The taps are made from y at every pixel and used raw, without a softmax.
    """

    def __init__(
        self, y_channels: int, mid: int, kernel_size: int, dilation: int, down_factor: int
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.fuse = nn.Conv2d(mid, mid, 3, padding=1)
        self.gernerate_kernel = nn.Sequential(
            nn.Conv2d(y_channels, y_channels, 3, padding=1),
            DenseLayer(y_channels, y_channels, down_factor),
            nn.Conv2d(y_channels, mid * kernel_size * kernel_size, 1),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kernels = self.gernerate_kernel(y)
        return self.fuse(dynamic_filter(x, kernels, self.kernel_size, self.dilation))


class DDPM(nn.Module):
    """Dynamic dilated pyramid module: x (N,Cx,H,W), y (N,Cy,H,W) -> (N,out,H,W)."""

    def __init__(
        self,
        x_channels: int,
        y_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        down_factor: int = 4,
    ) -> None:
        super().__init__()
        mid = x_channels // down_factor
        self.down_input = nn.Conv2d(x_channels, mid, 1)
        self.branch_1 = DynamicBranch(y_channels, mid, kernel_size, 1, down_factor)
        self.branch_3 = DynamicBranch(y_channels, mid, kernel_size, 3, down_factor)
        self.branch_5 = DynamicBranch(y_channels, mid, kernel_size, 5, down_factor)
        self.fuse = BasicConv2d(4 * mid, out_channels)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.down_input(x)
        pyramid = [x, self.branch_1(x, y), self.branch_3(x, y), self.branch_5(x, y)]
        return self.fuse(torch.cat(pyramid, dim=1))


class Bottleneck(nn.Module):
    """ResNet's bottleneck with the stride on its 3x3: (N,in,H,W) -> (N,4*width,H/s,W/s)."""

    def __init__(self, in_channels: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        out_channels = 4 * width
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        # Sequential() is the identity and has no parameters, so that blocks without a projection
        # have no `downsample` keys, as in the published checkpoints.
        self.downsample = nn.Sequential()
        if project:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def _vgg_encoder(variant: str, in_channels: int) -> List[nn.Sequential]:
    """The five stages of VGG-BN, strides 1..16; all but the first begin with the max-pool."""
    stages = []
    channels = in_channels
    for index, widths in enumerate(_VGG_STAGES[variant]):
        layers: List[nn.Module] = [] if index == 0 else [nn.MaxPool2d(2, 2)]
        for width in widths:
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            channels = width
        stages.append(nn.Sequential(*layers))
    return stages


def _resnet50_encoder(in_channels: int) -> List[nn.Sequential]:
    """The five stages of ResNet-50, strides 2..32; the second begins with the max-pool."""
    stages = [
        nn.Sequential(
            nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
        )
    ]
    channels = 64
    for width, count, stride in _RESNET50_BLOCKS:
        blocks = []
        for index in range(count):
            blocks.append(Bottleneck(channels, width, stride if index == 0 else 1, index == 0))
            channels = 4 * width
        layer = nn.Sequential(*blocks)
        if len(stages) == 1:
            layer = nn.Sequential(nn.MaxPool2d(3, stride=2, padding=1), layer)
        stages.append(layer)
    return stages


def _resize_to(x: Tensor, other: Tensor) -> Tensor:
    """x resized bilinearly (align_corners=False) to the height and width of `other`."""
    return F.interpolate(x, size=other.shape[-2:], mode="bilinear", align_corners=False)


class HDFNetVGG(nn.Module):
    """HDFNet on VGG16-BN or VGG19-BN: rgb (N,3,H,W), depth (N,1,H,W) -> (N,1,H,W) in 0..1."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        (self.encoder1, self.encoder2, self.encoder4, self.encoder8, self.encoder16) = _vgg_encoder(
            variant, 3
        )
        (
            self.depth_encoder1,
            self.depth_encoder2,
            self.depth_encoder4,
            self.depth_encoder8,
            self.depth_encoder16,
        ) = _vgg_encoder(variant, 1)
        self.trans16 = nn.Conv2d(512, 64, 1)
        self.trans8 = nn.Conv2d(512, 64, 1)
        self.trans4 = nn.Conv2d(256, 64, 1)
        self.trans2 = nn.Conv2d(128, 64, 1)
        self.trans1 = nn.Conv2d(64, 32, 1)
        self.depth_trans16 = DenseTransLayer(512, 64)
        self.depth_trans8 = DenseTransLayer(512, 64)
        self.depth_trans4 = DenseTransLayer(256, 64)
        self.upconv16 = BasicConv2d(64, 64)
        self.upconv8 = BasicConv2d(64, 64)
        self.upconv4 = BasicConv2d(64, 64)
        self.upconv2 = BasicConv2d(64, 32)
        self.upconv1 = BasicConv2d(32, 32)
        self.selfdc_16 = DDPM(64, 64, 64)
        self.selfdc_8 = DDPM(64, 64, 64)
        self.selfdc_4 = DDPM(64, 64, 64)
        self.classifier = nn.Conv2d(32, 1, 1)

    def logits(self, rgb: Tensor, depth: Tensor) -> Tensor:
        """The map before the sigmoid, (N,1,H,W); losses are better conditioned on it."""
        r1 = self.encoder1(rgb)
        r2 = self.encoder2(r1)
        r4 = self.encoder4(r2)
        r8 = self.encoder8(r4)
        r16 = self.encoder16(r8)
        d4 = self.depth_encoder4(self.depth_encoder2(self.depth_encoder1(depth)))
        d8 = self.depth_encoder8(d4)
        d16 = self.depth_encoder16(d8)

        t8 = self.trans8(r8)
        t4 = self.trans4(r4)
        t2 = self.trans2(r2)
        t1 = self.trans1(r1)
        o16 = self.upconv16(self.trans16(r16))
        p16 = self.selfdc_16(o16, self.depth_trans16(r16, d16))
        o8 = self.upconv8(t8 + _resize_to(p16, t8))
        p8 = self.selfdc_8(o8, self.depth_trans8(r8, d8))
        o4 = self.upconv4(t4 + _resize_to(p8, t4))
        p4 = self.selfdc_4(o4, self.depth_trans4(r4, d4))
        o2 = self.upconv2(t2 + _resize_to(p4, t2))
        o1 = self.upconv1(t1 + _resize_to(o2, t1))
        return self.classifier(o1)

    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        return torch.sigmoid(self.logits(rgb, depth))


class HDFNetResNet50(nn.Module):
    """HDFNet on ResNet-50: rgb (N,3,H,W), depth (N,1,H,W) -> (N,1,2*ceil(H/2),2*ceil(W/2))."""

    def __init__(self) -> None:
        super().__init__()
        (self.encoder2, self.encoder4, self.encoder8, self.encoder16, self.encoder32) = (
            _resnet50_encoder(3)
        )
        (
            self.depth_encoder2,
            self.depth_encoder4,
            self.depth_encoder8,
            self.depth_encoder16,
            self.depth_encoder32,
        ) = _resnet50_encoder(1)
        self.trans32 = nn.Conv2d(2048, 64, 1)
        self.trans16 = nn.Conv2d(1024, 64, 1)
        self.trans8 = nn.Conv2d(512, 64, 1)
        self.trans4 = nn.Conv2d(256, 64, 1)
        self.trans2 = nn.Conv2d(64, 64, 1)
        self.depth_trans32 = DenseTransLayer(2048, 64)
        self.depth_trans16 = DenseTransLayer(1024, 64)
        self.depth_trans8 = DenseTransLayer(512, 64)
        self.upconv32 = BasicConv2d(64, 64)
        self.upconv16 = BasicConv2d(64, 64)
        self.upconv8 = BasicConv2d(64, 64)
        self.upconv4 = BasicConv2d(64, 64)
        self.upconv2 = BasicConv2d(64, 32)
        self.upconv1 = BasicConv2d(32, 32)
        self.selfdc_32 = DDPM(64, 64, 64)
        self.selfdc_16 = DDPM(64, 64, 64)
        self.selfdc_8 = DDPM(64, 64, 64)
        self.classifier = nn.Conv2d(32, 1, 1)

    def logits(self, rgb: Tensor, depth: Tensor) -> Tensor:
        """The map before the sigmoid, (N,1,2*ceil(H/2),2*ceil(W/2))."""
        r2 = self.encoder2(rgb)
        r4 = self.encoder4(r2)
        r8 = self.encoder8(r4)
        r16 = self.encoder16(r8)
        r32 = self.encoder32(r16)
        d8 = self.depth_encoder8(self.depth_encoder4(self.depth_encoder2(depth)))
        d16 = self.depth_encoder16(d8)
        d32 = self.depth_encoder32(d16)

        t16 = self.trans16(r16)
        t8 = self.trans8(r8)
        t4 = self.trans4(r4)
        t2 = self.trans2(r2)
        o32 = self.upconv32(self.trans32(r32))
        p32 = self.selfdc_32(o32, self.depth_trans32(r32, d32))
        o16 = self.upconv16(t16 + _resize_to(p32, t16))
        p16 = self.selfdc_16(o16, self.depth_trans16(r16, d16))
        o8 = self.upconv8(t8 + _resize_to(p16, t8))
        p8 = self.selfdc_8(o8, self.depth_trans8(r8, d8))
        o4 = self.upconv4(t4 + _resize_to(p8, t4))
        o2 = self.upconv2(t2 + _resize_to(o4, t2))
        # The original's last resize is a plain x2 with aligned corners, unlike the merges.
        doubled = F.interpolate(o2, scale_factor=2.0, mode="bilinear", align_corners=True)
        return self.classifier(self.upconv1(doubled))

    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        return torch.sigmoid(self.logits(rgb, depth))


def build(variant: str) -> nn.Module:
    """A new HDFNet of one of VARIANTS, in training mode, with torch's default initialisation."""
    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r}: expected one of {', '.join(VARIANTS)}")
    return HDFNetResNet50() if variant == "res50" else HDFNetVGG(variant)


def build_with(variant: str, state: Mapping[str, Tensor]) -> nn.Module:
    """An HDFNet in evaluation mode that holds the tensors of `state` itself, without a copy."""
    with torch.device("meta"):
        model = build(variant)
    model.load_state_dict(dict(state), strict=True, assign=True)
    return model.eval()


def state_shapes(variant: str) -> Dict[str, Tuple[int, ...]]:
    """Every state-dict key of a variant with its shape, in order. Allocates no parameters."""
    with torch.device("meta"):
        model = build(variant)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def variant_of(keys: Mapping[str, object]) -> str:
    """The variant that a state dict's keys belong to; ValueError when they fit none."""
    if "encoder32.0.conv1.weight" in keys:
        return "res50"
    if "encoder4.10.weight" in keys:
        return "vgg19"
    if "encoder4.7.weight" in keys:
        return "vgg16"
    raise ValueError(
        "these are not the parameters of an HDFNet: none of encoder4.7.weight (VGG16), "
        "encoder4.10.weight (VGG19), encoder32.0.conv1.weight (ResNet-50) is there"
    )

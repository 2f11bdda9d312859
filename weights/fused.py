"""The network with its DDPMs on the operators of libhdfnet_ops.so, for archives that any TorchScript
host runs once the library is loaded. Parameters keep their names and shapes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, Optional

import torch
from torch import Tensor, nn

import archive
import hdfnet

_LIBRARY = "libhdfnet_ops.so"
_BUILT = Path(__file__).resolve().parents[1] / "build" / "lib" / _LIBRARY


class OperatorsMissing(Exception):
    """The operators cannot be had; the message says why and what would help."""


def find_library() -> Optional[Path]:
    """What HDFNET_OPS_LIBRARY names, else that of this source tree's build."""
    named = os.environ.get("HDFNET_OPS_LIBRARY")
    if named:
        return Path(named)
    return _BUILT if _BUILT.is_file() else None


def load_operators(library: Optional[Path]) -> None:
    """Loads `library`, or the one that find_library finds, into this process."""
    path = library or find_library()
    if path is None:
        raise OperatorsMissing(
            f"{_LIBRARY} was not found in {_BUILT.parent}, and a fused archive can be neither made "
            "nor checked without it: build it (cmake --build --preset release), or "
            "name it by --ops-library or HDFNET_OPS_LIBRARY"
        )
    if not path.is_file():
        raise OperatorsMissing(f"{path}: no such file; {_LIBRARY} is needed")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise OperatorsMissing(
            f"{error}: {path} cannot be loaded into PyTorch {torch.__version__}; it must be built "
            f"against it (cmake --preset release -DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path})"
        ) from error
    if not hasattr(torch.ops.hdfnet, "generated_dynamic_filter"):
        raise OperatorsMissing(
            f"{path} has registered no operators in PyTorch {torch.__version__}; what it said above "
            "tells why"
        )


class FusedBranch(nn.Module):
    """One dilation's convolutions around the filter, under the names of hdfnet.DynamicBranch."""

    def __init__(self, branch: hdfnet.DynamicBranch) -> None:
        super().__init__()
        self.fuse = branch.fuse
        self.gernerate_kernel = branch.gernerate_kernel

    def features(self, y: Tensor) -> Tensor:
        """What the taps are made of: (N,Cy,H,W)."""
        return self.gernerate_kernel[1](self.gernerate_kernel[0](y))

    def taps(self, features: Tensor, kernel_size: int) -> Tensor:
        """(N,1,mid,K*K,H,W)"""
        taps = self.gernerate_kernel[2](features)
        n, c, h, w = taps.shape
        k2 = kernel_size * kernel_size
        return taps.view(n, 1, c // k2, k2, h, w)

    def generator_weight(self, x: Tensor) -> Tensor:
        """(mid*K*K,Cy), in the type of x."""
        return self.gernerate_kernel[2].weight_for(x).flatten(1)

    def generator_bias(self, x: Tensor) -> Tensor:
        """(mid*K*K)"""
        bias = self.gernerate_kernel[2].bias_for(x)
        assert bias is not None
        return bias


class FusedDDPM(nn.Module):
    """hdfnet.DDPM on the operators: x (N,Cx,H,W), y (N,Cy,H,W) -> (N,out,H,W).

    In half precision on CUDA the taps are made and used on the chip; elsewhere a convolution makes
    them, which is faster there.
    """

    def __init__(self, ddpm: hdfnet.DDPM) -> None:
        super().__init__()
        self.kernel_size: int = ddpm.branch_1.kernel_size
        self.down_input = ddpm.down_input
        self.branch_1 = FusedBranch(ddpm.branch_1)
        self.branch_3 = FusedBranch(ddpm.branch_3)
        self.branch_5 = FusedBranch(ddpm.branch_5)
        self.fuse = ddpm.fuse

    def filtered_on_chip(self, x: Tensor, features: List[Tensor]) -> List[Tensor]:
        """x filtered at the three dilations, (N,mid,H,W) each, its taps never stored."""
        weights = [
            self.branch_1.generator_weight(x),
            self.branch_3.generator_weight(x),
            self.branch_5.generator_weight(x),
        ]
        biases = [
            self.branch_1.generator_bias(x),
            self.branch_3.generator_bias(x),
            self.branch_5.generator_bias(x),
        ]
        result = torch.ops.hdfnet.generated_dynamic_filter(
            x, torch.stack(features, 1), torch.stack(weights), torch.stack(biases), [1, 3, 5], False
        )
        return result.chunk(3, 1)

    def filtered_with_stored_taps(self, x: Tensor, features: List[Tensor]) -> List[Tensor]:
        """The same, a branch at a time: joining the taps of all would copy them."""
        taps_1 = self.branch_1.taps(features[0], self.kernel_size)
        result_1 = torch.ops.hdfnet.dynamic_filter(x, taps_1, [1], False)
        taps_3 = self.branch_3.taps(features[1], self.kernel_size)
        result_3 = torch.ops.hdfnet.dynamic_filter(x, taps_3, [3], False)
        taps_5 = self.branch_5.taps(features[2], self.kernel_size)
        result_5 = torch.ops.hdfnet.dynamic_filter(x, taps_5, [5], False)
        return [result_1, result_3, result_5]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.down_input(x)
        features = [self.branch_1.features(y), self.branch_3.features(y), self.branch_5.features(y)]
        if x.is_cuda and (x.dtype == torch.float16 or x.dtype == torch.bfloat16):
            parts = self.filtered_on_chip(x, features)
        else:
            parts = self.filtered_with_stored_taps(x, features)
        pyramid = [
            x,
            self.branch_1.fuse(parts[0]),
            self.branch_3.fuse(parts[1]),
            self.branch_5.fuse(parts[2]),
        ]
        return self.fuse(torch.cat(pyramid, dim=1))


def fuse_ddpms(network: nn.Module) -> None:
    """Puts a FusedDDPM in the place of each DDPM of `network`; the operators must be loaded."""
    for name, child in network.named_children():
        if isinstance(child, hdfnet.DDPM):
            for branch in (child.branch_1, child.branch_3, child.branch_5):
                generator = branch.gernerate_kernel[2]
                if isinstance(generator, nn.Conv2d):
                    stored = archive.StoredConv2d(generator, generator.weight.dtype)
                    branch.gernerate_kernel[2] = stored
            setattr(network, name, FusedDDPM(child))

"""Weights and inputs made by a rule, so that tests need no stored parameters.

The numbers depend only on a parameter's name and shape. `vgg16`, `vgg19` and `res50` filled this
way have reference outputs that were computed with the original network in float64.
"""

from __future__ import annotations

import math
import zlib
from typing import Dict, Mapping, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

# Keeps the rule-made maps away from a flat 0.5, so that a wrong map is seen as wrong.
CLASSIFIER_SCALE = {"vgg16": 8.0, "vgg19": 8.0, "res50": 1.0}

INPUT_SIZES: Dict[str, Tuple[int, int, int]] = {  # tag: batch, height, width
    "even": (2, 96, 128),
    "odd": (1, 97, 131),
    "full": (1, 320, 320),
}

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_CHUNK = 1 << 18  # values per pass: small enough for the temporaries to stay in cache


def uniform(name: str, count: int) -> np.ndarray:
    """`count` float64 values in [-1,1) that depend on `name` alone (splitmix64 of its CRC-32)."""
    out = np.empty(count, dtype=np.float64)
    base = zlib.crc32(name.encode()) << 32
    ramp = np.arange(_CHUNK, dtype=np.uint64) * np.uint64(_GOLDEN_GAMMA)
    for begin in range(0, count, _CHUNK):
        end = min(begin + _CHUNK, count)
        first = (base + (begin + 1) * _GOLDEN_GAMMA) & 0xFFFFFFFFFFFFFFFF
        z = ramp[: end - begin] + np.uint64(first)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z >>= np.uint64(11)
        np.multiply(z, 2.0**-52, out=out[begin:end])
    out -= 1.0
    return out


def parameter(name: str, shape: Sequence[int]) -> Tensor:
    """The parameter or buffer `name` of shape `shape`, float32 (int64 for the batch counter)."""
    shape = tuple(shape)
    if name.endswith("num_batches_tracked"):
        return torch.zeros(shape, dtype=torch.int64)
    values = uniform(name, math.prod(shape))
    if name.endswith("running_mean"):
        values *= 0.1
    elif name.endswith("running_var"):
        values = 1.0 + 0.5 * np.abs(values)
    elif name.endswith("bias"):
        values *= 0.1
    elif len(shape) == 4:
        values *= math.sqrt(4.0 / (shape[1] * shape[2] * shape[3]))
    else:
        values = 1.0 + 0.1 * values
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def state_dict(shapes: Mapping[str, Sequence[int]], variant: str = "") -> Dict[str, Tensor]:
    """Rule-made tensors for every name in `shapes`; `variant` scales the classifier."""
    state = {name: parameter(name, shape) for name, shape in shapes.items()}
    if variant:
        state["classifier.weight"] *= CLASSIFIER_SCALE[variant]
    return state


def inputs(tag: str) -> Tuple[Tensor, Tensor]:
    """rgb (N,3,H,W) and depth (N,1,H,W) of the input set `tag`, float32."""
    n, h, w = INPUT_SIZES[tag]
    rgb = uniform(f"{tag}.rgb", n * 3 * h * w).astype(np.float32).reshape(n, 3, h, w)
    depth = 0.5 + 0.5 * uniform(f"{tag}.depth", n * h * w)
    return torch.from_numpy(rgb), torch.from_numpy(depth.astype(np.float32).reshape(n, 1, h, w))

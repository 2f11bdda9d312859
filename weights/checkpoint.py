"""Reading HDFNet checkpoints (.pth) without running code from them, and checking their content."""

from __future__ import annotations

import math
import pickle
import zipfile
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

import hdfnet

# Where training scripts put the state dict when they save more than the weights.
_NESTING_KEYS = ("state_dict", "model", "model_state_dict", "net", "network", "weights")
_MOST_LISTED = 12


class CheckpointError(Exception):
    """A file that cannot be used as HDFNet weights; the message says why and what would help."""


def read_file(path: Path) -> object:
    """Whatever the checkpoint holds, read with torch's restricted unpickler only."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise CheckpointError(f"{path}: the file is empty")
    if head.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path}: a Git-LFS pointer, not the file; run `git lfs pull`")
    if zipfile.is_zipfile(path) and _is_torchscript(path):
        raise CheckpointError(f"{path}: this is a TorchScript archive already, not a checkpoint; "
                              "to make another archive of it use --archive")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), "")
        if not reason or "operand" in reason:
            raise CheckpointError(f"{path}: truncated or not a PyTorch checkpoint") from error
        raise CheckpointError(
            f"{path}: refused, since it holds more than tensors and plain containers ({reason}). "
            "Loading it would mean running code from it. Save the state dict alone, "
            "torch.save(model.state_dict(), ...), where the file comes from."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{path}: truncated or not a PyTorch checkpoint: {error}") from error


def _is_torchscript(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def state_of(content: object) -> Dict[str, Tensor]:
    """The state dict inside a checkpoint, out of its nesting and without `module.` prefixes."""
    if not isinstance(content, Mapping):
        raise CheckpointError(f"expected a dictionary of tensors, found {type(content).__name__}")
    for _ in range(3):
        if any(isinstance(value, Tensor) for value in content.values()):
            break
        nested = [content[k] for k in _NESTING_KEYS if isinstance(content.get(k), Mapping)]
        if not nested:
            raise CheckpointError(
                "found no tensors: neither at the top level nor under "
                f"{', '.join(_NESTING_KEYS)}; the keys are {_listed(list(map(str, content)))}"
            )
        content = nested[0]
    state: Dict[str, Tensor] = {}
    for key, value in content.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(f"{key}: expected a tensor, found {type(value).__name__}")
        name = str(key)
        while name.startswith("module."):
            name = name[len("module.") :]
        if name in state:
            raise CheckpointError(f"{name}: there twice, with and without the prefix `module.`")
        state[name] = value
    return state


def check(
    state: Mapping[str, Tensor], variant: Optional[str] = None
) -> Tuple[str, Dict[str, Tensor]]:
    """The variant and its float32 tensors in the model's order; CheckpointError names each fault.

    BatchNorm's batch counters may be absent: PyTorch before 0.4.1 had none, and inference reads
    none.
    """
    if variant is None:
        try:
            variant = hdfnet.variant_of(state)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
    shapes = hdfnet.state_shapes(variant)
    missing, misshaped, not_finite = [], [], []
    result: Dict[str, Tensor] = {}
    for name, shape in shapes.items():
        counter = name.endswith("num_batches_tracked")
        if name not in state:
            if counter:
                result[name] = torch.zeros(shape, dtype=torch.int64)
            else:
                missing.append(f"{name} {_shape_text(shape)}")
            continue
        tensor = state[name].detach()
        if tuple(tensor.shape) != shape and not (counter and tensor.numel() == 1):
            misshaped.append(
                f"{name}: expected {_shape_text(shape)}, found {_shape_text(tuple(tensor.shape))}"
            )
            continue
        if counter:
            result[name] = tensor.reshape(shape).to(torch.int64)
            continue
        if tensor.is_quantized or tensor.is_complex() or not tensor.is_floating_point():
            misshaped.append(f"{name}: expected floating point, found {tensor.dtype}")
            continue
        result[name] = tensor.to(torch.float32).contiguous()
        if not bool(torch.isfinite(result[name]).all()):
            count = int((~torch.isfinite(result[name])).sum())
            not_finite.append(f"{name}: {count} of {math.prod(shape)} values are NaN or infinite")
    unexpected = [f"{k} {_shape_text(tuple(v.shape))}" for k, v in state.items() if k not in shapes]
    faults = (
        ("missing", missing),
        ("unexpected", unexpected),
        ("mis-shaped", misshaped),
        ("non-finite", not_finite),
    )
    lines = [f"{len(names)} {kind}: {_listed(names)}" for kind, names in faults if names]
    if lines:
        raise CheckpointError("\n".join([f"these do not fit HDFNet {variant}:"] + lines))
    return variant, result


def load(path: Path, variant: Optional[str] = None) -> Tuple[str, Dict[str, Tensor]]:
    """The variant and the checked float32 state dict of a checkpoint file."""
    content = read_file(path)
    try:
        return check(state_of(content), variant)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _shape_text(shape: Tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _listed(names: List[str]) -> str:
    more = len(names) - _MOST_LISTED
    return "; ".join(names[:_MOST_LISTED]) + (f"; and {more} more" if more > 0 else "")

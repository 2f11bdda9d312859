"""Reading the parameters of a TorchScript archive (.pt) without compiling or running its code."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

import checkpoint
from checkpoint import CheckpointError

_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "ShortStorage": torch.int16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "BoolStorage": torch.bool,
}
_DEEPEST = 64  # a module tree that refers to itself must not recurse for ever


class _Module:
    """Stands for every module class of an archive: holds its attributes."""

    def __init__(self) -> None:
        self.attributes: Dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        self.attributes = state if isinstance(state, dict) else {}


def _rebuild_tensor(flat: Tensor, offset: int, size: Tuple[int, ...], stride: Tuple[int, ...], *_):
    return torch.as_strided(flat, size, stride, offset)  # refuses what lies outside


_ALLOWED = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("collections", "OrderedDict"): dict,
    ("torch.jit._pickle", "restore_type_tag"): lambda value, tag: value,
    ("torch.jit._pickle", "build_intlist"): lambda value: value,
    ("torch.jit._pickle", "build_doublelist"): lambda value: value,
    ("torch.jit._pickle", "build_boollist"): lambda value: value,
    ("torch.jit._pickle", "build_tensorlist"): lambda value: value,
}


class _Unpickler(pickle.Unpickler):
    """Builds modules, containers and tensors, and nothing else."""

    def __init__(self, reader: torch._C.PyTorchFileReader) -> None:
        super().__init__(io.BytesIO(reader.get_record("data.pkl")))
        self.reader = reader
        self.storages: Dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return _Module
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        raise CheckpointError(f"its pickle names {module}.{name}, which no network needs; refused")

    def persistent_load(self, reference: Tuple[Any, ...]) -> Tensor:
        _, dtype, key, _, _ = reference
        if key not in self.storages:
            data = bytearray(self.reader.get_record(f"data/{key}"))
            self.storages[key] = (
                torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
            )
        return self.storages[key]


def _collect(value: Any, prefix: str, depth: int, found: Dict[str, Tensor]) -> None:
    if not isinstance(value, _Module) or depth > _DEEPEST:
        return
    for name, attribute in value.attributes.items():
        if isinstance(attribute, Tensor):
            found[f"{prefix}{name}"] = attribute
        else:
            _collect(attribute, f"{prefix}{name}.", depth + 1, found)


def stored_parameters(path: Path) -> Dict[str, Tensor]:
    """Every tensor of the archive by its name, as it is stored."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    try:
        reader = torch._C.PyTorchFileReader(str(path))
        records: List[str] = reader.get_all_records()
    except RuntimeError as error:
        raise CheckpointError(f"{path}: truncated or not a TorchScript archive") from error
    if "data.pkl" not in records or "constants.pkl" not in records:
        raise CheckpointError(
            f"{path}: not a TorchScript archive; for a checkpoint of torch.save use --checkpoint"
        )
    found: Dict[str, Tensor] = {}
    try:
        _collect(_Unpickler(reader).load(), "", 0, found)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle can raise anything
        raise CheckpointError(f"{path}: damaged: {error}") from error
    if not found:
        raise CheckpointError(
            f"{path}: holds no named parameters (torch.jit.freeze makes them constants of the code)"
        )
    return found


def dequantised(stored: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """int8 weights times their scales, one for each output channel; the rest as it is."""
    result = {}
    for name, tensor in stored.items():
        if name.endswith("_scale") and name[: -len("_scale")] in stored:
            continue
        if tensor.dtype == torch.int8:
            scale = stored.get(f"{name}_scale")
            if scale is None or scale.numel() != tensor.shape[0]:
                raise CheckpointError(
                    f"{name}: is int8 and needs {name}_scale, one value for each of its "
                    f"{tensor.shape[0]} output channels"
                )
            tensor = tensor.float() * scale.float().reshape(-1, *[1] * (tensor.dim() - 1))
        result[name] = tensor
    return result


def load(path: Path, variant: Optional[str] = None) -> Tuple[str, Dict[str, Tensor]]:
    """The variant and the checked float32 state dict of an archive."""
    stored = stored_parameters(path)
    try:
        return checkpoint.check(dequantised(stored), variant)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error

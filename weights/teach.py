"""Writes earlier networks' maps of the training images, for train.py --maps.

    python weights/teach.py --data PACK --archive EARLIER.pt [ANOTHER.pt U2NET.npz ...] --out MAPS

The images are those whose masks come from the RGB network: there the maps stand for what the RGB-D
network might have chosen, whose masks were among those that the earlier networks learnt. Of several
networks the mean is written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import List, Optional, Sequence

import torch
from PIL import Image
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

import train  # noqa: E402

_BATCH = 4


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write maps of the training images.")
    parser.add_argument("--data", type=Path, required=True, help="the training pack")
    parser.add_argument(
        "--archive",
        type=Path,
        nargs="+",
        required=True,
        dest="archives",
        help="archives (.pt) and U²-Nets (.npz, see refine.py)",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--limit", type=int, default=0, help="images per source, for a trial")
    return parser.parse_args(arguments)


def quantised(maps: Tensor) -> Tensor:
    """Maps in 0..1 as 8-bit planes of 17 levels, which compress to a tenth."""
    return ((maps * 16).round() * (255 / 16)).round().to(torch.uint8)


def mean_maps(
    models: Sequence[nn.Module], images: train.Images, index: Tensor, size: int
) -> Tensor:
    """The mean of the networks' maps (N,1,S,S) in 0..1 of the images `index`."""
    found = [train.maps_of(model, images, index, size, blind=False) for model in models]
    return torch.stack(found).mean(dim=0)


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse_arguments(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = train.Images(options.data, options.limit, device)
    models = [train.read_network(path).eval().to(device) for path in options.archives]
    options.out.mkdir(parents=True, exist_ok=True)
    for part in images.of("train").split(_BATCH):
        with torch.inference_mode():
            maps = mean_maps(models, images, part, options.size)
        for i, plane in zip(part.tolist(), quantised(maps)[:, 0].cpu().numpy()):
            stem = images.names[i].split("/")[1]
            Image.fromarray(plane).save(options.out / f"{stem}.png", optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

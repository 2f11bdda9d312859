#!/usr/bin/env python3
"""Makes the picture of README.md from what hdfnet-infer writes for the example pairs.

    build/bin/hdfnet-infer --dataset examples --out build/figure --save map,overlay
    .venv/bin/python examples/make_figure.py --results build/figure

One row a pair: RGB, depth, saliency map, overlay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT, GAP = 240, 180, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, required=True, help="the folder given to hdfnet-infer as --out")
    parser.add_argument("--out", type=Path, default=HERE / "figure.jpg", help="the picture to write")
    arguments = parser.parse_args()
    names = sorted(file.stem for file in (HERE / "rgb").glob("*.jpg"))
    rows = [[HERE / "rgb" / f"{name}.jpg", HERE / "depth" / f"{name}.png",
             arguments.results / f"{name}.png", arguments.results / f"{name}_overlay.png"] for name in names]
    missing = [str(file) for row in rows for file in row if not file.is_file()]
    if missing:
        sys.exit("missing: " + ", ".join(missing) + "\nRun hdfnet-infer first:" + __doc__.split("\n\n")[1])

    figure = Image.new("RGB", (4 * WIDTH + 3 * GAP, len(rows) * HEIGHT + (len(rows) - 1) * GAP), "white")
    for y, row in enumerate(rows):
        for x, file in enumerate(row):
            picture = Image.open(file).convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
            figure.paste(picture, (x * (WIDTH + GAP), y * (HEIGHT + GAP)))
    figure.save(arguments.out, quality=92, subsampling=0)
    print(arguments.out)


if __name__ == "__main__":
    main()

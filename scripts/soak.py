#!/usr/bin/env python3
"""Runs hdfnet-infer over many pairs and watches its resident memory: it must stay flat after the warm-up.

    .venv/bin/python scripts/soak.py [--pairs 10000] [--size 32] [--tolerance 2] [-- OPTIONS OF hdfnet-infer]

The pairs are made here: 60 small pictures of different sizes and kinds, linked under as many names as are
asked for. Prints the memory by tenths of the run; exit status 1 when it left the tolerance (in per cent).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import List, Tuple

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
KINDS = 60


def make_sources(folder: Path) -> List[Tuple[Path, Path]]:
    """RGB as JPEG and PNG; depth with 8 and 16 bits, with gaps in the latter."""
    sources = []
    generator = np.random.default_rng(1)
    for index in range(KINDS):
        width, height = 80 + 5 * (index % 12), 60 + 7 * (index % 9)
        ramp = np.linspace(0, 200, width * height).reshape(height, width)
        noise = generator.integers(0, 56, (height, width, 3))
        rgb = folder / f"rgb{index}.{'jpg' if index % 3 else 'png'}"
        Image.fromarray((ramp[..., None] + noise).astype(np.uint8)).save(rgb)
        depth = folder / f"depth{index}.png"
        if index % 2:
            values = (500 + 20 * ramp).astype(np.uint16)
            values[:: 3 + index % 5, ::4] = 0
            Image.fromarray(values).save(depth)
        else:
            Image.fromarray(ramp.astype(np.uint8)).save(depth)
        sources.append((rgb, depth))
    return sources


def make_pairs(folder: Path, count: int) -> None:
    for name in ("sources", "rgb", "depth"):
        (folder / name).mkdir()
    sources = make_sources(folder / "sources")
    for index in range(count):
        rgb, depth = sources[index % KINDS]
        os.link(rgb, folder / f"rgb/{index:06}{rgb.suffix}")
        os.link(depth, folder / f"depth/{index:06}.png")


def resident_kb(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0  # it has ended


class Watched:
    """The running program: pairs done and memory over time."""

    def __init__(self, line: List[str]) -> None:
        self.done = 0
        self.samples: List[Tuple[int, int]] = []  # pairs done, resident kB
        begin = time.monotonic()
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE)
        reader = threading.Thread(target=self._count)
        reader.start()
        while self.process.poll() is None:
            kb = resident_kb(self.process.pid)
            if kb:
                self.samples.append((self.done, kb))
            time.sleep(0.1)
        reader.join()
        self.seconds = time.monotonic() - begin

    def _count(self) -> None:
        for _ in self.process.stdout:
            self.done += 1


def report(samples: List[Tuple[int, int]], pairs: int, tolerance: float) -> bool:
    """The first tenth of the run is the warm-up; the second is what the later ones are compared with."""
    tenths: List[List[int]] = [[] for _ in range(10)]
    for done, kb in samples:
        tenths[min(9, 10 * done // pairs)].append(kb)
    if not all(tenths):
        print("the run was too short to sample every tenth of it")
        return False
    reference = statistics.median(tenths[1])
    print("pairs           median MB    least     most   median against the second tenth")
    for index, values in enumerate(tenths):
        median = statistics.median(values)
        print(
            f"{index * pairs // 10:6}..{(index + 1) * pairs // 10:<7} {median / 1e3:9.1f} {min(values) / 1e3:8.1f}"
            f" {max(values) / 1e3:8.1f}   {100 * (median / reference - 1):+6.2f} %"
        )
    worst = max(abs(statistics.median(values) / reference - 1) for values in tenths[1:])
    most = max(max(values) for values in tenths[1:]) / reference - 1
    print(f"after the warm-up: medians within {100 * worst:.2f} %, highest sample {100 * most:+.2f} %")
    return 100 * max(worst, most) <= tolerance


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=10000)
    parser.add_argument("--size", default="32")
    parser.add_argument("--tolerance", type=float, default=2.0, help="per cent")
    parser.add_argument("options", nargs="*", help="for hdfnet-infer, after --")
    arguments = parser.parse_args()
    program = os.environ.get("HDFNET_INFER", str(ROOT / "build/bin/hdfnet-infer"))
    with tempfile.TemporaryDirectory(prefix="hdfnet-soak-") as name:
        folder = Path(name)
        make_pairs(folder, arguments.pairs)
        line = [program, "--rgb", str(folder / "rgb"), "--depth", str(folder / "depth")]
        line += ["--out", str(folder / "out"), "--size", arguments.size]
        line += ["--manifest", str(folder / "manifest.jsonl"), *arguments.options]
        print(" ".join(line).replace(name, "TMP"), flush=True)
        watched = Watched(line)
        written = sum(1 for file in (folder / "out").iterdir())
    print(f"{written} maps in {watched.seconds:.0f} s, {len(watched.samples)} samples of the memory")
    flat = report(watched.samples, arguments.pairs, arguments.tolerance)
    complete = watched.process.returncode == 0 and written == arguments.pairs
    print("flat" if flat else f"NOT flat within {arguments.tolerance:g} %")
    return 0 if flat and complete else 1


if __name__ == "__main__":
    sys.exit(main())

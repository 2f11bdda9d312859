#!/usr/bin/env python3
"""Measures what reading, writing and their threads add to the network's own time, on the CPU.

    taskset -c 0,1 .venv/bin/python scripts/pipeline_overhead.py [--pairs 60] [--rounds 5] [--passes 20]

Each round runs hdfnet-infer on copies of the example pairs. The network's own time is that of the module
report (passes over the first batch with nothing beside them); the pipeline's is what a run over all pairs takes
longer than one over a quarter of them, by pair. Wants a machine that does nothing else. Exit status 1: more
than 3 per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, Tuple

ROOT = Path(__file__).resolve().parents[1]
MOST_PER_CENT = 3.0


def make_pairs(folder: Path, count: int) -> None:
    sources = sorted((ROOT / "examples/rgb").iterdir())
    for kind in ("rgb", "depth"):
        (folder / kind).mkdir()
    for index in range(count):
        rgb = sources[index % len(sources)]
        (folder / f"rgb/{index:03}.jpg").write_bytes(rgb.read_bytes())
        depth = ROOT / f"examples/depth/{rgb.stem}.png"
        (folder / f"depth/{index:03}.png").write_bytes(depth.read_bytes())


def seconds(line: List[str]) -> float:
    begin = time.monotonic()
    done = subprocess.run(line, stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"hdfnet-infer ended with {done.returncode}")
    return time.monotonic() - begin


def one_round(few: List[str], many: List[str], more: int, timing: Path) -> Tuple[float, float]:
    """Milliseconds per pair: the network alone, the whole pipeline. Two runs that differ by `more` pairs
    alone, so that what happens once in a run does not count."""
    pipeline = 1e3 * (seconds(many) - seconds(few)) / more
    stages = {row["name"]: row for row in json.loads(timing.read_text())["stages"]}
    return stages["network"]["median_ms"], pipeline


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=20, help="of the network alone, each round")
    parser.add_argument("options", nargs="*", help="for hdfnet-infer, after --")
    arguments = parser.parse_args()
    program = os.environ.get("HDFNET_INFER", str(ROOT / "build/bin/hdfnet-infer"))
    busy = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} cores, load {busy:.2f} before the start")
    if busy > 0.5:
        print("warning: other programs are running; the figures are worth little")
    with tempfile.TemporaryDirectory(prefix="hdfnet-overhead-") as name:
        folder = Path(name)
        timing = folder / "timing.json"
        line = [program, "--quiet", "--device", "cpu", "--batch", "1", "--out", str(folder / "out")]
        line += ["--timing-json", str(timing), "--repeat", str(arguments.passes), *arguments.options]
        lines = []
        for count in (arguments.pairs // 4, arguments.pairs):
            part = folder / str(count)
            part.mkdir()
            make_pairs(part, count)
            lines.append(line + ["--rgb", str(part / "rgb"), "--depth", str(part / "depth")])
        added = []
        for number in range(arguments.rounds):
            more = arguments.pairs - arguments.pairs // 4
            network, pipeline = one_round(*lines, more, timing)
            added.append(100 * (pipeline / network - 1))
            print(
                f"round {number}: network alone {network:.1f} ms, pipeline {pipeline:.1f} ms a pair:"
                f" {added[-1]:+.2f} %"
            )
    print(f"median: {statistics.median(added):+.2f} %")
    return 0 if statistics.median(added) <= MOST_PER_CENT else 1


if __name__ == "__main__":
    sys.exit(main())

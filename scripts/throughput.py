#!/usr/bin/env python3
"""Measures hdfnet-infer on a whole folder beside what bounds it: the network alone, and reading and writing
alone, on the same cores in the same run; and beside a script in the authors' way (one_by_one.py).

    .venv/bin/python scripts/throughput.py [--pairs 2000] [--cores 16] [--device cuda:0] [--precision fp16]
        [--batch 32,auto] [--rounds 3] [--peer-pairs 200] [--bin build/bin] [--work DIR] [--out throughput]

The pairs, 640x480 JPEG (quality 95) and 16-bit PNG depth, are made from the example pairs first, by all cores.
Then, each bound to the first --cores cores, in turn --rounds times: `hdfnet-bench folder` (reading and writing
alone; its network answers each pair with the middlemost map of a run before; beside a GPU, which resizes the
pictures, without that) and hdfnet-infer with each --batch. `hdfnet-bench network` gives the network alone. Three rates are given of hdfnet-infer:
  process  with the start of the process, of the device and the loading of the weights
  run      as hdfnet-infer says at its end: from the first pair on; this is the one compared
  steady   after the first quarter of the results
Writes OUT.json and OUT.md after each step. Exit status 1: less than 80 per cent of the lower bound or less
than 5 times the authors' way, or a step failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

import folder_runs as runs

ROOT = runs.ROOT
LEAST_SHARE = 0.8
LEAST_RATIO = 5.0


# --- the verdict and the report, from the values alone ---


def rates_of(rounds: List[dict], kind: str) -> Optional[float]:
    return runs.middle([facts.get(kind) for facts in rounds if facts.get("status") == 0])


def verdict(values: dict) -> dict:
    """Which bound is the lower one, the share of it that is reached, and the ratio to the authors' way.
    Empty as long as something for it is missing."""
    bounds = {"network": values.get("network", {}).get("pairs/s"),
              "reading and writing": rates_of(values.get("reading and writing", []), "pairs/s")}
    if not all(bounds.values()):
        return {}
    binding = min(bounds, key=lambda name: bounds[name])
    result = {"binding": binding, "bound pairs/s": bounds[binding], "infer": {}}
    peer = values.get("one by one", {}).get("pairs/s")
    for batch, rounds in values.get("infer", {}).items():
        rate = rates_of(rounds, "pairs/s")
        if rate is None:
            continue
        steady, process = (rates_of(rounds, kind) for kind in ("steady pairs/s", "process pairs/s"))
        result["infer"][batch] = {
            "pairs/s": rate, "share": rate / bounds[binding],
            "steady share": steady / bounds[binding] if steady else None,
            "ratio": rate / peer if peer else None,
            "process ratio": process / peer if peer else None,
        }
    return result


def reached(found: dict) -> bool:
    """Whether every batch reaches what it must."""
    rows = found.get("infer", {}).values()
    return bool(rows) and all(
        row["share"] >= LEAST_SHARE and (row["ratio"] or 0) >= LEAST_RATIO for row in rows
    )


def rate_rows(values: dict) -> List[List[object]]:
    rows: List[List[object]] = [["the network alone", None, values.get("network", {}).get("pairs/s"), None]]
    files = rates_of(values.get("reading and writing", []), "pairs/s")
    rows.append(["reading and writing alone", None, files, None])
    for batch, rounds in values.get("infer", {}).items():
        kinds = ("process pairs/s", "pairs/s", "steady pairs/s")
        rows.append([f"hdfnet-infer, batch {batch}", *(rates_of(rounds, kind) for kind in kinds)])
    rows.append(["one by one, as the authors do", None, values.get("one by one", {}).get("pairs/s"), None])
    return rows


def markdown(values: dict) -> List[str]:
    lines = runs.environment_lines(values)
    lines += ["Pairs a second, the middle of the rounds.", ""]
    lines += runs.table(["what", "process", "run", "steady"], rate_rows(values))
    found = verdict(values)
    if found:
        lines += ["", f"**{found['binding']}** binds, at {runs.number(found['bound pairs/s'])} pairs/s.", ""]
        lines += runs.table(
            ["batch", "share of the bound", "steady share", "x one by one", "x one by one, with the start"],
            [[batch, row["share"], row["steady share"], row["ratio"], row["process ratio"]]
             for batch, row in found["infer"].items()])
    rounds = [facts for facts in values.get("reading and writing", []) if "decode ms" in facts]
    if rounds:
        stages = ("decode ms", "preprocess ms", "postprocess ms", "encode ms")
        lines += ["", "Milliseconds a pair on one core, reading and writing alone:", ""]
        lines += runs.table(list(stages), [[rounds[-1][stage] for stage in stages]])
    return lines + [""] + runs.failed_steps(values)


# --- the steps ---


class Measurement:
    def __init__(self, options: argparse.Namespace, work: Path, results: runs.Results) -> None:
        self.options = options
        self.work = work
        self.results = results
        self.cores = sorted(os.sched_getaffinity(0))[: options.cores]
        self.folder = work / "pairs"
        self.answer: Optional[Path] = None

    def all(self) -> None:
        step = self.results.step
        if step("pairs", lambda: runs.make_pairs(self.folder, self.options.pairs)) is None:
            return
        step("first run", self.first_run)
        step("network", self.network_alone)
        files: List[dict] = []
        infer: Dict[str, List[dict]] = {batch: [] for batch in self.options.batch.split(",")}
        for number in range(self.options.rounds):
            step(f"round {number}: reading and writing", lambda: self.kept(files, self.files_alone))
            self.results.add("reading and writing", files)
            for batch, rounds in infer.items():
                step(f"round {number}: batch {batch}", lambda: self.kept(rounds, lambda: self.infer(batch)))
                self.results.add("infer", infer)
        step("one by one", self.one_by_one)

    @staticmethod
    def kept(rounds: List[dict], work) -> dict:
        facts = work()
        rounds.append(facts)
        return facts

    def run(self, line: List[str]) -> runs.Run:
        return runs.run_once(runs.on_cores(self.cores) + line, self.work, self.options.timeout)

    def infer(self, batch: str) -> dict:
        out = self.work / "maps"
        shutil.rmtree(out, ignore_errors=True)
        line = [str(self.options.bin / "hdfnet-infer"), *runs.inputs(self.folder), "--out", str(out)]
        line += ["--weights", str(self.options.weights), "--device", self.options.device]
        line += ["--precision", self.options.precision, "--batch", batch]
        run = self.run(line)
        return {"line": line, **run.facts()}

    def first_run(self) -> dict:
        """With libraries and files that nobody has read yet; its maps give the answer of the network that is
        none."""
        facts = self.infer(self.options.batch.split(",")[0])
        self.answer = runs.middle_file(self.work / "maps", self.work / "answer.png")
        return {"answer bytes": self.answer.stat().st_size, **facts}

    def bench(self, *arguments: str) -> dict:
        line = runs.on_cores(self.cores) + [str(self.options.bin / "hdfnet-bench"), *arguments]
        return runs.bench_row(line, self.work, self.options.timeout)

    def network_alone(self) -> dict:
        batches = [batch for batch in self.options.batch.split(",") if batch != "auto"]
        row = self.bench(
            "network", "--who", "engine", "--no-memory", "--weights", str(self.options.weights), "--device",
            self.options.device, "--precision", self.options.precision, "--batch", batches[0] if batches else "1",
            "--repeat", str(self.options.passes))
        return {"pairs/s": row["images/s"], **row}

    def files_alone(self) -> dict:
        if self.answer is None:
            raise RuntimeError("there is no map of a first run to answer with")
        out = self.work / "maps"
        shutil.rmtree(out, ignore_errors=True)
        batch = self.options.batch.split(",")[0]
        return self.bench("folder", *runs.inputs(self.folder), "--out", str(out), "--answer", str(self.answer),
                          "--batch", batch if batch != "auto" else "32", *runs.without_resizing(self.options.device))

    def one_by_one(self) -> dict:
        line = [sys.executable, str(ROOT / "scripts/one_by_one.py"), *runs.inputs(self.folder)]
        line += ["--out", str(self.work / "one-by-one"), "--weights", str(self.options.weights)]
        line += ["--device", self.options.device, "--pairs", str(self.options.peer_pairs)]
        report = self.work / "one-by-one.json"
        run = self.run([*line, "--json", str(report)])
        if run.status != 0:
            raise RuntimeError(f"one_by_one.py ended with {run.status}: {run.said.strip()[-300:]}")
        return json.loads(report.read_text())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--batch", default="32,auto", help="the first is that of the network alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=30, help="of the network alone")
    parser.add_argument("--peer-pairs", type=int, default=200, help="for the authors' way")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for one process")
    runs.add_places(parser, "throughput")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    results = runs.Results(options.out, "hdfnet-infer on a whole folder", markdown)
    results.add("command", shlex.join(sys.argv))
    results.add("environment", runs.environment_of(options.bin / "hdfnet-infer", options.commit))
    with tempfile.TemporaryDirectory(prefix="hdfnet-throughput-") as name:
        Measurement(options, runs.work_folder(options, name), results).all()
    found = verdict(results.values)
    results.add("verdict", found)
    print(options.out.with_name(options.out.name + ".md").read_text())
    return 0 if reached(found) and not runs.failed_steps(results.values) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs hdfnet-infer on a folder with two GPUs of one machine, in one process and as two, and with one of them
short of memory; compares speed and every byte with one GPU's.

    .venv/bin/python scripts/two_gpus.py [--pairs 4000] [--precision fp16,tf32] [--batch auto]
        [--leave-mb 1500,200] [--bin build/bin] [--work DIR] [--out two_gpus]

Of the pairs, as throughput.py makes them, --distinct differ; the others are the same files under other names.
  one    one GPU, all cores              all    --device all, all cores
  half   one GPU, half of the cores      ranks  two processes with --shard auto, half of the cores each: by mpirun,
                                                or with the environment that Open MPI gives where there is none
The first precision is measured in all four ways, the others in `one` and `all`: a slower network shows what the
GPUs give where reading and writing do not bind. `hdfnet-bench` says what each stage reaches alone. Then another
process takes the memory of the second card but for --leave-mb, and the run with --device all must end well,
with a warning that names the card and the same maps (a grey level off where its batches were halved). Last,
tests/ops on the second card (test_ops, if built).

Writes OUT.json and OUT.md after each step. Exit status 1: some maps are missing or differ, a run failed, or two
cards are not 1.8 times as fast as one where reading and writing allow it.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import List

import numpy as np
from PIL import Image

import folder_runs as runs

LEAST_SPEEDUP = 1.8
RATES = ("process pairs/s", "pairs/s", "steady pairs/s")
MiB = 1 << 20
BY_HAND = "Open MPI's environment, without mpirun"
# Gives each rank its share of the cores, however mpirun binds on this machine.
CORES_OF_RANK = 'eval "cores=\\$CORES_$OMPI_COMM_WORLD_LOCAL_RANK"; exec taskset -c "$cores" "$@"'


# --- from the values alone ---


def compare_maps(reference: Path, other: Path) -> dict:
    """How many files of `reference` are missing in `other`, equal to the byte, different; and how far off the
    worst is, in grey levels."""
    names = sorted(file.name for file in reference.iterdir())
    there = [name for name in names if (other / name).is_file()]
    differing = [name for name in there if (reference / name).read_bytes() != (other / name).read_bytes()]
    worst = 0
    for name in differing:
        first, second = (np.asarray(Image.open(folder / name)).astype(int) for folder in (reference, other))
        worst = max(worst, int(abs(first - second).max()))
    return {"files": len(names), "missing": len(names) - len(there), "equal": len(there) - len(differing),
            "different": len(differing), "largest difference": worst}


def devices_said(stderr: str) -> List[str]:
    """The device of each process, as it says itself at its start."""
    return sorted(re.findall(r"HDFNet \S+ on ([^\s,]+)", stderr))


def warnings_naming(device: str, said: List[str]) -> List[str]:
    return [line for line in said if "warning" in line.lower() and device in line]


def bound_of_two(values: dict, precision: str) -> dict:
    """What binds two cards: their networks together, or reading and writing."""
    network = values.get(f"network {precision}", {}).get("pairs/s")
    files = values.get("reading and writing", {}).get("pairs/s")
    if not network or not files:
        return {}
    binding = "network" if 2 * network <= files else "reading and writing"
    return {"binding": binding, "two networks": 2 * network, "reading and writing": files}


def speedups(values: dict, precision: str) -> dict:
    """Of each way with two cards over one card, by the rates with and without the start."""
    result = {}
    for way in ("all", "ranks"):
        for base in ("one", "half"):
            fast, slow = (values.get(f"{name} {precision}", {}) for name in (way, base))
            for kind in RATES:
                if fast.get(kind) and slow.get(kind):
                    result[f"{way}/{base} {kind.split(' ')[0]}"] = fast[kind] / slow[kind]
    return result


def verdict(values: dict, precisions: List[str]) -> dict:
    """By precision: what binds, the ratios, and whether two cards do what they can."""
    result = {}
    for precision in precisions:
        bound, ratios = bound_of_two(values, precision), speedups(values, precision)
        # Of what one card reaches, as much as reading and writing allow.
        one = values.get(f"one {precision}", {}).get("steady pairs/s")
        possible = bound["reading and writing"] / one if bound and one else None
        reached = ratios.get("all/one steady")
        good = reached is not None and (reached >= LEAST_SPEEDUP or
                                        (possible is not None and possible < LEAST_SPEEDUP))
        result[precision] = {**bound, **ratios, "reading and writing allow": possible, "good": good}
    return result


def maps_good(facts: dict) -> bool:
    """All there, and equal to the byte; to a grey level where batches were halved for want of memory, because a
    card has other kernels for other batches."""
    maps = facts["maps"]
    halved = any("going on with batches of" in line for line in facts.get("warnings", []))
    return maps["missing"] == 0 and (maps["largest difference"] <= 1 if halved else maps["different"] == 0)


def all_equal(values: dict) -> bool:
    compared = [facts for facts in values.values() if isinstance(facts, dict) and "maps" in facts]
    return bool(compared) and all(map(maps_good, compared))


def markdown(values: dict) -> List[str]:
    lines = runs.environment_lines(values)
    header = ["run", "devices", *RATES, "equal", "different", "missing", "largest difference"]
    rows = []
    for name, facts in values.items():
        if isinstance(facts, dict) and "process pairs/s" in facts:
            maps = facts.get("maps", {})
            rows.append([name, " ".join(facts.get("devices", [])), *(facts[kind] for kind in RATES),
                         *(maps.get(key) for key in ("equal", "different", "missing", "largest difference"))])
    lines += runs.table(header, rows)
    for name, facts in values.items():
        if isinstance(facts, dict) and "by" in facts:
            lines += ["", f"{name}: started by {facts['by']}."]
        if isinstance(facts, dict) and facts.get("mpirun"):
            lines += ["", f"{name}: mpirun {facts['mpirun']}"]
        if isinstance(facts, dict) and facts.get("warnings"):
            lines += ["", f"{name}, warnings:", ""] + [f"- {line}" for line in facts["warnings"]]
    alone = [[name, facts["pairs/s"]] for name, facts in values.items()
             if name.startswith(("network ", "reading and writing")) and facts.get("pairs/s")]
    lines += ["", "Alone, pairs a second:", ""] + runs.table(["stage", "pairs/s"], alone)
    for precision, facts in values.get("verdict", {}).items():
        lines += ["", f"{precision}: {runs.brief(facts)}"]
    if "operators" in values:
        lines += ["", f"Operators on the second card: {runs.brief(values['operators'])}"]
    return lines + [""] + runs.failed_steps(values)


# --- the second card's memory ---


def hold_memory(device: str) -> None:
    """Reads numbers, a line each, falling: takes the device's memory but for so many MiB, and says what is
    left. Holds it until its standard input ends."""
    import torch

    blocks = []
    for line in sys.stdin:
        for size in (4096 * MiB, 64 * MiB):
            while torch.cuda.mem_get_info(device)[0] - size >= int(line) * MiB:
                blocks.append(torch.empty(size, dtype=torch.uint8, device=device))
        print(torch.cuda.mem_get_info(device)[0] // MiB, flush=True)


class Holder:
    """A process that runs hold_memory(); it is ended when an answer takes longer than the timeout."""

    def __init__(self, device: str, timeout: float) -> None:
        self._timeout = timeout
        self._process = subprocess.Popen([sys.executable, __file__, "--hold", device], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def leave(self, mebibytes: int) -> int:
        limit = threading.Timer(self._timeout, self._process.kill)
        limit.start()
        self._process.stdin.write(f"{mebibytes}\n")
        self._process.stdin.flush()
        left = self._process.stdout.readline()
        limit.cancel()
        if not left:
            raise RuntimeError("the process that takes the card's memory has failed")
        return int(left)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


# --- the steps ---


class Measurement:
    def __init__(self, options: argparse.Namespace, work: Path, results: runs.Results) -> None:
        self.options = options
        self.work = work
        self.results = results
        self.cores = sorted(os.sched_getaffinity(0))
        self.folder = work / f"pairs-{options.pairs}"
        self.precisions = options.precision.split(",")

    def all(self) -> None:
        step = self.results.step
        if step("pairs", self.make_pairs) is None:
            return
        for number, precision in enumerate(self.precisions):
            step(f"one {precision}", lambda: self.one(f"one-{precision}", precision, self.cores))
            step(f"all {precision}", lambda: self.all_devices(f"all-{precision}", precision))
            if number == 0:
                step(f"ranks {precision}", lambda: self.ranks(precision))
                half = runs.core_parts(self.cores, 2)[0]
                step(f"half {precision}", lambda: self.one(f"half-{precision}", precision, half))
        step("reading and writing", self.files_alone)
        for precision in self.precisions:
            step(f"network {precision}", lambda: self.network_alone(precision))
        if self.options.second:
            self.short_of_memory()
        if (self.options.bin / "test_ops").exists():
            step("operators", self.operators)

    def make_pairs(self) -> dict:
        distinct = min(self.options.distinct, self.options.pairs)
        facts = runs.make_pairs(self.work / "pairs", distinct)
        runs.link_pairs(self.work / "pairs", self.folder, self.options.pairs)
        return {**facts, "pairs": self.options.pairs, "distinct": distinct}

    def line(self, out: Path, device: str, precision: str) -> List[str]:
        shutil.rmtree(out, ignore_errors=True)
        line = [str(self.options.bin / "hdfnet-infer"), *runs.inputs(self.folder), "--out", str(out)]
        line += ["--weights", str(self.options.weights), "--device", device]
        return line + ["--precision", precision, "--batch", self.options.batch]

    def facts(self, run: runs.Run, out: Path, precision: str) -> dict:
        facts = {**run.facts(), "devices": devices_said(run.said)}
        reference = self.work / f"one-{precision}"
        if out != reference and reference.is_dir() and out.is_dir():
            facts["maps"] = compare_maps(reference, out)
        return facts

    def one(self, name: str, precision: str, cores: List[int]) -> dict:
        out = self.work / name
        line = runs.on_cores(cores) + self.line(out, self.options.one, precision)
        return self.facts(runs.run_once(line, self.work, self.options.timeout), out, precision)

    def all_devices(self, name: str, precision: str) -> dict:
        out = self.work / name
        line = runs.on_cores(self.cores) + self.line(out, self.options.two, precision)
        return self.facts(runs.run_once(line, self.work, self.options.timeout), out, precision)

    def ranks(self, precision: str) -> dict:
        out = self.work / f"ranks-{precision}"
        line = [*self.line(out, self.options.ranks, precision), "--shard", "auto"]
        mpirun = shutil.which(self.options.mpirun)
        if mpirun is None:
            return {"by": BY_HAND, **self.facts(self.by_hand(line), out, precision)}
        run = self.by_mpirun(mpirun, line)
        if run.stamps:
            return {"by": mpirun, **self.facts(run, out, precision)}
        refused = {"mpirun": runs.fault_of(run.facts())}  # it does not run on this machine
        return {"by": BY_HAND, **refused, **self.facts(self.by_hand(line), out, precision)}

    def by_mpirun(self, mpirun: str, line: List[str]) -> runs.Run:
        shares = [",".join(map(str, share)) for share in runs.core_parts(self.cores, 2)]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "CORES_0": shares[0], "CORES_1": shares[1]}
        start = [mpirun, "-n", "2", "--oversubscribe", "--bind-to", "none", "sh", "-c", CORES_OF_RANK, "sh"]
        return runs.Started(start + line, self.work, environment).wait(self.options.timeout)

    def by_hand(self, line: List[str]) -> runs.Run:
        started = []
        for rank, share in enumerate(runs.core_parts(self.cores, 2)):
            environment = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2",
                           "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)}
            started.append(runs.Started(runs.on_cores(share) + line, self.work, environment))
        return runs.together([part.wait(self.options.timeout) for part in started])

    @property
    def alone_batch(self) -> str:
        return "32" if self.options.batch == "auto" else self.options.batch

    def bench(self, *arguments: str) -> dict:
        line = runs.on_cores(self.cores) + [str(self.options.bin / "hdfnet-bench"), *arguments]
        return runs.bench_row(line, self.work, self.options.timeout)

    def files_alone(self) -> dict:
        answer = runs.middle_file(self.work / f"one-{self.precisions[0]}", self.work / "answer.png")
        return self.bench("folder", *runs.inputs(self.folder), "--out", str(self.work / "alone"), "--answer",
                          str(answer), "--batch", self.alone_batch, *runs.without_resizing(self.options.one))

    def network_alone(self, precision: str) -> dict:
        row = self.bench("network", "--who", "engine", "--no-memory", "--weights", str(self.options.weights),
                         "--device", self.options.one, "--precision", precision, "--batch", self.alone_batch,
                         "--repeat", str(self.options.passes))
        return {"pairs/s": row["images/s"], **row}

    def short_of_memory(self) -> None:
        holder = Holder(self.options.second, self.options.timeout)
        try:
            for mebibytes in sorted(map(int, self.options.leave_mb.split(",")), reverse=True):
                self.results.step(f"{mebibytes} MiB left on {self.options.second}",
                                  lambda: self.with_memory(holder, mebibytes))
        finally:
            holder.end()

    def with_memory(self, holder: Holder, mebibytes: int) -> dict:
        left = holder.leave(mebibytes)
        facts = self.all_devices(f"short-{mebibytes}", self.precisions[0])
        return {"left MiB": left, "warnings": warnings_naming(self.options.second, facts["said"]), **facts}

    def operators(self) -> dict:
        line = [str(self.options.bin / "test_ops"), "--gtest_filter=SecondDevice.*"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=self.options.timeout)
        said = [text for text in done.stdout.splitlines() if text.startswith("[") and "tests" not in text]
        return {"status": done.returncode, "passed": sum("[       OK" in text for text in said),
                "skipped": sum("[  SKIPPED" in text for text in said), "said": said[-12:]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--distinct", type=int, default=2000)
    parser.add_argument("--precision", default="fp16,tf32")
    parser.add_argument("--batch", default="auto", help="pairs; the maps are equal to the byte with auto alone")
    parser.add_argument("--one", default="cuda:0", help="--device of one GPU")
    parser.add_argument("--two", default="all", help="--device of two")
    parser.add_argument("--ranks", default="auto", help="--device of the two processes")
    parser.add_argument("--second", default="cuda:1", help="the card that has no memory; empty: leave that out")
    parser.add_argument("--leave-mb", default="1500,200", help="what is left there, in MiB")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--passes", type=int, default=20, help="of the network alone")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for one process")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    runs.add_places(parser, "two_gpus")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    if options.hold:
        hold_memory(options.hold)
        return 0
    cards = runs.cards()
    if options.one.startswith("cuda") and len(cards) < 2:
        print(f"two_gpus.py: needs two GPUs, nvidia-smi lists {len(cards)}. For a trial on the CPU: --one cpu --two cpu "
              "--ranks cpu --second '' --precision fp32", file=sys.stderr)
        return 2
    results = runs.Results(options.out, "hdfnet-infer on two GPUs", markdown)
    results.add("command", shlex.join(sys.argv))
    results.add("environment", runs.environment_of(options.bin / "hdfnet-infer", options.commit))
    with tempfile.TemporaryDirectory(prefix="hdfnet-two-gpus-") as name:
        Measurement(options, runs.work_folder(options, name), results).all()
    found = verdict(results.values, options.precision.split(","))
    results.add("verdict", found)
    results.add("all maps equal", all_equal(results.values))
    print(options.out.with_name(options.out.name + ".md").read_text())
    good = all(facts["good"] for facts in found.values()) and all_equal(results.values)
    return 0 if good and not runs.failed_steps(results.values) else 1


if __name__ == "__main__":
    sys.exit(main())

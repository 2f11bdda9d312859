"""What the measurements of whole folders share: pairs to run on, timed runs, results kept as they come."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SIZE = (640, 480)
NOISE = 7  # grey levels, standard deviation: that of a camera's JPEG in a room

_sources: List[Tuple[Image.Image, Image.Image]] = []
_noise: List[np.ndarray] = []


# --- pairs ---


def _sources_of_this_process() -> List[Tuple[Image.Image, Image.Image]]:
    if not _sources:
        for rgb in sorted((ROOT / "examples/rgb").iterdir()):
            depth = Image.open(ROOT / f"examples/depth_mm/{rgb.stem}.png")
            depth = Image.fromarray(np.asarray(depth).astype(np.int32))
            _sources.append((Image.open(rgb).convert("RGB"), depth))
        generator = np.random.default_rng(0)
        noise = generator.normal(0, NOISE, (2 * SIZE[1], 2 * SIZE[0], 3))
        _noise.append(noise.round().astype(np.int16))
    return _sources


def picture_pair(index: int) -> Tuple[np.ndarray, np.ndarray]:
    """RGB (uint8) and depth in millimetres (uint16, 0: a gap): a part of an example pair in another light,
    with a camera's noise. Always the same for the same index."""
    generator = np.random.default_rng(index)
    sources = _sources_of_this_process()
    rgb, depth = sources[index % len(sources)]
    scale = generator.uniform(0.55, 1.0)
    width, height = int(SIZE[0] * scale), int(SIZE[1] * scale)
    left = int(generator.integers(0, SIZE[0] - width + 1))
    top = int(generator.integers(0, SIZE[1] - height + 1))
    box = (left, top, left + width, top + height)
    colours = np.asarray(rgb.resize(SIZE, Image.BILINEAR, box), dtype=np.float32)
    distances = np.asarray(depth.resize(SIZE, Image.NEAREST, box))
    if generator.random() < 0.5:
        colours, distances = colours[:, ::-1], distances[:, ::-1]
    row, column = (int(generator.integers(0, side)) for side in (SIZE[1], SIZE[0]))
    noise = _noise[0][row : row + SIZE[1], column : column + SIZE[0]]
    light = generator.uniform(0.8, 1.15, 3).astype(np.float32)
    colours = np.clip(colours * light + noise, 0, 255).astype(np.uint8)
    distances = np.where(distances > 0, np.maximum(distances + noise[..., 0], 1), 0)
    return colours, distances.astype(np.uint16)


def _write_pair(folder: Path, index: int) -> int:
    """Returns the bytes of the JPEG."""
    colours, distances = picture_pair(index)
    rgb = folder / f"rgb/{index:05}.jpg"
    Image.fromarray(colours).save(rgb, quality=95)
    Image.fromarray(distances).save(folder / f"depth/{index:05}.png")
    return rgb.stat().st_size


def make_pairs(folder: Path, count: int) -> Dict[str, float]:
    """FOLDER/rgb/00000.jpg, FOLDER/depth/00000.png and so on, by all cores. Those of an earlier call with
    the same count are taken as they are. Returns what they are."""
    made = folder / "pairs.json"
    if made.is_file() and json.loads(made.read_text())["pairs"] == count:
        return json.loads(made.read_text())
    for kind in ("rgb", "depth"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        sizes = list(workers.map(_write_pair, [folder] * count, range(count), chunksize=4))
    facts = {"pairs": count, "mean JPEG kB": float(np.mean(sizes)) / 1e3, "made in s": time.monotonic() - begin}
    made.write_text(json.dumps(facts))
    return facts


def link_pairs(source: Path, folder: Path, count: int) -> None:
    """`count` pairs in FOLDER under names of their own, from those in SOURCE in turn."""
    for kind in ("rgb", "depth"):
        files = sorted((source / kind).iterdir())
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            link = folder / kind / f"{index:05}{files[0].suffix}"
            if not link.exists():
                os.link(files[index % len(files)], link)


# --- runs ---


def on_cores(cores: List[int]) -> List[str]:
    return ["taskset", "-c", ",".join(map(str, cores))]


def without_resizing(device: str) -> List[str]:
    """For `hdfnet-bench folder` beside that device: a GPU resizes the pictures itself."""
    return ["--pictures"] if device.startswith("cuda") or device == "all" else []


def core_parts(cores: List[int], parts: int) -> List[List[int]]:
    """Equal shares of the cores, neighbours together; all of them to each where there are too few."""
    size = len(cores) // parts
    return [cores[part * size : (part + 1) * size] if size else cores for part in range(parts)]


def steady_rate(stamps: List[float]) -> Optional[float]:
    """Results a second after the first quarter of them: without the start of the devices."""
    first = len(stamps) // 4
    passed = stamps[-1] - stamps[first] if len(stamps) >= 8 else 0
    return (len(stamps) - 1 - first) / passed if passed > 0 else None


def rate_said(stderr: str) -> Optional[float]:
    """The pairs a second that hdfnet-infer says at its end, without the start of the process and the loading;
    of several processes side by side: all their pairs in the time of the one that took longest."""
    found = re.findall(r"^(\d+) written.*\(([\d.]+) pairs/s\)", stderr, re.MULTILINE)
    longest = max((int(pairs) / float(rate) for pairs, rate in found if float(rate)), default=0)
    return sum(int(pairs) for pairs, _ in found) / longest if longest else None


@dataclass
class Run:
    """One process: how it ended, what it said, how fast it was."""

    line: List[str]
    status: Optional[int] = None  # None: stopped because it took too long
    seconds: float = 0
    stamps: List[float] = field(default_factory=list)  # of the lines of its standard output, from its start
    said: str = ""

    def facts(self) -> dict:
        seconds = self.seconds
        return {
            "status": self.status,
            "results": len(self.stamps),
            "process s": seconds,
            "first result s": self.stamps[0] if self.stamps else None,
            "process pairs/s": len(self.stamps) / seconds if seconds else None,
            "pairs/s": rate_said(self.said),
            "steady pairs/s": steady_rate(self.stamps),
            "said": self.said.strip().splitlines()[-40:],
        }


class Started:
    """A process that runs; wait() gives its Run."""

    def __init__(self, line: List[str], folder: Path, environment: Optional[Dict[str, str]] = None) -> None:
        self.run = Run(line)
        self._said = open(folder / f"stderr-{time.monotonic_ns()}.txt", "w+", errors="replace")
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=self._said, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        self._reader = threading.Thread(target=self._count, daemon=True)
        self._reader.start()

    def _count(self) -> None:
        for _ in self._process.stdout:
            self.run.stamps.append(time.monotonic() - self._begin)

    def _end(self) -> None:
        """First with a request, on which mpirun ends what it started."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait(self, timeout: float) -> Run:
        try:
            self.run.status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._end()
        self.run.seconds = time.monotonic() - self._begin
        self._reader.join(timeout=10)
        self._process.stdout.close()
        self._said.seek(0)
        self.run.said = self._said.read()
        self._said.close()
        return self.run


def together(parts: List[Run]) -> Run:
    """Processes that were started at the same time, as one."""
    return Run(
        line=parts[0].line,
        status=None if any(part.status is None for part in parts) else max(part.status for part in parts),
        seconds=max(part.seconds for part in parts),
        stamps=sorted(stamp for part in parts for stamp in part.stamps),
        said="\n".join(part.said.strip() for part in parts),
    )


def run_once(line: List[str], folder: Path, timeout: float) -> Run:
    return Started(line, folder).wait(timeout)


def inputs(folder: Path) -> List[str]:
    return ["--rgb", str(folder / "rgb"), "--depth", str(folder / "depth")]


def bench_row(line: List[str], folder: Path, timeout: float) -> dict:
    """The only row of a report of hdfnet-bench."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    run = run_once([*line, "--format", "json", "--output", str(report)], folder, timeout)
    if not report.is_file():
        raise RuntimeError(f"hdfnet-bench ended with {run.status}: {run.said.strip()[-300:]}")
    return {"status": run.status, **json.loads(report.read_text())["rows"][0]}


def middle_file(folder: Path, copy: Path) -> Path:
    """A copy of the file that is the middlemost by size."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_size)
    return Path(shutil.copy(files[len(files) // 2], copy))


def middle(values: List[Optional[float]]) -> Optional[float]:
    """The median of those that are there, always one of them."""
    there = sorted(value for value in values if value is not None)
    return there[(len(there) - 1) // 2] if there else None


# --- options ---


def add_places(parser: argparse.ArgumentParser, out: str) -> None:
    """The options that every measurement has: where things are."""
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin", help="folder of the programs")
    parser.add_argument("--weights", type=Path, default=ROOT / "weights/hdfnet_vgg16.pt")
    parser.add_argument("--work", type=Path, help="folder for pairs and maps, kept for a later measurement")
    parser.add_argument("--out", type=Path, default=Path(out), help="results, without .json and .md")
    parser.add_argument("--commit", help="for the results, where there is no git")


def work_folder(options: argparse.Namespace, temporary: str) -> Path:
    work = (options.work or Path(temporary)).resolve()
    work.mkdir(parents=True, exist_ok=True)
    return work


# --- results ---


def _output(*line: str) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cards() -> List[str]:
    """Name and driver of each GPU."""
    return _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()


def environment_of(program: Path, commit: Optional[str]) -> Dict[str, str]:
    """The machine, the versions and the commit."""
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return {
        "commit": commit or _output("git", "describe", "--always", "--dirty", "--abbrev=40") or "unknown",
        "processor": processor.group(1) if processor else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "cards": "; ".join(cards()) or "none",
        "versions": "; ".join(line.strip() for line in _output(str(program), "--version").splitlines()[:6]),
    }


class Results:
    """Facts by name, stored after each step, so that a run that is stopped has lost nothing."""

    def __init__(self, out: Path, title: str, markdown: Callable[[dict], List[str]]) -> None:
        self._out = out
        self._title = title
        self._markdown = markdown
        self._begin = time.monotonic()
        self.values: dict = {}

    def add(self, name: str, value: object) -> None:
        self.values[name] = value
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._store(".json", json.dumps(self.values, indent=1) + "\n")
        self._store(".md", "\n".join([f"# {self._title}", "", *self._markdown(self.values)]) + "\n")

    def step(self, name: str, work: Callable[[], object]) -> Optional[object]:
        """Adds what `work` returns. A step that fails is named in the results, and the rest goes on."""
        try:
            value = work()
        except Exception as error:  # whatever it is: the other steps are still worth their time
            value = {"fault": f"{type(error).__name__}: {error}"}
        self.add(name, value)
        print(f"[{time.monotonic() - self._begin:6.1f} s] {name}: {brief(value)}", flush=True)
        return None if fault_of(value) else value

    def _store(self, ending: str, text: str) -> None:
        file = self._out.with_name(self._out.name + ending)
        part = file.with_name(file.name + ".part")
        part.write_text(text)
        part.replace(file)


def brief(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)[:200]
    shown = {key: item for key, item in value.items() if key not in ("said", "line")}
    return ", ".join(f"{key} {number(item)}" for key, item in shown.items())[:400]


def number(value: object) -> str:
    """For people: three digits or more."""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "-" if value is None else str(value)


def table(header: List[str], rows: List[List[object]]) -> List[str]:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(map(number, row)) + " |" for row in rows]


def environment_lines(values: dict) -> List[str]:
    facts = values.get("environment", {})
    lines = [f"- {name}: {text}" for name, text in facts.items()]
    if "pairs" in values:
        lines.append(f"- pairs: {brief(values['pairs'])}")
    return lines + [f"- command: `{values.get('command', '')}`", ""]


def fault_of(value: object) -> Optional[str]:
    """What went wrong in a step, from its facts; an expected exit status is no fault."""
    if not isinstance(value, dict):
        return None
    if "fault" in value:
        return value["fault"]
    if value.get("status", 0) == 0:
        return None
    ended = "took too long" if value["status"] is None else f"ended with {value['status']}"
    return f"{ended}: {' / '.join(value.get('said', [])[-3:])}"


def failed_steps(values: dict) -> List[str]:
    return [f"- {name}: {fault_of(value)}" for name, value in values.items() if fault_of(value)]

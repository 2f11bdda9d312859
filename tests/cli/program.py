"""What the tests of the command line share: the program, its weights, pictures, and where they lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HDFNET_INFER", str(ROOT / "build/bin/hdfnet-infer"))
WEIGHTS = os.environ.get("HDFNET_RULE_WEIGHTS", str(ROOT / "build/tests/cli/rule_vgg16.pt"))
SHARED = Path(os.environ.get("HDFNET_SHARED", ROOT.parent / "shared"))

# Waiting threads of the network sleep: spinning, they would starve the tests that run beside this one.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def command(*arguments: object, weights: bool = True) -> List[str]:
    """The program on the CPU with the rule-made weights."""
    line = [PROGRAM, "--device", "cpu"] + [str(argument) for argument in arguments]
    return line + ["--weights", WEIGHTS] if weights else line


def run(
    *arguments: object,
    weights: bool = True,
    cwd: Optional[Path] = None,
    env: Optional[Dict[str, str]] = None,
    text_in: Optional[str] = None,
) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(*arguments, weights=weights),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        input=text_in,
        timeout=280,
    )


def pixels(file: Path) -> np.ndarray:
    with Image.open(file) as image:
        return np.asarray(image)


def make_pair(folder: Path, name: str, seed: int = 0, size=(64, 48)) -> None:
    """FOLDER/rgb/NAME.png and FOLDER/depth/NAME.png."""
    generator = np.random.default_rng(seed)
    for kind, shape in (("rgb", (size[1], size[0], 3)), ("depth", (size[1], size[0]))):
        file = folder / kind / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(file)


def scaled_pairs(dataset: Path, folder: Path, count: int) -> None:
    """FOLDER/rgb/0.png and so on: the pairs of a data set, in turn, each at a small size of its own."""
    sources = sorted((dataset / "rgb").iterdir())
    for index in range(count):
        source = sources[index % len(sources)]
        for kind, picture in (("rgb", source), ("depth", dataset / f"depth/{source.stem}.png")):
            file = folder / kind / f"{index}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(picture) as image:
                image.resize((120 + 8 * index, 90 + 6 * index)).save(file)


def whole_pngs(folder: Path) -> List[Path]:
    """Every file below the folder; each must be a PNG that decodes to its end."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        with Image.open(file) as image:
            image.load()
    return files


def run_tests(module: str) -> None:
    """Runs the module's tests; exit status 77 when all of them were skipped."""
    result = unittest.main(module=module, exit=False, verbosity=2).result
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hdfnet-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"

    def inputs(self) -> List[str]:
        return ["--rgb", str(self.folder / "rgb"), "--depth", str(self.folder / "depth")]

    def shared(self, path: str) -> Path:
        folder = SHARED / path
        if not folder.exists():
            self.skipTest(f"{folder} is not here")
        return folder

    def expect(self, done: subprocess.CompletedProcess, status: int, *texts: str) -> None:
        """The exit status, and texts that stderr must have."""
        self.assertEqual(done.returncode, status, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

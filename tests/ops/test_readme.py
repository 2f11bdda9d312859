"""Runs what README.md says about PyTorch and TorchScript hosts, in a folder that looks like the repository
after a build.

HDFNET_BUILD names the build folder, HDFNET_OPS_LIBRARY libhdfnet_ops.so, HDFNET_README_HOST the program made
of the C++ block.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
MOST_LINES = 9


def blocks(section):
    """The fenced blocks below a heading, as (language, text)."""
    text = README.partition(f"\n### {section}\n")[2]
    return re.findall(r"^```(\w*)\n(.*?)^```$", re.split(r"^#+ ", text, flags=re.MULTILINE)[0],
                      flags=re.MULTILINE | re.DOTALL)


class UseItFrom(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("weights", "ops", "examples"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build").symlink_to(os.environ["HDFNET_BUILD"])
        (self.folder / ".venv/bin").mkdir(parents=True)
        # Not a link: a virtual environment is found from the path of its Python.
        python = self.folder / ".venv/bin/python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "$@"\n')
        python.chmod(0o755)

    def run_in_folder(self, command, **options):
        process = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **options)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout

    def languages(self, section, *expected):
        found = blocks(section)
        self.assertEqual([language for language, _ in found], list(expected))
        for _, text in found:
            self.assertLessEqual(len(text.splitlines()), MOST_LINES)
        return [text for _, text in found]

    def test_pytorch(self):
        (python,) = self.languages("PyTorch", "python")
        check = "print(tuple(filtered.shape), tuple(pyramid.shape))\n"
        printed = self.run_in_folder([sys.executable, "-B", "-c", python + check])
        self.assertEqual(printed, "(2, 48, 80, 80) (1, 64, 40, 40)\n")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "weights/export.py needs NumPy")
    def test_torchscript_host(self):
        shell, _ = self.languages("A TorchScript host", "sh", "cpp")
        self.run_in_folder(["sh", "-e", "-c", shell])
        self.assertEqual(self.run_in_folder([os.environ["HDFNET_README_HOST"]]), "[1, 1, 320, 320]\n")


if __name__ == "__main__":
    unittest.main()

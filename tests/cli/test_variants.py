"""--verify for every variant, scripted and traced: the engine against the archive's own forward."""

from __future__ import annotations

import subprocess
import sys
import unittest

from program import ROOT, ProgramTest, command, make_pair


class Variants(ProgramTest):
    def check(self, variant: str, form: str) -> None:
        archive = self.folder / f"{variant}.pt"
        export = [sys.executable, "-B", str(ROOT / "weights/export.py"), "--golden-rule", form]
        export += ["--variant", variant, "--out", str(archive)]
        subprocess.run(export, check=True, capture_output=True, timeout=600)
        make_pair(self.folder, "a")
        line = command(*self.inputs(), "--size", "96x64", "--verify", weights=False)
        done = subprocess.run(
            line + ["--weights", str(archive)], capture_output=True, text=True, timeout=280
        )
        self.expect(done, 0)
        self.assertRegex(done.stdout, r"ok .* a\s*$")

    def test_vgg16_traced(self) -> None:
        self.check("vgg16", "--trace")

    def test_vgg19_scripted(self) -> None:
        self.check("vgg19", "--script")

    def test_vgg19_traced(self) -> None:
        self.check("vgg19", "--trace")

    def test_resnet50_scripted(self) -> None:
        self.check("res50", "--script")

    def test_resnet50_traced(self) -> None:
        self.check("res50", "--trace")


if __name__ == "__main__":
    unittest.main()

"""The tables of awkward files and folders in the shared material: every row has its right outcome in a
run of the program. What the pixels must be is tests/image/test_manifest.cpp's matter. Exit status 77: the
material is not here."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Dict, List, Tuple

import numpy as np
from PIL import Image

from program import ProgramTest, pixels, run, run_tests, whole_pngs

SMALL = ["--size", "64"]  # the network's time is no matter here

Row = Dict[str, str]


def read_table(file: Path) -> List[Row]:
    with open(file, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


class AwkwardFolders(ProgramTest):
    """Folder layouts that trip tools; each ends as its right outcome says."""

    def test_every_row_of_the_table(self) -> None:
        """A row without a method below fails, so that none is forgotten."""
        for row in read_table(self.shared("data/formats/pairs.csv")):
            name = Path(row["case"]).name
            with self.subTest(row["case"], right=row["right_outcome"]):
                self.out = self.folder / name
                getattr(self, f"row_{name}")()

    def case(self, name: str, *options: object) -> subprocess.CompletedProcess:
        folder = self.shared(f"data/formats/pairs/{name}")
        inputs = options or ("--rgb", folder / "rgb", "--depth", folder / "depth")
        return run(*inputs, "--out", self.out, *SMALL)

    def written(self) -> list:
        return [str(file.relative_to(self.out)) for file in whole_pngs(self.out)]

    def row_01_plain(self) -> None:
        self.expect(self.case("01_plain"), 0)
        self.assertEqual(self.written(), ["a.png", "b.png"])
        self.assertEqual(pixels(self.out / "a.png").shape, (120, 160))

    def row_03_extra_depth(self) -> None:
        self.expect(self.case("03_extra_depth"), 0, "warning: ", "b.")
        self.assertEqual(self.written(), ["a.png"])

    def row_05_aspect_mismatch(self) -> None:
        done = self.case("05_aspect_mismatch")
        self.assertRegex(done.stderr, r"(warning|error): .*\ba\b")
        self.assertIn(done.returncode, (0, 1))

    def row_07_exif_rgb_sensor_depth(self) -> None:
        done = self.case("07_exif_rgb_sensor_depth")
        self.expect(done, 1, "error: ")
        self.assertFalse(self.out.exists() and self.written())

    def row_09_color_depth_suffix(self) -> None:
        self.expect(self.case("09_color_depth_suffix"), 0)
        self.assertTrue(self.written())

    def row_11_upper_case_ext(self) -> None:
        self.expect(self.case("11_upper_case_ext"), 0)
        self.assertEqual(self.written(), ["A.png"])

    def row_13_crlf_list(self) -> None:
        folder = self.shared("data/formats/pairs/13_crlf_list")
        self.expect(self.case("13_crlf_list", "--rgb", folder / "list.txt"), 0)
        self.assertEqual(self.written(), ["a.png", "b.png"])

    def row_15_nested_same_names(self) -> None:
        folder = self.shared("data/formats/pairs/15_nested_same_names")
        done = self.case(
            "15_nested_same_names",
            "--recursive", "--rgb", folder / "rgb", "--depth", folder / "depth",
        )  # fmt: skip
        self.expect(done, 0)
        self.assertEqual(len(self.written()), 2)

    def row_17_one_bad_of_three(self) -> None:
        done = self.case("17_one_bad_of_three")
        self.assertRegex(done.stderr, r"(warning|error): .*b")
        written = self.written()
        self.assertIn("a.png", written)
        self.assertIn("c.png", written)
        self.assertEqual(done.returncode, 0 if "b.png" in written else 1)

    def row_19_numeric_order_gap(self) -> None:
        done = self.case("19_numeric_order_gap")
        self.expect(done, 1, "img2", "without depth")
        self.assertEqual(self.written(), ["img1.png", "img10.png"])

    def row_21_iphone_lidar(self) -> None:
        done = self.case("21_iphone_lidar")
        self.expect(done, 0)
        (name,) = self.written()
        self.assertEqual(pixels(self.out / name).shape, (720, 960))


class AwkwardFiles(ProgramTest):
    """All of them in one run, as a list that names each with a good partner."""

    def setUp(self) -> None:
        super().setUp()
        self.material = self.shared("data/formats")
        self.rows = read_table(self.material / "manifest.csv")

    def name(self, row: Row) -> str:
        return f"{self.rows.index(row):03}"

    def size(self, row: Row) -> Tuple[int, int]:
        """Of the upright picture; the table has none for files that cannot be read."""
        return (int(row["width"] or 64), int(row["height"] or 48))

    def pair(self, row: Row) -> str:
        """A line of the list."""
        folder = self.folder / "in" / self.name(row)
        folder.mkdir(parents=True)
        file = folder / f"{self.name(row)}{Path(row['path']).suffix}"
        file.symlink_to(self.material / row["path"])
        partner = folder / "partner.png"
        shape = self.size(row)[::-1]
        shades = np.linspace(30, 220, shape[0] * shape[1]).astype(np.uint8).reshape(shape)
        if row["role"] == "depth":
            partner = folder / f"{self.name(row)}_rgb.png"
            Image.fromarray(np.stack([shades] * 3, axis=2)).save(partner)
            return f"{partner}\t{file}"
        Image.fromarray(shades).save(partner)
        return f"{file}\t{partner}"

    def test_every_row_of_the_table(self) -> None:
        lines = [self.pair(row) for row in self.rows]
        (self.folder / "list.txt").write_text("\n".join(lines))
        manifest = self.folder / "m.jsonl"
        done = run(
            "--rgb", self.folder / "list.txt", "--out", self.out, *SMALL, "--manifest", manifest
        )
        self.expect(done, 1)
        results = [json.loads(line) for line in manifest.read_text().splitlines()]
        self.assertEqual(len(results), len(self.rows))
        found = {result["name"].split("/")[0]: result for result in results}
        for row in self.rows:
            with self.subTest(row["path"], right=row["good_tool_should"]):
                self.check(row, found[self.name(row)], done.stderr.splitlines())
        written = [result for result in results if result["status"] == "written"]
        self.assertEqual(len(whole_pngs(self.out)), len(written))

    def check(self, row: Row, result: Dict, log: List[str]) -> None:
        expect, status = row["expect"], result["status"]
        named = [line for line in log if f"/in/{self.name(row)}/" in line]
        if expect == "decode":
            self.assertEqual(status, "written", named)
        elif expect in ("fail", "ignore"):  # what a scan leaves out fails when it is named
            self.assertEqual(status, "failed", named)
        elif expect == "fail_or_warn":
            self.assertTrue(any(line.startswith(("error: ", "warning: ")) for line in named), named)
        else:
            self.assertIn(expect, ("decode_or_fail", "either"))
        if status == "failed":
            self.assertTrue(any(line.startswith("error: ") for line in named), named)
            return
        self.assertEqual(status, "written")
        shape = pixels(self.out / f"{result['name']}.png").shape
        if row["width"]:
            self.assertEqual(shape, self.size(row)[::-1])

    def test_a_scan_leaves_out_what_is_no_picture(self) -> None:
        """The files of folder ext/ that the table says a scan ignores."""
        ignored = [row["path"] for row in self.rows if row["expect"] == "ignore"]
        self.assertTrue(ignored)
        done = run(
            "--rgb", self.material / "ext", "--depth", self.material / "depth", "--dry-run",
            "--out", self.out,
        )  # fmt: skip
        self.assertIn("ext/png_inside.jpg: RGB image without depth", done.stderr)
        for path in [*ignored, "ext/._"]:
            self.assertNotIn(path, done.stdout + done.stderr)


if __name__ == "__main__":
    run_tests(__name__)

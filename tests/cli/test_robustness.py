"""Inputs and places that go wrong: each has its own outcome, and the rest of the folder is written."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import unittest
import zlib
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Set, Tuple

import numpy as np
from PIL import Image

from program import ProgramTest, command, make_pair, pixels, run, run_tests, whole_pngs

SMALL = ["--size", "32"]  # the network's time is no matter here
SIZE = (64, 48)


def picture(mode: str = "RGB", size: Tuple[int, int] = SIZE) -> Image.Image:
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    values = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(values)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def bomb() -> bytes:
    """A whole PNG of 30000x30000 pixels, 110 KB on disk, 2.7 GB in memory."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", 30000, 30000, 1, 0, 0, 0, 0)
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(3751)) for _ in range(30000)) + packer.flush()
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def floats(*special: float) -> bytes:
    """A TIFF of metres, in which some pixels are what is given."""
    values = np.linspace(1, 3, SIZE[0] * SIZE[1], dtype=np.float32).reshape(SIZE[1], SIZE[0])
    for row, value in enumerate(special):
        values[row] = value
    return encoded(Image.fromarray(values), "TIFF")


def depth16(values: np.ndarray) -> bytes:
    return encoded(Image.fromarray(values.astype(np.uint16)), "PNG")


FLAT = np.ones((SIZE[1], SIZE[0]))
TWO_PAGES = {"save_all": True, "append_images": [picture("L")]}

# Name: the file's ending and content, the pair's status, and what is said of it on stderr.
Case = Tuple[str, Callable[[], bytes], str, str]
BAD_RGB: Dict[str, Case] = {
    "cut_jpeg": (".jpg", lambda: half(encoded(picture(), "JPEG")), "failed", "truncated"),
    "cut_png": (".png", lambda: half(encoded(picture(), "PNG")), "failed", "truncated"),
    "no_bytes": (".png", lambda: b"", "failed", "is an empty file"),
    "text": (".png", lambda: b"this is no picture\n", "failed", "is a text file"),
    "bomb": (".png", bomb, "failed", "declares a size of 30000 x 30000"),
    "gif": (".png", lambda: encoded(picture(), "GIF"), "failed", "is a GIF"),
    "pages": (".tif", lambda: encoded(picture(), "TIFF", **TWO_PAGES), "written", "first"),
    "animated": (".webp", lambda: encoded(picture(), "WEBP", **TWO_PAGES), "written", "first"),
    "one_pixel": (".png", lambda: encoded(picture(size=(1, 1)), "PNG"), "written", ""),
}
BAD_DEPTH: Dict[str, Case] = {
    "cut_depth": (".png", lambda: half(encoded(picture("L"), "PNG")), "failed", "truncated"),
    "nan_inf": (".tif", lambda: floats(np.nan, np.inf, -np.inf), "written", ""),
    "all_nan": (".tif", lambda: floats(*[np.nan] * SIZE[1]), "written", "no valid"),
    "all_zero": (".png", lambda: depth16(0 * FLAT), "written", "no valid"),
    "all_equal": (".png", lambda: depth16(1500 * FLAT), "written", "flat"),
    "colour": (".png", lambda: encoded(picture(), "PNG"), "written", "colour"),
    "large": (".png", lambda: encoded(picture("L", (256, 192)), "PNG"), "written", ""),
    "turned": (".png", lambda: encoded(picture("L", (48, 64)), "PNG"), "written", "turned by 90 degrees"),
    "one_depth": (".png", lambda: depth16(777 * np.ones((1, 1))), "written", "flat"),
}


def written_names(names: Iterable[str]) -> Set[str]:
    """As JSON tells them: bytes that are no UTF-8 are replaced there."""
    return {name.replace("\ufffd", os.fsdecode(b"\xff")) for name in names}


class BadInput(ProgramTest):
    """One run over all of it, between two good pairs."""

    def add(self, name: str, rgb: Tuple[str, bytes], depth: Tuple[str, bytes]) -> None:
        for kind, (ending, content) in (("rgb", rgb), ("depth", depth)):
            (self.folder / kind / f"{name}{ending}").write_bytes(content)

    def test_every_kind_has_its_outcome(self) -> None:
        for name in ("a good one", "z good one", os.fsdecode(b"not utf-8 \xff")):
            make_pair(self.folder, name, size=SIZE)
        good_rgb = (".png", encoded(picture(), "PNG"))
        good_depth = (".png", encoded(picture("L"), "PNG"))
        for name, (ending, content, _, _) in BAD_RGB.items():
            self.add(name, (ending, content()), good_depth)
        for name, (ending, content, _, _) in BAD_DEPTH.items():
            self.add(name, good_rgb, (ending, content()))
        (self.folder / "rgb/alone.png").write_bytes(good_rgb[1])
        manifest = self.folder / "m.jsonl"
        done = run(*self.inputs(), "--out", self.out, *SMALL, "--manifest", manifest)
        self.expect(done, 1, "14 written, 7 failed, 1 without depth")
        log = [line for line in done.stderr.splitlines() if ": '/" in line]
        lines = [json.loads(line) for line in manifest.read_text().splitlines()]
        found = {line["name"]: line for line in lines}
        for name, (_, _, status, text) in {**BAD_RGB, **BAD_DEPTH}.items():
            with self.subTest(name):
                self.assertEqual(found[name]["status"], status)
                said = [line for line in log if f"/{name}." in line]
                self.assertEqual(len(said), 1 if text else 0, said)
                if text:
                    self.assertIn(text, said[0])
                    kind = "error: " if status == "failed" else "warning: "
                    self.assertTrue(said[0].startswith(kind), said)
        written = {name for name, line in found.items() if line["status"] == "written"}
        self.assertEqual({file.stem for file in whole_pngs(self.out)}, written_names(written))
        self.assertEqual(pixels(self.out / "one_pixel.png").shape, (1, 1))
        self.assertEqual(pixels(self.out / "large.png").shape, SIZE[::-1])


class Links(ProgramTest):
    """Links that lead nowhere, or in circles."""

    def setUp(self) -> None:
        super().setUp()
        make_pair(self.folder, "a")

    def test_folders_in_circles_are_read_once(self) -> None:
        make_pair(self.folder, "below/b")
        (self.folder / "rgb/below/up").symlink_to(self.folder / "rgb")
        (self.folder / "depth/self").symlink_to(".")
        done = run(*self.inputs(), "--recursive", "--out", self.out, *SMALL)
        self.expect(done, 0, "2 written")
        self.assertEqual(len(whole_pngs(self.out)), 2)

    def test_files_in_circles_and_without_an_end_are_named(self) -> None:
        for name, target in (("circle", "circle.png"), ("nowhere", "nothing.png")):
            make_pair(self.folder, name)
            (self.folder / f"rgb/{name}.png").unlink()
            (self.folder / f"rgb/{name}.png").symlink_to(target)
        done = run(*self.inputs(), "--out", self.out, *SMALL)
        self.expect(done, 1, "circle.png", "nowhere.png")
        self.assertEqual([file.name for file in whole_pngs(self.out)], ["a.png"])


class WrongPlaces(ProgramTest):
    """Folders for files, files for folders, and what may not be read or written."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("a", "b"):
            make_pair(self.folder, name)
        self.file = self.folder / "file.txt"
        self.file.write_text("x")

    def start(self, *options: object, rights: bool = True) -> subprocess.CompletedProcess:
        line = command(*self.inputs(), "--out", self.out, *SMALL, *options)
        if not rights:
            line = self.without_rights() + line
        return subprocess.run(line, capture_output=True, text=True, timeout=280)

    def without_rights(self) -> List[str]:
        """Root without its right to pass over permissions; other users have none."""
        if os.geteuid() != 0:
            return []
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if shutil.which("setpriv") is None or subprocess.run(prefix + ["true"]).returncode:
            self.skipTest("root cannot give up its rights here")
        return prefix

    def test_a_folder_beside_a_single_picture(self) -> None:
        rgb, depth = self.folder / "rgb", self.folder / "depth"
        done = run("--rgb", rgb / "a.png", "--depth", depth, "--out", self.out, *SMALL)
        self.expect(done, 0, "1 written")
        done = run("--rgb", rgb, "--depth", depth / "a.png", "--out", self.out, *SMALL)
        self.expect(done, 2, "--depth names one image", "--rgb names many")

    def test_folders_for_files(self) -> None:
        for option in ("--weights", "--config", "--manifest", "--report", "--timing-json"):
            with self.subTest(option):
                done = run(
                    *self.inputs(), "--out", self.out, *SMALL, option, self.out.parent,
                    weights=option != "--weights",
                )  # fmt: skip
                self.expect(done, 2, str(self.out.parent))
                self.assertEqual(list(self.out.glob("*")), [])

    def test_a_file_for_the_output_folder(self) -> None:
        done = run(*self.inputs(), "--out", self.file, *SMALL)
        self.expect(done, 2, "file.txt")
        self.assertEqual(self.file.read_text(), "x")

    def test_an_unreadable_file_fails_alone(self) -> None:
        (self.folder / "rgb/a.png").chmod(0)
        done = self.start(rights=False)
        self.expect(done, 1, "a.png", "permission denied", "1 written, 1 failed")

    def test_an_unreadable_folder_is_named(self) -> None:
        (self.folder / "depth").chmod(0o100)
        done = self.start(rights=False)
        self.expect(done, 2, "depth", "ermission denied")

    def test_a_folder_that_may_not_be_written_stops_before_the_work(self) -> None:
        self.out.mkdir()
        self.out.chmod(0o555)
        done = self.start(rights=False)
        self.out.chmod(0o755)
        self.expect(done, 2, "The output folder", "cannot be written to (Permission denied)")


class FullDisk(ProgramTest):
    """A disk with room for some of the pictures: those are whole, the others are named."""

    OPTIONS = ["--size", "32", "--save", "map,overlay"]

    def setUp(self) -> None:
        super().setUp()
        for index in range(8):
            make_pair(self.folder, str(index), index, size=(320, 240))
        self.expect(run(*self.inputs(), "--out", self.folder / "whole", *self.OPTIONS), 0)

    def run_on_small_disk(self) -> subprocess.CompletedProcess:
        """The disk is there for this one process; what it holds at the end is copied to self.out."""
        disk = self.folder / "disk"
        disk.mkdir()
        script = (
            f'mount -t tmpfs -o size=900k tmpfs "{disk}" || exit 99; "$@"; status=$?;'
            f' cp -r "{disk}/out" "{self.out}"; exit $status'
        )
        line = command(*self.inputs(), "--out", disk / "out", *self.OPTIONS)
        space = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
        done = subprocess.run(
            [*space, "sh", "-c", script, "sh", *line], capture_output=True, text=True, timeout=280
        )
        if done.returncode == 99 or "unshare" in done.stderr:
            self.skipTest("no disk can be mounted here: " + done.stderr.strip())
        return done

    def test_what_fits_is_whole_and_the_rest_is_named(self) -> None:
        done = self.run_on_small_disk()
        self.expect(done, 1, "the disk is full", "failed")
        whole = {file.name: file.read_bytes() for file in whole_pngs(self.folder / "whole")}
        found = {file.name: file.read_bytes() for file in whole_pngs(self.out)}
        self.assertLess(found.items(), whole.items())
        self.assertTrue(found)
        again = run(*self.inputs(), "--out", self.out, *self.OPTIONS, "--skip-existing")
        self.expect(again, 0)
        self.assertEqual(
            {file.name: file.read_bytes() for file in whole_pngs(self.out)}, whole
        )


if __name__ == "__main__":
    run_tests(__name__)

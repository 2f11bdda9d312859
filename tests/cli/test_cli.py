"""Tests of hdfnet-infer as its users run it. Exit status 77: everything was skipped."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Dict, List

import numpy as np

from program import ROOT, ProgramTest, command, make_pair, pixels, run, run_tests, whole_pngs

SMALL = ["--size", "64"]  # the network's time is no matter here


class Reference(ProgramTest):
    """configs/reference.yaml gives what the authors' test.py gives."""

    def test_maps_equal_the_reference(self) -> None:
        golden = self.shared("data/pairs/golden")
        done = run(
            "--config", ROOT / "configs/reference.yaml", "--out", self.out,
            "--rgb", golden, "--rgb-glob", "*.jpg",
            "--depth", golden, "--depth-glob", "*[0-9].png",
        )  # fmt: skip
        self.expect(done, 0)
        wanted = sorted(golden.glob("*_golden.png"))
        self.assertEqual(len(wanted), 5)
        for file in wanted:
            reference = pixels(file).astype(int)
            difference = np.abs(
                pixels(self.out / file.name.replace("_golden", "")).astype(int) - reference
            )
            self.assertLessEqual(difference.max(), 1, file.name)
            self.assertGreaterEqual((difference == 0).mean(), 0.999, file.name)


class SharedPairs(ProgramTest):
    """Real folders run to their end, every pair written."""

    def expect_all_written(self, name: str, count: int, *options: str) -> str:
        folder = self.shared(f"data/pairs/{name}")
        done = run("--dataset", folder, "--out", self.out, *SMALL, *options)
        self.expect(done, 0)
        self.assertEqual(len(done.stdout.splitlines()), count)
        self.assertEqual(len(whole_pngs(self.out)), count)
        return done.stderr

    def test_nlpr16(self) -> None:
        log = self.expect_all_written("nlpr16", 5, "--depth-suffix", "_Depth")
        self.assertEqual(log.count("Depth is scaled"), 1)

    def test_scan(self) -> None:
        self.expect_all_written("scan", 2)

    def test_tabletop(self) -> None:
        self.expect_all_written("tabletop", 2)

    def test_stereo224(self) -> None:
        self.expect_all_written("stereo224", 3, "--depth-invert")

    def test_rawstereo(self) -> None:
        self.expect_all_written("rawstereo", 2, "--depth-invert")


class ExitStatus(ProgramTest):
    def setUp(self) -> None:
        super().setUp()
        for index, name in enumerate(("a", "b")):
            make_pair(self.folder, name, index)

    def start(self, *options: object, **more) -> subprocess.CompletedProcess:
        return run(*self.inputs(), "--out", self.out, *SMALL, *options, **more)

    def test_all_written_is_0(self) -> None:
        self.expect(self.start(), 0, "2 written")

    def test_a_full_standard_output_is_1(self) -> None:
        for options in (["--print-config"], ["--version"], [*self.inputs(), "--dry-run"]):
            with self.subTest(options), open("/dev/full", "w") as full:
                done = subprocess.run(
                    command(*options), stdout=full, stderr=subprocess.PIPE, text=True, timeout=280
                )
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard output could not be written", done.stderr)

    def test_a_failed_pair_is_1(self) -> None:
        (self.folder / "rgb/a.png").write_bytes(b"")
        self.expect(self.start(), 1, "error: a: ", "1 written, 1 failed")

    def test_an_unpaired_picture_is_1_unless_allowed(self) -> None:
        (self.folder / "depth/a.png").unlink()
        self.expect(self.start(), 1, "a.png: RGB image without depth")
        self.expect(self.start("--allow-unpaired"), 0)

    def test_usage_is_2(self) -> None:
        self.expect(run(), 2, "No input")
        self.expect(self.start("--depht", "x"), 2, "did you mean '--depth'?")
        self.expect(self.start("--batch", "zero"), 2, "--batch: 'zero'")
        self.expect(run("--rgb", "/nowhere", "--depth", "/nowhere"), 2, "/nowhere")

    def test_weights_that_are_not_there_are_2(self) -> None:
        done = self.start("--weights", self.folder / "absent.pt", weights=False)
        self.expect(done, 2, "absent.pt")

    def test_no_weights_at_all_says_how_to_make_them(self) -> None:
        if (ROOT / "weights/hdfnet_vgg16.pt").exists():
            self.skipTest("the default weights are here")
        done = self.start(weights=False, cwd=self.folder)
        self.expect(done, 2, "weights/export.py")

    def test_default_weights_below_hdfnet_home(self) -> None:
        weights = self.folder / "home/weights/hdfnet_vgg16.pt"
        weights.parent.mkdir(parents=True)
        weights.symlink_to(command()[-1])
        done = self.start(weights=False, env={"HDFNET_HOME": str(self.folder / "home")})
        self.expect(done, 0)

    def test_files_that_are_no_weights_are_2(self) -> None:
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
        for content, text in (("", "empty"), (pointer, "LFS"), ("PK\x03\x04 cut", "weights file")):
            file = self.folder / "w.pt"
            file.write_text(content)
            self.expect(self.start("--weights", file, weights=False), 2, "w.pt", text)

    def test_an_output_folder_that_cannot_be_made_is_2(self) -> None:
        (self.folder / "file").write_text("x")
        done = run(*self.inputs(), "--out", self.folder / "file/out", *SMALL)
        self.expect(done, 2, "cannot be made")

    def test_a_precision_that_the_cpu_has_not_is_2(self) -> None:
        self.expect(self.start("--precision", "fp16"), 2, "fp16")


class Configuration(ProgramTest):
    def test_printed_settings_read_back_to_the_same(self) -> None:
        first = run("--config", ROOT / "configs/reference.yaml", "--batch", "3", "--print-config")
        self.expect(first, 0)
        self.assertIn("upsample: nearest", first.stdout)
        self.assertIn("batch: 3", first.stdout)
        file = self.folder / "printed.yaml"
        file.write_text(first.stdout)
        second = run("--config", file, "--print-config")
        self.assertEqual(second.stdout, first.stdout)

    def test_an_unknown_key_is_named_with_file_line_and_suggestion(self) -> None:
        file = self.folder / "c.yaml"
        file.write_text("batch: 1\nupsmaple: nearest\n")
        done = run("--config", file)
        self.expect(done, 2, "c.yaml:2: unknown key 'upsmaple'; did you mean 'upsample'?")

    def test_a_run_from_a_file_alone(self) -> None:
        make_pair(self.folder, "a")
        file = self.folder / "c.yaml"
        file.write_text(
            f"rgb: {self.folder}/rgb\ndepth: {self.folder}/depth\nout: {self.out}\n"
            f"weights: {command()[-1]}\nsize: 64\nsave: [map, heatmap]\n"
        )
        self.expect(run("--config", file, weights=False), 0)
        self.assertEqual(len(whole_pngs(self.out)), 2)

    def test_help_and_version(self) -> None:
        self.assertIn("--depth-suffix", run("--help", weights=False).stdout)
        version = run("--version", weights=False)
        self.expect(version, 0)
        for text in ("LibTorch: 2.", "CUDA: ", "cuDNN: ", "architectures built: ", "OpenCV: 4.",
                     "devices: cpu ("):  # fmt: skip
            self.assertIn(text, version.stdout)


class Outputs(ProgramTest):
    def setUp(self) -> None:
        super().setUp()
        for index, name in enumerate(("s1/0001", "s2/0001", "zwei W\u00f6rter")):
            make_pair(self.folder, name, index)

    def start(self, *options: object) -> subprocess.CompletedProcess:
        return run(*self.inputs(), "--recursive", "--out", self.out, *SMALL, *options)

    def test_stdout_names_the_files_in_order(self) -> None:
        done = self.start()
        self.expect(done, 0)
        names = ["s1/0001.png", "s2/0001.png", "zwei W\u00f6rter.png"]
        self.assertEqual(done.stdout.splitlines(), [str(self.out / name) for name in names])

    def test_batches_and_threads_do_not_change_the_names_or_the_maps(self) -> None:
        self.expect(self.start("--batch", "1", "--threads", "1"), 0)
        before = {file: pixels(file).astype(int) for file in whole_pngs(self.out)}
        self.expect(self.start("--batch", "3", "--threads", "4"), 0)
        for file, map_before in before.items():
            # The convolutions of another batch size may round in another order.
            self.assertLessEqual(np.abs(pixels(file).astype(int) - map_before).max(), 1)

    def test_skip_existing_resumes_to_the_same_bytes(self) -> None:
        self.expect(self.start(), 0)
        bytes_before = {file: file.read_bytes() for file in whole_pngs(self.out)}
        (self.out / "s2/0001.png").unlink()
        done = self.start("--skip-existing")
        self.expect(done, 0, "1 written, 2 skipped")
        self.assertEqual({file: file.read_bytes() for file in whole_pngs(self.out)}, bytes_before)

    def test_dry_run_writes_nothing(self) -> None:
        done = self.start("--dry-run")
        self.expect(done, 0)
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assertFalse(self.out.exists())

    def test_manifest(self) -> None:
        (self.folder / "depth/s1/0001.png").write_bytes(b"no picture")
        manifest = self.folder / "m.jsonl"
        self.expect(self.start("--manifest", manifest), 1)
        lines = [json.loads(line) for line in manifest.read_text().splitlines()]
        self.assertEqual([line["status"] for line in lines], ["failed", "written", "written"])
        self.assertEqual(len(lines[1]["weights_sha256"]), 64)

    def test_every_kind(self) -> None:
        done = self.start("--save", "map,overlay,cutout,heatmap,mask", "--bit-depth", "16")
        self.expect(done, 0)
        self.assertEqual(pixels(self.out / "s1/0001.png").dtype, np.uint16)
        self.assertEqual(pixels(self.out / "s1/0001_cutout.png").shape, (48, 64, 4))
        self.assertEqual(set(np.unique(pixels(self.out / "s1/0001_mask.png"))) - {0, 255}, set())

    def test_shards_cover_everything_once(self) -> None:
        names = []
        for index in range(3):
            done = self.start("--shard", f"{index}/3")
            self.expect(done, 0)
            names += done.stdout.splitlines()
        self.assertEqual(len(names), 3)
        self.assertEqual(len(set(names)), 3)

    def test_a_list_from_stdin(self) -> None:
        done = run(
            "--rgb", "-", "--depth", self.folder / "depth/s1", "--out", self.out, *SMALL,
            text_in=f"{self.folder}/rgb/s1/0001.png\n",
        )  # fmt: skip
        self.expect(done, 0)
        self.assertEqual(len(whole_pngs(self.out)), 1)


class Reports(ProgramTest):
    def test_module_report(self) -> None:
        make_pair(self.folder, "a")
        files = {kind: self.folder / kind for kind in ("t.json", "t.csv", "t.trace")}
        done = run(
            *self.inputs(), "--out", self.out, *SMALL, "--timing", "--repeat", "2", "--warmup", "1",
            "--timing-json", files["t.json"], "--timing-csv", files["t.csv"],
            "--trace", files["t.trace"],
        )  # fmt: skip
        self.expect(done, 0, "Module report", "selfdc_16", "depth_encoder1", "Ceilings")
        report = json.loads(files["t.json"].read_text())
        modules = {row["name"]: row for row in report["modules"]}
        for name in ("encoder1", "depth_encoder16", "depth_trans4", "selfdc_4", "upconv1"):
            self.assertEqual(modules[name]["calls"], 2)
            self.assertGreater(modules[name]["flop"], 0)
            self.assertGreater(modules[name]["bytes"], 0)
            self.assertIsNotNone(modules[name]["cold_ms"])
        self.assertAlmostEqual(sum(row["share"] for row in report["modules"]), 1, places=6)
        self.assertEqual(report["header"]["precision"], "fp32")
        self.assertGreater(len(files["t.csv"].read_text().splitlines()), 20)
        self.assertTrue(json.loads(files["t.trace"].read_text())["traceEvents"])


class Verify(ProgramTest):
    def test_fused_reference_and_archive_agree(self) -> None:
        make_pair(self.folder, "a")
        done = run(*self.inputs(), "--out", self.out, "--size", "96x64", "--verify")
        self.expect(done, 0)
        self.assertIn("ok ", done.stdout)
        self.assertFalse(self.out.exists())


class Interrupted(ProgramTest):
    def test_ctrl_c_finishes_the_batch_and_ends_with_130(self) -> None:
        for index in range(200):
            make_pair(self.folder, f"{index:03}", index)
        with subprocess.Popen(
            command(*self.inputs(), "--out", self.out, "--size", "96"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            # Byte by byte: readline() would take lines behind the first along, and lose them.
            first = byte = os.read(process.stdout.fileno(), 1)
            while byte and byte != b"\n":
                byte = os.read(process.stdout.fileno(), 1)
                first += byte
            process.send_signal(signal.SIGINT)
            rest, log = (stream.decode() for stream in process.communicate(timeout=120))
        self.assertEqual(process.returncode, 130, log)
        self.assertIn("not done", log)
        printed = (first.decode() + rest).splitlines()
        self.assertLess(len(printed), 200)
        self.assertEqual([str(file) for file in whole_pngs(self.out)], sorted(printed))


class Killed(ProgramTest):
    """kill -9 leaves whole files only, and --skip-existing completes them to the same bytes.

    HDFNET_KILL_ROUNDS=N kills N times, and says what was there each time.
    """

    def files(self, folder: Path) -> Dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.glob("*")}

    def files_can_be_nameless(self) -> bool:
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            return False
        return True

    def test_kill_at_random_moments(self) -> None:
        rounds = int(os.environ.get("HDFNET_KILL_ROUNDS", "10"))
        for index in range(12):
            make_pair(self.folder, f"{index:02}", index, size=(320, 240))
        line = command(*self.inputs(), "--size", "32", "--skip-existing", "--save", "map,overlay")
        subprocess.run(line + ["--out", str(self.folder / "whole")], check=True, capture_output=True)
        wanted = self.files(self.folder / "whole")
        generator = random.Random(1)
        out = self.folder / "killed"
        counts = []
        missing = len(wanted)
        for _ in range(rounds):
            with subprocess.Popen(
                line + ["--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as process:
                for _ in range(generator.randrange(missing - 1)):
                    process.stdout.readline()  # names a file that is written
                time.sleep(generator.uniform(0, 0.05))
                process.kill()
            found = self.files(out)
            if not self.files_can_be_nameless():  # hidden ones are what was being written
                found = {name: data for name, data in found.items() if not name.startswith(".")}
            for name, data in found.items():
                # A hidden one is complete and was about to get its name.
                allowed = wanted.values() if name.startswith(".") else [wanted[name]]
                self.assertIn(data, allowed, name)
            counts.append(len(found))
            missing = len(wanted) - len(found)
            if missing < 4:
                shutil.rmtree(out)
                missing = len(wanted)
        subprocess.run(line + ["--out", str(out)], check=True, capture_output=True)
        found = {n: d for n, d in self.files(out).items() if not n.startswith(".")}
        self.assertEqual(found, wanted)
        print(f"{rounds} kills; files of {len(wanted)} found after each: {counts}")


class Terminal(ProgramTest):
    def run_on_terminal(self, *options: str) -> str:
        for index in range(6):
            make_pair(self.folder, str(index), index)
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            command(*self.inputs(), "--out", self.out, *SMALL, *options),
            stdout=subprocess.DEVNULL, stderr=theirs,
        ) as process:  # fmt: skip
            os.close(theirs)
            text = b""
            while True:
                if not select.select([ours], [], [], 120)[0]:
                    process.kill()
                    self.fail("the program says nothing")
                try:
                    part = os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                text += part
        os.close(ours)
        self.assertEqual(process.returncode, 0, text)
        return text.decode()

    def test_a_bar_is_drawn_and_taken_away(self) -> None:
        text = self.run_on_terminal()
        self.assertIn("6/6", text)
        self.assertIn("pairs/s", text)
        self.assertIn("\x1b[K", text)

    def test_quiet_draws_nothing(self) -> None:
        self.assertEqual(self.run_on_terminal("--quiet"), "")

    def test_no_bar_without_a_terminal(self) -> None:
        make_pair(self.folder, "a")
        done = run(*self.inputs(), "--out", self.out, *SMALL)
        self.assertNotIn("\x1b", done.stderr)
        self.assertNotIn("\r", done.stderr)


if __name__ == "__main__":
    run_tests(__name__)

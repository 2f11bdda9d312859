"""The scripts that measure whole folders: the pairs they make, what they make of figures, a small run of each."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import folder_runs  # noqa: E402
import throughput  # noqa: E402
import two_gpus  # noqa: E402

BIN = os.environ.get("HDFNET_BIN", str(ROOT / "build/bin"))
WEIGHTS = os.environ.get("HDFNET_RULE_WEIGHTS", str(ROOT / "build/tests/cli/rule_vgg16.pt"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Pairs(WithFolder):
    def test_they_are_a_cameras_files_and_all_differ(self):
        facts = folder_runs.make_pairs(self.folder, 6)
        self.assertEqual(facts["pairs"], 6)
        self.assertTrue(80 < facts["mean JPEG kB"] < 220, facts)
        files = sorted((self.folder / "rgb").iterdir())
        self.assertEqual(len({file.read_bytes() for file in files}), 6)
        for file in files:
            with Image.open(file) as rgb, Image.open(self.folder / f"depth/{file.stem}.png") as depth:
                self.assertEqual((rgb.size, depth.size), ((640, 480), (640, 480)))
                self.assertEqual((rgb.format, rgb.mode, depth.mode[0]), ("JPEG", "RGB", "I"))
                self.assertGreater(np.asarray(depth).max(), 255)

    def test_the_same_number_is_always_the_same_pair(self):
        for first, second in zip(folder_runs.picture_pair(4), folder_runs.picture_pair(4)):
            self.assertTrue((first == second).all())

    def test_those_that_are_there_are_not_made_again(self):
        folder_runs.make_pairs(self.folder, 2)
        before = (self.folder / "rgb/00000.jpg").stat().st_mtime_ns
        folder_runs.make_pairs(self.folder, 2)
        self.assertEqual((self.folder / "rgb/00000.jpg").stat().st_mtime_ns, before)

    def test_links_repeat_the_pairs_under_other_names(self):
        folder_runs.make_pairs(self.folder / "a", 2)
        folder_runs.link_pairs(self.folder / "a", self.folder / "b", 5)
        self.assertEqual(len(list((self.folder / "b/depth").iterdir())), 5)
        self.assertEqual((self.folder / "b/rgb/00003.jpg").read_bytes(), (self.folder / "a/rgb/00001.jpg").read_bytes())


class Runs(WithFolder):
    def test_the_rate_of_several_processes_is_that_of_the_slowest(self):
        self.assertEqual(folder_runs.rate_said("warning: x\n40 written in 0:04 (10.00 pairs/s)\n"), 10)
        both = "40 written in 0:04 (10.00 pairs/s)\n20 written, 1 failed in 0:01 (20.00 pairs/s)\n"
        self.assertEqual(folder_runs.rate_said(both), 15)
        self.assertIsNone(folder_runs.rate_said("nothing"))

    def test_the_steady_rate_leaves_the_start_out(self):
        self.assertAlmostEqual(folder_runs.steady_rate([50] * 10 + [50 + 0.1 * i for i in range(30)]), 10)
        self.assertIsNone(folder_runs.steady_rate([1, 2, 3]))

    def test_cores_are_shared_out(self):
        self.assertEqual(folder_runs.core_parts([3, 4, 5, 6, 7], 2), [[3, 4], [5, 6]])
        self.assertEqual(folder_runs.core_parts([3], 2), [[3], [3]])

    def test_resizing_is_left_to_a_gpu(self):
        for device in ("cuda", "cuda:1", "all"):
            self.assertEqual(folder_runs.without_resizing(device), ["--pictures"])
        self.assertEqual(folder_runs.without_resizing("cpu"), [])

    def test_a_process_is_timed_by_its_lines(self):
        run = folder_runs.run_once(["sh", "-c", "echo a; echo b; echo said >&2; exit 3"], self.folder, 60)
        self.assertEqual((run.status, len(run.stamps), run.said), (3, 2, "said\n"))
        self.assertIn("ended with 3: said", folder_runs.fault_of(run.facts()))

    def test_one_that_takes_too_long_is_ended(self):
        run = folder_runs.run_once(["sleep", "60"], self.folder, 0.2)
        self.assertIsNone(run.status)
        self.assertIn("took too long", folder_runs.fault_of(run.facts()))

    def test_a_failed_step_is_stored_and_the_next_is_made(self):
        results = folder_runs.Results(self.folder / "r", "title", folder_runs.failed_steps)
        self.assertIsNone(results.step("first", lambda: 1 / 0))
        self.assertEqual(results.step("second", lambda: {"status": 0, "failed": 0}), {"status": 0, "failed": 0})
        self.assertIn("ZeroDivisionError", json.loads((self.folder / "r.json").read_text())["first"]["fault"])
        self.assertIn("- first: ZeroDivisionError", (self.folder / "r.md").read_text())


class ThroughputVerdict(unittest.TestCase):
    def values(self, network, files, infer, peer):
        rounds = [{"status": 0, "pairs/s": rate, "steady pairs/s": rate, "process pairs/s": rate / 2}
                  for rate in infer]
        return {"network": {"pairs/s": network}, "one by one": {"pairs/s": peer}, "infer": {"32": rounds},
                "reading and writing": [{"status": 0, "pairs/s": files}]}

    def test_the_lower_one_binds(self):
        found = throughput.verdict(self.values(2500, 1500, [1200, 1300, 1400], 100))
        self.assertEqual(found["binding"], "reading and writing")
        self.assertAlmostEqual(found["infer"]["32"]["share"], 1300 / 1500)
        self.assertAlmostEqual(found["infer"]["32"]["ratio"], 13)
        self.assertTrue(throughput.reached(found))
        self.assertEqual(throughput.verdict(self.values(1000, 1500, [900], 100))["binding"], "network")

    def test_less_than_what_must_be_reached(self):
        self.assertFalse(throughput.reached(throughput.verdict(self.values(2500, 1500, [1100], 100))))
        self.assertFalse(throughput.reached(throughput.verdict(self.values(2500, 1500, [1400], 300))))

    def test_a_round_that_failed_does_not_count(self):
        values = self.values(2500, 1500, [1400], 100)
        values["infer"]["32"].append({"status": None, "pairs/s": 1})
        self.assertAlmostEqual(throughput.verdict(values)["infer"]["32"]["pairs/s"], 1400)

    def test_the_report_can_be_written_at_any_time(self):
        values = self.values(2500, 1500, [1400], 100)
        for names in (["infer"], ["network"], ["infer", "one by one"], list(values)):
            self.assertIn("| what |", "\n".join(throughput.markdown({name: values[name] for name in names})))


class TwoGpus(WithFolder):
    def test_maps_are_compared_byte_by_byte(self):
        for name, grey in (("a", (7, 7, 7)), ("b", (7, 9))):
            (self.folder / name).mkdir()
            for index, value in enumerate(grey):
                Image.fromarray(np.full((4, 4), value, np.uint8)).save(self.folder / name / f"{index}.png")
        self.assertEqual(two_gpus.compare_maps(self.folder / "a", self.folder / "b"),
                         {"files": 3, "missing": 1, "equal": 1, "different": 1, "largest difference": 2})

    def test_devices_and_warnings_are_found_in_what_was_said(self):
        said = ["HDFNet VGG16 on cuda:1 (NVIDIA H200), fp16, batch 32", "HDFNet VGG16 on cpu, fp32, batch 1",
                "warning: cuda:1 failed (no memory)", "warning: depth without an RGB image"]
        self.assertEqual(two_gpus.devices_said("\n".join(said)), ["cpu", "cuda:1"])
        self.assertEqual(two_gpus.warnings_naming("cuda:1", said), said[2:3])

    def values(self, one, both, files):
        rates = {"one fp16": one, "all fp16": both}
        return {"network fp16": {"pairs/s": 2500}, "reading and writing": {"pairs/s": files},
                **{name: dict.fromkeys(two_gpus.RATES, rate) for name, rate in rates.items()}}

    def test_what_binds_two_cards(self):
        found = two_gpus.verdict(self.values(2000, 2600, 2800), ["fp16"])["fp16"]
        self.assertEqual((found["binding"], found["good"]), ("reading and writing", True))
        self.assertAlmostEqual(found["all/one steady"], 1.3)
        found = two_gpus.verdict(self.values(2000, 2600, 9000), ["fp16"])["fp16"]
        self.assertEqual((found["binding"], found["good"]), ("network", False))
        self.assertTrue(two_gpus.verdict(self.values(2000, 3700, 9000), ["fp16"])["fp16"]["good"])
        self.assertFalse(two_gpus.verdict({}, ["fp16"])["fp16"]["good"])

    def test_all_maps_must_be_there_and_equal(self):
        good = {"maps": {"missing": 0, "different": 0}}
        self.assertTrue(two_gpus.all_equal({"all": good, "command": "x"}))
        self.assertFalse(two_gpus.all_equal({"all": good, "ranks": {"maps": {"missing": 1, "different": 0}}}))
        self.assertFalse(two_gpus.all_equal({}))

    def test_a_grey_level_is_allowed_where_batches_were_halved(self):
        maps = {"missing": 0, "different": 9, "largest difference": 1}
        halved = ["warning: cuda:1 has not enough memory for a batch of 32; going on with batches of 16 (no)"]
        self.assertTrue(two_gpus.all_equal({"short": {"maps": maps, "warnings": halved}}))
        self.assertFalse(two_gpus.all_equal({"short": {"maps": maps, "warnings": ["warning: cuda:1 failed"]}}))
        self.assertFalse(two_gpus.all_equal({"short": {"maps": maps}}))
        self.assertFalse(two_gpus.all_equal({"short": {"maps": {**maps, "largest difference": 2},
                                                       "warnings": halved}}))


class SmallRuns(WithFolder):
    """Of the scripts themselves, on the CPU."""

    def script(self, name, *options):
        out = self.folder / "out"
        line = [sys.executable, "-B", str(ROOT / f"scripts/{name}.py"), "--bin", BIN, "--weights", WEIGHTS, "--out",
                str(out), "--passes", "1", "--pairs", "8", *options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=800, env=ENVIRONMENT)
        return done, json.loads(out.with_suffix(".json").read_text())

    def test_throughput(self):
        done, values = self.script("throughput", "--device", "cpu", "--precision", "fp32", "--batch", "2", "--rounds",
                                   "1", "--peer-pairs", "1", "--cores", "2")
        self.assertEqual(folder_runs.failed_steps(values), [], done.stderr)
        self.assertEqual(values["infer"]["2"][0]["results"], 8)
        self.assertEqual(values["verdict"]["binding"], "network")
        self.assertGreater(values["verdict"]["infer"]["2"]["ratio"], 0)

    def test_two_gpus(self):
        done, values = self.script("two_gpus", "--precision", "fp32", "--batch", "2", "--one", "cpu", "--two", "cpu",
                                   "--ranks", "cpu", "--second", "", "--distinct", "4", "--mpirun", "false")
        self.assertEqual(folder_runs.failed_steps(values), [], done.stderr)
        self.assertIn("without mpirun", values["ranks fp32"]["by"])  # which has ended with an error
        self.assertEqual(values["ranks fp32"]["devices"], ["cpu", "cpu"])
        self.assertEqual(values["ranks fp32"]["maps"]["equal"], 8)
        self.assertTrue(values["all maps equal"])


if __name__ == "__main__":
    unittest.main()

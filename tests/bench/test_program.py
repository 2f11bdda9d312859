"""hdfnet-bench as a program: its sweep over the network, and what compare makes of the results."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HDFNET_BENCH", str(ROOT / "build/bin/hdfnet-bench"))
# Tests run side by side: threads that wait for each other's cores cost more than they bring.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
WEIGHTS = os.environ.get("HDFNET_RULE_WEIGHTS", str(ROOT / "build/tests/cli/rule_vgg16.pt"))


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=500,
                          env=ENVIRONMENT)


class NetworkBench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = Path(cls.folder.name) / "network.json"
        cls.result = run("network", "--weights", WEIGHTS, "--size", "32,48", "--batch", "1,2", "--repeat", 3,
                         "--threads", 1, "--format", "json", "--output", cls.file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_combination_is_timed_for_both_forms(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        rows = json.loads(self.file.read_text())["rows"]
        cases = [(row["who"], row["side"], row["batch"]) for row in rows]
        self.assertEqual(sorted(cases), sorted((who, side, batch) for who in ("engine", "frozen")
                                               for side in (32, 48) for batch in (1, 2)))
        for row in rows:
            self.assertEqual((row["variant"], row["precision"]), ("VGG16", "fp32"))
            self.assertGreater(row["us"], 0)
            self.assertLessEqual(row["p5"], row["us"])
            self.assertLessEqual(row["us"], row["p95"])
            self.assertAlmostEqual(row["images/s"], row["batch"] / row["us"] * 1e6, delta=1e-6 * row["images/s"])
            self.assertGreater(row["peak MB"], 100)  # the weights alone are more
            if row["who"] == "engine":
                self.assertTrue(row["right"])
                self.assertLess(row["difference"], 1e-4)

    def test_a_report_compared_with_itself_has_no_change(self):
        result = run("compare", self.file, self.file, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual(len(rows), 8)
        self.assertEqual({row["change"] for row in rows}, {"same"})

    def test_a_product_is_bound_by_memory_and_a_wide_kernel_by_arithmetic(self):
        result = run("roofline", "--batch", 1, "--kernel-size", "3,16", "--repeat", 2, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        product, small, wide = json.loads(result.stdout)["rows"]
        self.assertEqual(product["bound by"], "memory")
        self.assertAlmostEqual(product["MFLOP"], 256 * 32 * 60 / 1e6)
        self.assertAlmostEqual(product["MB"], 3 * 4 * 256 * 32 * 60 / 1e6)
        self.assertAlmostEqual(small["MFLOP"], 2 * 9 * 256 * 32 * 60 / 1e6)
        self.assertGreater(wide["FLOP/byte"], 50)
        for row in (product, small, wide):
            self.assertGreater(row["us"], 0)

    def test_usage_errors_end_with_2(self):
        self.assertEqual(run("network").returncode, 2)
        self.assertEqual(run("network", "--weights", WEIGHTS, "--precision", "fp8").returncode, 2)
        self.assertIn("fp8 is none of",
                      run("network", "--weights", WEIGHTS, "--precision", "fp8").stderr)
        self.assertIn("cannot be read", run("compare", "/nowhere.json", self.file).stderr)
        self.assertIn("expected the JSON", run("compare", WEIGHTS, self.file).stderr)


class FolderBench(unittest.TestCase):
    """Reading and writing without a network, on the example pairs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def folder_bench(self, depth, *options):
        return run("folder", "--rgb", ROOT / "examples/rgb", "--depth", depth, "--out", self.folder / "out",
                   "--answer", ROOT / "examples/mask/duck.png", "--format", "json", *options)

    def test_every_pair_is_read_and_its_map_written_in_each_passage(self):
        result = self.folder_bench(ROOT / "examples/depth_mm", "--repeat", 2, "--batch", 2, "--threads", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([(row["pairs"], row["failed"], row["threads"], row["batch"]) for row in rows],
                         [(3, 0, 3, 2)] * 2)
        for row in rows:
            self.assertAlmostEqual(row["pairs/s"], 3 / row["seconds"], delta=1e-6 * row["pairs/s"])
            for stage in ("decode ms", "preprocess ms", "postprocess ms", "encode ms"):
                self.assertGreater(row[stage], 0)
        maps = sorted((self.folder / "out").iterdir())
        self.assertEqual([file.stem for file in maps], ["cactus", "duck", "teapot"])
        self.assertEqual(len({file.read_bytes() for file in maps}), 1)  # the one answer, to all

    def test_pictures_give_the_same_maps_without_the_resizing(self):
        times, maps = [], []
        for options in ([], ["--pictures"]):
            result = self.folder_bench(ROOT / "examples/depth_mm", "--batch", 2, "--threads", 1, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual(answer["resizing"], "none" if options else "on the host")
            times.append(answer["rows"][0]["preprocess ms"])
            maps.append({file.name: file.read_bytes() for file in (self.folder / "out").iterdir()})
        self.assertEqual(len(maps[0]), 3)
        self.assertEqual(*maps)
        self.assertLess(times[1], times[0])

    def test_a_pair_that_fails_is_named_and_the_others_are_written(self):
        depth = self.folder / "depth"
        depth.mkdir()
        for file in (ROOT / "examples/depth").iterdir():
            (depth / file.name).write_bytes(file.read_bytes() if file.stem != "duck" else b"no picture")
        result = self.folder_bench(depth)
        self.assertEqual(result.returncode, 1)
        self.assertIn("duck", result.stderr)
        row, = json.loads(result.stdout)["rows"]
        self.assertEqual((row["pairs"], row["failed"], row["right"]), (2, 1, False))

    def test_a_folder_that_is_not_there_is_a_usage_error(self):
        self.assertEqual(self.folder_bench("/nowhere").returncode, 2)


class Version(unittest.TestCase):
    def test_it_is_said_without_a_subcommand(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^hdfnet-bench \d+\.\d+\.\d+\n$")


class PythonTwin(unittest.TestCase):
    def test_engine_and_peers_share_one_table(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "peers.json"
            result = subprocess.run(
                [sys.executable, "-B", str(ROOT / "weights/network_peers.py"), "--device", "cpu", "--precision",
                 "fp32", "--size", "32", "--repeat", "2", "--who", "eager,frozen", "--engine", PROGRAM, "--json",
                 str(file)], capture_output=True, text=True, timeout=500, env=ENVIRONMENT)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = json.loads(file.read_text())["rows"]
        self.assertEqual([row["who"] for row in rows], ["engine", "eager", "frozen"])
        self.assertEqual({(row["variant"], row["precision"], row["batch"], row["side"]) for row in rows},
                         {("vgg16", "fp32", 1, 32)})
        for row in rows:
            self.assertGreater(row["us"], 0)
        for row in rows[1:]:
            self.assertLess(row["difference"], 1e-4)


if __name__ == "__main__":
    unittest.main()

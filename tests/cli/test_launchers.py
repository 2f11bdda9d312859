"""--shard auto under Open MPI's mpirun, as README.md describes it. Exit status 77: there is no mpirun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Dict, List

from program import ROOT, ProgramTest, command, run, scaled_pairs, run_tests, whole_pngs

SMALL = ["--size", "64", "--threads", "1"]
PROCESSES = 3

# Root in a container, with fewer cores than processes. Open MPI 4 and 5 read other variables.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

# The process of rank 1 dies before it writes anything.
LOSE_RANK_1 = ["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || kill -9 $$; exec "$@"', "sh"]


@unittest.skipUnless(shutil.which("mpirun"), "mpirun (openmpi-bin) is not installed")
class OpenMpi(ProgramTest):
    def setUp(self) -> None:
        super().setUp()
        scaled_pairs(ROOT / "examples", self.folder, 7)
        self.arguments = [*self.inputs(), *SMALL]
        self.alone = self.folder / "alone"
        self.expect(run(*self.arguments, "--out", self.alone), 0, "7 written")

    def mpirun(self, *options: object, wrapper: List[str] = []) -> subprocess.CompletedProcess:
        line = ["mpirun", "--bind-to", "none", "--continuous", "-n", str(PROCESSES), *wrapper]
        line += command(*self.arguments, "--out", self.out, "--shard", "auto", *options)
        return subprocess.run(
            line, capture_output=True, text=True, timeout=280, env={**os.environ, **ENVIRONMENT}
        )

    def maps(self, folder: Path) -> Dict[str, bytes]:
        return {file.name: file.read_bytes() for file in whole_pngs(folder)}

    def manifests(self) -> List[List[Dict]]:
        files = [self.folder / f"m.{rank}-of-{PROCESSES}.jsonl" for rank in range(PROCESSES)]
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    def test_processes_divide_the_folder(self) -> None:
        (self.folder / "rgb/broken.png").write_bytes(b"")
        shutil.copy(self.folder / "depth/0.png", self.folder / "depth/broken.png")
        done = self.mpirun("--manifest", self.folder / "m.jsonl")
        self.assertIn("error: broken: ", done.stderr)
        self.assertEqual(self.maps(self.out), self.maps(self.alone))
        parts = self.manifests()
        names = [line["name"] for part in parts for line in part]
        self.assertEqual(sorted(names), [*map(str, range(7)), "broken"], "each pair once")
        self.assertGreater(sum(1 for part in parts if part), 1, "one process did everything")

    def test_a_lost_process_is_made_up_for_by_a_second_run(self) -> None:
        self.mpirun(wrapper=LOSE_RANK_1)
        whole = self.maps(self.alone)
        before = self.maps(self.out)
        self.assertLess(before.items(), whole.items(), "rank 1 had nothing to do")
        missing = len(whole) - len(before)
        again = run(*self.arguments, "--out", self.out, "--skip-existing")
        self.expect(again, 0, f"{missing} written, {len(before)} skipped")
        self.assertEqual(self.maps(self.out), whole)


if __name__ == "__main__":
    run_tests(__name__)

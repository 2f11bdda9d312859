"""The fused archive (weights/export.py --fused) in TorchScript hosts that know nothing of this project.

HDFNET_HOSTS names the folder of the programs of tests/ops/host; HDFNET_OPS_LIBRARY libhdfnet_ops.so,
HDFNET_OPS_FOR_ANOTHER the same for a LibTorch that does not exist; HDFNET_INFER hdfnet-infer.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights"))
import archive  # noqa: E402
import archive_reader  # noqa: E402
import fused  # noqa: E402
import hdfnet  # noqa: E402

HOSTS = pathlib.Path(os.environ["HDFNET_HOSTS"])
LIBRARY = os.environ["HDFNET_OPS_LIBRARY"]
FOR_ANOTHER = os.environ["HDFNET_OPS_FOR_ANOTHER"]
INFER = os.environ.get("HDFNET_INFER")
SHIPPED = ROOT / "weights" / "hdfnet_vgg16.pt"
EXAMPLES = ("teapot", "duck")
SIZES = ((1, 64, 96), (2, 64, 96), (1, 97, 131), (2, 97, 131))  # batch, height, width


def pictures(batch, height, width):
    """The network's inputs of the first examples."""
    import numpy as np
    from PIL import Image

    rgb, depth = [], []
    for name in EXAMPLES[:batch]:
        size = (width, height)
        image = Image.open(ROOT / f"examples/rgb/{name}.jpg").convert("RGB").resize(size, Image.BILINEAR)
        rgb.append(torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255)
        image = Image.open(ROOT / f"examples/depth/{name}.png").convert("L").resize(size, Image.BILINEAR)
        depth.append(torch.from_numpy(np.array(image))[None] / 255)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (torch.stack(rgb) - mean[:, None, None]) / deviation[:, None, None], torch.stack(depth)


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        fused.load_operators(pathlib.Path(LIBRARY))
        variant, state = archive_reader.load(SHIPPED)
        cls.archive = cls.folder / "fused.pt"
        archive.save(archive.make(variant, state, "int8", change=fused.fuse_ddpms), cls.archive)
        reference = hdfnet.build_with(variant, state)
        try:
            cls.inputs = [pictures(*size) for size in SIZES]
        except ImportError as error:
            raise unittest.SkipTest(f"the Python of this PyTorch lacks a package: {error}") from error
        with torch.inference_mode():
            cls.expected = [reference(*inputs) for inputs in cls.inputs]

    def run_host(self, name, cases, library=None, preload=None):
        """The host's finished process and its maps, None where it wrote none."""
        torch.save(self.inputs[:cases], self.folder / "inputs.pt")
        outputs = self.folder / "outputs.pt"
        outputs.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        if preload:
            environment["LD_PRELOAD"] = preload
        command = [HOSTS / name, self.archive, self.folder / "inputs.pt", outputs] + ([library] if library else [])
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        return process, torch.load(outputs, weights_only=True) if outputs.exists() else None

    def check(self, name, cases=1, **options):
        process, maps = self.run_host(name, cases, **options)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr, "")
        self.assertEqual(len(maps), cases)
        for found, expected in zip(maps, self.expected):
            self.assertEqual(found.shape, expected.shape)
            self.assertLessEqual(float((found - expected).abs().max()), 1e-5)
            self.assertGreater(float(expected.std()), 1e-2)  # two flat maps would agree as well

    def check_unknown(self, name, **options):
        process, maps = self.run_host(name, 1, **options)
        self.assertEqual(process.returncode, 1)
        self.assertIsNone(maps)
        self.assertRegex(process.stderr, "Unknown builtin op: hdfnet::(generated_)?dynamic_filter")
        return process.stderr

    def test_operators_by_dlopen_in_two_sizes_and_batches(self):
        self.check("torchscript_host", cases=len(SIZES), library=LIBRARY)

    def test_operators_by_preload(self):
        self.check("torchscript_host", preload=LIBRARY)

    def test_without_the_operators(self):
        self.check_unknown("torchscript_host")

    def test_linked_as_needed(self):
        self.check("torchscript_host_linked")
        self.check_unknown("torchscript_host_dropped")  # no call, so the linker dropped the library

    def test_linked_statically(self):
        self.check("torchscript_host_static")
        self.check_unknown("torchscript_host_static_dropped")

    def test_two_copies_in_one_process(self):
        self.check("torchscript_host_static", preload=LIBRARY)
        self.check("torchscript_host_linked", library=LIBRARY)

    def test_compiled_for_another_libtorch(self):
        said = self.check_unknown("torchscript_host", library=FOR_ANOTHER)
        running = torch.__version__.partition("+")[0]
        for part in ("libhdfnet_ops was compiled for LibTorch 99.1.0", f"this process runs LibTorch {running} (",
                     "libtorch_cpu.so)", "were not registered", "Use a LibTorch 99.1, or build libhdfnet_ops against"):
            self.assertIn(part, said)

    @unittest.skipUnless(INFER, "hdfnet-infer is not built")
    def test_hdfnet_infer_takes_it_too(self):
        pair = ["--rgb", ROOT / "examples/rgb/teapot.jpg", "--depth", ROOT / "examples/depth/teapot.png"]
        common = [INFER, *pair, "--device", "cpu", "--threads", "1", "--size", "96", "--weights"]
        verified = subprocess.run([*common, self.archive, "--verify"], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        maps = []
        for weights in (self.archive, SHIPPED):
            path = self.folder / f"map{len(maps)}.png"
            process = subprocess.run([*common, weights, "--out", path], capture_output=True, text=True)
            self.assertEqual(process.returncode, 0, process.stderr)
            maps.append(path.read_bytes())
        self.assertEqual(maps[0], maps[1])


if __name__ == "__main__":
    unittest.main()

"""Tests of the reference network, the export and the reading of checkpoints.

Run from the repository root: python -m unittest discover -s tests/weights
The reference values lie in HDFNET_SHARED/golden (default: ../shared beside the repository); without
them the tests that need them are skipped and say so.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import sys
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path
from typing import Dict, Tuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights"))

import archive  # noqa: E402
import checkpoint  # noqa: E402
import export  # noqa: E402
import golden_rule  # noqa: E402
import hdfnet  # noqa: E402

GOLDEN = Path(os.environ.get("HDFNET_SHARED", ROOT.parent / "shared")) / "golden"
needs_golden = unittest.skipUnless(
    (GOLDEN / "golden.npz").is_file(), f"no reference values in {GOLDEN}; set HDFNET_SHARED"
)

# What the original loses in float32 on a CPU: largest and mean absolute difference from float64.
# Agreement means at most twice that.
FLOAT32_LOSS = {
    ("vgg16", "even"): (1.2e-6, 1.6e-7),
    ("vgg16", "odd"): (2.0e-6, 2.1e-7),
    ("vgg16", "full"): (1.3e-6, 1.6e-7),
    ("vgg19", "even"): (1.1e-6, 1.6e-7),
    ("vgg19", "odd"): (1.9e-6, 2.1e-7),
    ("res50", "even"): (1.1e-6, 1.8e-7),
    ("res50", "odd"): (1.4e-6, 2.4e-7),
}


def setUpModule() -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")


@functools.lru_cache(maxsize=None)
def golden() -> Dict[str, np.ndarray]:
    with np.load(GOLDEN / "golden.npz") as file:
        return {name: file[name] for name in file.files}


@functools.lru_cache(maxsize=1)
def rule_state(variant: str) -> Dict[str, Tensor]:
    return golden_rule.state_dict(hdfnet.state_shapes(variant), variant)


def golden_keys(variant: str) -> Dict[str, Tuple[int, ...]]:
    shapes = {}
    for line in (GOLDEN / f"keys_{variant}.txt").read_text().splitlines():
        name, _, shape = line.partition(" ")
        shapes[name] = tuple(map(int, shape.split("x"))) if shape else ()
    return shapes


class GoldenRule(unittest.TestCase):
    def test_first_values(self) -> None:
        expected = [-0.57995854, -0.70651049, 0.76685008, -0.77058027]
        np.testing.assert_allclose(
            golden_rule.uniform("encoder1.0.weight", 4), expected, atol=1e-8, rtol=0
        )

    def test_chunks_join(self) -> None:
        long = golden_rule.uniform("a", golden_rule._CHUNK + 3)
        with mock.patch.object(golden_rule, "_CHUNK", 1000):
            np.testing.assert_array_equal(golden_rule.uniform("a", long.size), long)
        self.assertTrue(np.all((long >= -1) & (long < 1)))


@needs_golden
class AgreementWithTheOriginal(unittest.TestCase):
    def test_keys_and_shapes(self) -> None:
        for variant in hdfnet.VARIANTS:
            with self.subTest(variant=variant):
                expected = golden_keys(variant)
                self.assertEqual(hdfnet.state_shapes(variant), expected)
                self.assertEqual(list(hdfnet.state_shapes(variant)), list(expected))
                self.assertEqual(hdfnet.variant_of(expected), variant)

    def agree(self, variant: str, *tags: str) -> None:
        model = hdfnet.build_with(variant, rule_state(variant))
        for tag in tags:
            with self.subTest(tag=tag), torch.inference_mode():
                out = model(*golden_rule.inputs(tag)).numpy()
                expected = golden()[f"{variant}.{tag}.out"]
                self.assertEqual(out.shape, expected.shape)
                difference = np.abs(out.astype(np.float64) - expected)
                largest, mean = FLOAT32_LOSS[variant, tag]
                self.assertLessEqual(difference.max(), 2 * largest)
                self.assertLessEqual(difference.mean(), 2 * mean)

    def test_vgg16(self) -> None:
        self.agree("vgg16", "even", "odd", "full")

    def test_vgg19(self) -> None:
        self.agree("vgg19", "even", "odd")

    def test_res50(self) -> None:
        self.agree("res50", "even", "odd")

    def test_ddpm_alone(self) -> None:
        for tag in "ab":
            with self.subTest(tag=tag), torch.inference_mode():
                module = hdfnet.DDPM(64, 64, 64).eval()
                shapes = {name: t.shape for name, t in module.state_dict().items()}
                module.load_state_dict(golden_rule.state_dict(shapes))
                expected = golden()[f"ddpm.{tag}.out"]
                x, y = (
                    torch.from_numpy(
                        golden_rule.uniform(f"ddpm.{tag}.{name}", expected.size)
                        .astype(np.float32)
                        .reshape(expected.shape)
                    )
                    for name in "xy"
                )
                difference = np.abs(module(x, y).numpy() - expected).max()
                self.assertLessEqual(difference, 1e-5 * np.abs(expected).max())


class DynamicFilter(unittest.TestCase):
    def test_against_the_definition(self) -> None:
        generator = torch.Generator().manual_seed(1)
        n, c, h, w, k, d = 2, 3, 5, 7, 3, 3
        x = torch.randn(n, c, h, w, generator=generator, dtype=torch.float64)
        kernels = torch.randn(n, c * k * k, h, w, generator=generator, dtype=torch.float64)
        expected = torch.zeros_like(x)
        for i in range(k):
            for j in range(k):
                for y in range(h):
                    for z in range(w):
                        row, column = y + (i - 1) * d, z + (j - 1) * d
                        if 0 <= row < h and 0 <= column < w:
                            tap = kernels[:, k * i + j :: k * k, y, z]
                            expected[:, :, y, z] += x[:, :, row, column] * tap
        torch.testing.assert_close(hdfnet.dynamic_filter(x, kernels, k, d), expected)


class Export(unittest.TestCase):
    """On VGG16 with rule-made weights; needs no reference values."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.state = rule_state("vgg16")
        cls.eager = hdfnet.build_with("vgg16", cls.state)
        with torch.inference_mode():
            cls.expected = [cls.eager(*cls.pair(tag)) for tag in ("even", "odd")]

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    @staticmethod
    def pair(tag: str) -> Tuple[Tensor, Tensor]:
        rgb, depth = golden_rule.inputs(tag)
        return rgb[:1], depth[:1]

    def saved(self, storage: str, trace: bool) -> torch.jit.ScriptModule:
        self.path = Path(self.folder.name) / "archive.pt"
        archive.save(archive.make("vgg16", self.state, storage, trace), self.path)
        return torch.jit.load(str(self.path))

    def error(self, module: torch.jit.ScriptModule) -> float:
        with torch.inference_mode():
            maps = [module(*self.pair(tag)) for tag in ("even", "odd")]
        return max(float((a - b).abs().max()) for a, b in zip(maps, self.expected))

    def check_parameters(self, module: torch.jit.ScriptModule, dtype: torch.dtype) -> None:
        found = module.state_dict()
        shapes = {name: tuple(t.shape) for name, t in found.items()}
        self.assertEqual(shapes, hdfnet.state_shapes("vgg16"))
        for name, tensor in found.items():
            if not name.endswith("num_batches_tracked"):
                self.assertEqual(tensor.dtype, dtype, name)

    def test_script_and_trace_agree_with_eager(self) -> None:
        for trace in (False, True):
            with self.subTest(trace=trace):
                module = self.saved("fp32", trace)
                self.assertLessEqual(self.error(module), 1e-6)
                self.check_parameters(module, torch.float32)

    def test_half_precision_storage(self) -> None:
        for storage, trace, bound in (("fp16", True, 5e-3), ("bf16", False, 5e-2)):
            with self.subTest(storage=storage):
                module = self.saved(storage, trace)
                self.assertLessEqual(self.error(module), bound)
                self.check_parameters(module, archive.STORAGE_TYPES[storage])

    def test_int8_storage(self) -> None:
        module = self.saved("int8", False)
        found = module.state_dict()
        shapes = hdfnet.state_shapes("vgg16")
        scales = {n + "_scale": s[:1] for n, s in shapes.items() if len(s) == 4}
        self.assertEqual({n: tuple(t.shape) for n, t in found.items()}, {**shapes, **scales})
        for name, shape in shapes.items():
            if len(shape) != 4:
                continue
            self.assertEqual(found[name].dtype, torch.int8, name)
            scale = found[name + "_scale"].reshape(-1, 1, 1, 1)
            loss = (found[name].float() * scale - self.state[name]).abs()
            self.assertTrue(bool((loss <= 0.5001 * scale).all()), name)
        self.assertLessEqual(self.error(module), 5e-2)
        stored = hdfnet.build_with("vgg16", archive.as_stored(self.state, "int8"))
        with torch.inference_mode():
            for tag in ("even", "odd"):
                torch.testing.assert_close(
                    module(*self.pair(tag)), stored(*self.pair(tag)), atol=1e-6, rtol=0
                )
        self.assertLessEqual(self.path.stat().st_size, 45_000_000)

    def test_archive_tells_nothing_of_the_machine(self) -> None:
        self.saved("int8", True)
        with zipfile.ZipFile(self.path) as file:
            names = file.namelist()
            self.assertFalse([name for name in names if name.endswith(".debug_pkl")])
            self.assertEqual(len(names), len(set(names)))
            text = b"".join(file.read(n) for n in names if n.endswith((".py", ".pkl")))
        self.assertNotIn(str(ROOT).encode(), text)

    def test_no_temporary_file_is_left(self) -> None:
        self.saved("int8", False)
        self.assertEqual([p.name for p in Path(self.folder.name).iterdir()], ["archive.pt"])
        with mock.patch.object(os, "replace", side_effect=OSError("disk full")):
            with self.assertRaises(OSError):
                self.saved("int8", False)
        self.assertEqual([p.name for p in Path(self.folder.name).iterdir()], ["archive.pt"])

    def test_all_zero_channel(self) -> None:
        weight = torch.zeros(2, 3, 1, 1)
        weight[1] = 2.0
        values, scale = archive.quantise(weight)
        self.assertTrue(bool(torch.isfinite(scale).all()))
        self.assertEqual(values[1].unique().tolist(), [127])
        self.assertEqual(values[0].unique().tolist(), [0])

    def test_command_line(self) -> None:
        source, out = (str(Path(self.folder.name) / n) for n in ("c.pth", "archive.pt"))
        torch.save({"state_dict": {f"module.{k}": v for k, v in self.state.items()}}, source)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                status = export.main(["--checkpoint", source, "--out", out, "--dtype", "int8"])
        finally:
            os.unlink(source)
        self.assertEqual(status, 0)
        self.assertIn("vgg16, script, int8", printed.getvalue())
        self.assertIn(archive.sha256(Path(out)), printed.getvalue())


class Opener:
    """Pickles into a call: what a hostile checkpoint would carry."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Tuple[object, Tuple[str, str]]:
        return open, (self.path, "w")


class Checkpoints(unittest.TestCase):
    """On a network of two parameters, so that the files are small."""

    SHAPES = {
        "conv.weight": (4, 3, 3, 3),
        "norm.running_var": (4,),
        "norm.num_batches_tracked": (),
    }

    def setUp(self) -> None:
        patch = mock.patch.object(hdfnet, "state_shapes", lambda variant: dict(self.SHAPES))
        patch.start()
        self.addCleanup(patch.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "weights.pth"
        self.state = golden_rule.state_dict(self.SHAPES)

    def load(self, content: object, **options: object) -> Dict[str, Tensor]:
        torch.save(content, self.path, **options)
        return checkpoint.load(self.path, "vgg16")[1]

    def assert_same(self, found: Dict[str, Tensor]) -> None:
        self.assertEqual(list(found), list(self.SHAPES))
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, self.state[name], rtol=0, atol=0)

    def refused(self, *parts: str) -> None:
        with self.assertRaises(checkpoint.CheckpointError) as caught:
            checkpoint.load(self.path, "vgg16")
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def refuses(self, content: object, *parts: str) -> None:
        torch.save(content, self.path)
        self.refused(*parts)

    def test_new_and_old_file_format(self) -> None:
        for new in (True, False):
            with self.subTest(zip=new):
                found = self.load(self.state, _use_new_zipfile_serialization=new)
                self.assertEqual(zipfile.is_zipfile(self.path), new)
                self.assert_same(found)

    def test_prefix_and_nesting(self) -> None:
        prefixed = {"module." + name: tensor for name, tensor in self.state.items()}
        twice = {"module." + name: tensor for name, tensor in prefixed.items()}
        for content in (
            prefixed,
            twice,
            {"epoch": 30, "state_dict": self.state},
            {"model": prefixed, "lr": 0.1},
            {"model": {"state_dict": self.state}},
        ):
            self.assert_same(self.load(content))

    def test_half_and_double_become_float32(self) -> None:
        def converted(dtype: torch.dtype) -> Dict[str, Tensor]:
            return {k: v.to(dtype) if v.is_floating_point() else v for k, v in self.state.items()}

        self.assert_same(self.load(converted(torch.float64)))
        found = self.load(converted(torch.float16))
        self.assertEqual(found["conv.weight"].dtype, torch.float32)

    def test_batch_counter_may_be_absent(self) -> None:
        del self.state["norm.num_batches_tracked"]
        found = self.load(self.state)
        self.assertEqual(int(found["norm.num_batches_tracked"]), 0)

    def test_every_fault_is_named(self) -> None:
        self.state["extra.bias"] = torch.zeros(7)
        self.state["conv.weight"] = torch.zeros(4, 3, 1, 1)
        del self.state["norm.running_var"]
        self.refuses(
            self.state,
            "1 missing: norm.running_var (4)",
            "1 unexpected: extra.bias (7)",
            "1 mis-shaped: conv.weight: expected (4, 3, 3, 3), found (4, 3, 1, 1)",
        )

    def test_not_finite(self) -> None:
        for value in (float("nan"), float("inf")):
            self.state["norm.running_var"] = torch.tensor([1.0, value, 1.0, 1.0])
            self.refuses(self.state, "1 non-finite: norm.running_var: 1 of 4")

    def test_not_floating_point(self) -> None:
        self.state["norm.running_var"] = torch.ones(4, dtype=torch.int64)
        self.refuses(self.state, "norm.running_var: expected floating point, found torch.int64")

    def test_foreign_content(self) -> None:
        self.refuses([1, 2], "expected a dictionary of tensors, found list")
        self.refuses({"epoch": 3}, "found no tensors")
        self.refuses({"a": torch.zeros(1), "b": "text"}, "b: expected a tensor, found str")

    def test_foreign_files(self) -> None:
        self.refused("no such file")
        for content, part in (
            (b"", "empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
            (b"PK\x03\x04 not really", "not a PyTorch checkpoint"),
            (b"\x89PNG\r\n\x1a\n" + bytes(100), "not a PyTorch checkpoint"),
        ):
            self.path.write_bytes(content)
            self.refused(part)

    def test_truncated(self) -> None:
        for new in (True, False):
            torch.save(self.state, self.path, _use_new_zipfile_serialization=new)
            self.path.write_bytes(self.path.read_bytes()[:-200])
            self.refused("not a PyTorch checkpoint")

    def test_archive_instead_of_checkpoint(self) -> None:
        torch.jit.script(nn.ReLU()).save(str(self.path))
        self.refused("TorchScript archive already")

    def test_hostile_pickle_is_refused(self) -> None:
        mark = self.path.with_name("mark")
        hostile = {"state_dict": self.state, "x": Opener(str(mark))}
        for new in (True, False):
            torch.save(hostile, self.path, _use_new_zipfile_serialization=new)
            mark.unlink(missing_ok=True)  # old-format saving must not be what made it
            self.refused("refused", "more than tensors")
            self.assertFalse(mark.exists())
        self.path.write_bytes(pickle.dumps(Opener(str(mark)), protocol=2))
        with self.assertRaises(checkpoint.CheckpointError):
            checkpoint.load(self.path, "vgg16")
        self.assertFalse(mark.exists())

    def test_variant_is_told_from_the_keys(self) -> None:
        for key, variant in (
            ("encoder4.7.weight", "vgg16"),
            ("encoder4.10.weight", "vgg19"),
            ("encoder32.0.conv1.weight", "res50"),
        ):
            self.assertEqual(hdfnet.variant_of({"encoder4.7.weight": 0, key: 0}), variant)
        with self.assertRaises(checkpoint.CheckpointError) as caught:
            checkpoint.check(self.state)
        self.assertIn("not the parameters of an HDFNet", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

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
from typing import Dict, List, Tuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights"))

import archive  # noqa: E402
import archive_reader  # noqa: E402
import checkpoint  # noqa: E402
import export  # noqa: E402
import fused  # noqa: E402
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


class FromArchive(unittest.TestCase):
    """Archives read again without running their code, on a network of few parameters."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.names: List[str] = ["a", "b"]
            self.strides: List[int] = [1, 2]

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.conv(x))[:, :: self.strides[0]]

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "archive.pt"

    def stored(self, network: nn.Module, trace: bool = False) -> Dict[str, Tensor]:
        example = torch.zeros(1, 3, 8, 8)
        made = torch.jit.trace(network, example) if trace else torch.jit.script(network)
        made.save(str(self.path))
        return archive_reader.stored_parameters(self.path)

    def refuses(self, *parts: str) -> None:
        with self.assertRaises(checkpoint.CheckpointError) as caught:
            archive_reader.load(self.path, "vgg16")
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_every_type_and_both_forms(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for trace in (False, True):
                with self.subTest(dtype=dtype, trace=trace):
                    network = self.Network().eval()
                    if not trace:
                        network = network.to(dtype)
                    found = self.stored(network, trace)
                    self.assertEqual(list(found), list(network.state_dict()))
                    for name, tensor in network.state_dict().items():
                        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)

    def test_int8_is_dequantised(self) -> None:
        network = self.Network().eval()
        weight = network.conv.weight.detach().clone()
        archive._replace_layers(network, torch.int8)
        stored = self.stored(network)
        self.assertEqual(stored["conv.weight"].dtype, torch.int8)
        found = archive_reader.dequantised(stored)
        self.assertEqual(sorted(found), sorted(self.Network().state_dict()))
        expected = archive.as_stored({"conv.weight": weight}, "int8")["conv.weight"]
        torch.testing.assert_close(found["conv.weight"], expected, rtol=0, atol=0)
        # Once more through int8 changes nothing that float32 would show.
        again = archive.as_stored(found, "int8")["conv.weight"]
        torch.testing.assert_close(again, expected, rtol=1e-6, atol=0)
        for wrong in (torch.ones(3), None):
            stored["conv.weight_scale"] = wrong
            if wrong is None:
                del stored["conv.weight_scale"]
            with self.assertRaisesRegex(checkpoint.CheckpointError, "needs conv.weight_scale, one"):
                archive_reader.dequantised(stored)

    def test_the_shipped_archive(self) -> None:
        variant, state = archive_reader.load(ROOT / "weights" / "hdfnet_vgg16.pt")
        self.assertEqual(variant, "vgg16")
        loaded = torch.jit.load(str(ROOT / "weights" / "hdfnet_vgg16.pt"))
        convolution = getattr(loaded.encoder1, "0")
        weight = convolution.weight.float() * convolution.weight_scale.reshape(-1, 1, 1, 1)
        torch.testing.assert_close(state["encoder1.0.weight"], weight, rtol=0, atol=0)
        torch.testing.assert_close(state["classifier.bias"], loaded.classifier.bias, rtol=0, atol=0)

    def test_its_code_is_not_run(self) -> None:
        with zipfile.ZipFile(self.path, "w") as file:
            file.writestr("a/constants.pkl", b"")
            file.writestr("a/version", "3")
            file.writestr("a/data.pkl", pickle.dumps(Opener(str(self.path) + ".mark"), protocol=2))
        self.refuses("io.open, which no network needs; refused")
        self.assertFalse(Path(str(self.path) + ".mark").exists())

    def test_foreign_and_damaged_files(self) -> None:
        self.refuses("no such file")
        self.path.write_bytes(b"PK\x03\x04 not really")
        self.refuses("truncated or not a TorchScript archive")
        torch.save({"a": torch.zeros(1)}, self.path)
        self.refuses("not a TorchScript archive; for a checkpoint of torch.save use --checkpoint")
        torch.jit.freeze(torch.jit.script(self.Network().eval())).save(str(self.path))
        self.refuses("no named parameters (torch.jit.freeze")
        torch.jit.script(self.Network()).save(str(self.path))
        self.refuses("these do not fit HDFNet vgg16", "missing: encoder1.0.weight (64, 3, 3, 3)")


LIBRARY = os.environ.get("HDFNET_OPS_LIBRARY")


class Fused(unittest.TestCase):
    """Archives whose DDPMs run on the operators; tests/ops has them in other hosts."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "fused.pt"

    def export(self, *arguments: str) -> Tuple[int, str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = export.main([*arguments, "--fused", "--out", str(self.out)])
        return status, printed.getvalue()

    @unittest.skipUnless(LIBRARY, "HDFNET_OPS_LIBRARY does not name libhdfnet_ops.so")
    def test_both_ways_to_filter_agree_with_the_reference_module(self) -> None:
        fused.load_operators(Path(LIBRARY))
        reference = hdfnet.DDPM(16, 8, 16).eval()
        for storage, bound in ((None, 1e-5), (torch.float16, 1e-2)):
            with self.subTest(storage=storage), torch.inference_mode():
                network = nn.Sequential(hdfnet.DDPM(16, 8, 16)).eval()
                network[0].load_state_dict(reference.state_dict())
                if storage is not None:
                    archive._replace_layers(network, storage)
                fused.fuse_ddpms(network)
                module = torch.jit.script(network[0])
                self.assertEqual(list(module.state_dict()), list(reference.state_dict()))
                x, y = torch.randn(2, 16, 9, 7), torch.randn(2, 8, 9, 7)
                self.assertLessEqual((module(x, y) - reference(x, y)).abs().max(), bound)
                down = module.down_input(x)
                features = [getattr(module, f"branch_{d}").features(y) for d in (1, 3, 5)]
                stored = module.filtered_with_stored_taps(down, features)
                for one, other in zip(stored, module.filtered_on_chip(down, features)):
                    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
                calls = str(module.filtered_on_chip.graph) + str(
                    module.filtered_with_stored_taps.graph
                )
                self.assertEqual(calls.count("hdfnet::generated_dynamic_filter"), 1)
                self.assertEqual(calls.count("hdfnet::dynamic_filter"), 3)

    @unittest.skipUnless(LIBRARY, "HDFNET_OPS_LIBRARY does not name libhdfnet_ops.so")
    def test_command_line(self) -> None:
        arguments = ("--golden-rule", "--variant", "vgg16", "--dtype", "fp16")
        status, printed = self.export(*arguments, "--ops-library", LIBRARY)
        self.assertEqual(status, 0, printed)
        self.assertIn("vgg16, script, fused, fp16", printed)
        variant, state = archive_reader.load(self.out)
        self.assertEqual(variant, "vgg16")
        self.assertEqual(list(state), list(hdfnet.state_shapes("vgg16")))

    def test_without_the_library(self) -> None:
        with mock.patch.object(fused, "find_library", lambda: None):
            status, printed = self.export("--golden-rule", "--variant", "vgg16")
        self.assertEqual(status, 2)
        self.assertIn("libhdfnet_ops.so was not found in", printed)
        self.assertIn("name it by --ops-library", printed)
        wrong = self.out.with_name("libhdfnet_ops.so")
        arguments = ("--golden-rule", "--variant", "vgg16", "--ops-library", str(wrong))
        status, printed = self.export(*arguments)
        self.assertIn(f"{wrong}: no such file", printed)
        wrong.write_bytes(b"no library")
        status, printed = self.export(*arguments)
        self.assertEqual(status, 2)
        self.assertIn(f"cannot be loaded into PyTorch {torch.__version__}; it must be built", printed)
        self.assertFalse(self.out.exists())


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

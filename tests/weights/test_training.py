"""Tests of the training code: measures, losses, views, initial features. No images are needed."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights"))

import augment  # noqa: E402
import hdfnet  # noqa: E402
import imagenet  # noqa: E402
import losses  # noqa: E402
import metrics  # noqa: E402
import plot_curves  # noqa: E402
import refine  # noqa: E402
import teach  # noqa: E402
import train  # noqa: E402
import u2net  # noqa: E402


# What PySODMetrics 1.6.2 gives for a ramp over the columns against a rectangle.
EXPECTED_ON_RAMP = {
    "max_f": 0.33171324422843257,
    "mean_f": 0.19753443340619087,
    "mae": 0.4904117647058824,
    "s": 0.3719544593999803,
}


class Measures(unittest.TestCase):
    def setUp(self) -> None:
        self.mask = np.zeros((40, 50), np.uint8)
        self.mask[10:25, 12:40] = 255

    def test_perfect_and_inverted(self) -> None:
        best = metrics.measure([(self.mask, self.mask)])
        self.assertAlmostEqual(best["max_f"], 1.0)
        self.assertAlmostEqual(best["mae"], 0.0)
        self.assertAlmostEqual(best["s"], 1.0, places=6)
        self.assertAlmostEqual(best["indecision"], 0.0)
        worst = metrics.measure([(255 - self.mask, self.mask)])
        self.assertAlmostEqual(worst["mae"], 1.0)
        self.assertLess(worst["s"], 0.1)

    def test_against_values_of_pysodmetrics(self) -> None:
        ramp = np.tile(np.linspace(0, 255, 50).astype(np.uint8), (40, 1))
        found = metrics.measure([(ramp, self.mask)])
        for name, value in EXPECTED_ON_RAMP.items():
            self.assertAlmostEqual(found[name], value, places=9, msg=name)

    def test_f_by_hand(self) -> None:
        truth = np.array([[True, True, False, False]])
        curve = metrics.f_curve(np.array([[1.0, 0.2, 0.5, 0.0]]), truth)
        # Threshold above 0.5: one hit, no false alarm: precision 1, recall 0.5.
        self.assertAlmostEqual(curve[0], 1.3 * 0.5 / (0.3 + 0.5))
        self.assertAlmostEqual(curve[-1], 1.3 * 0.5 / (0.3 * 0.5 + 1))

    def test_empty_mask_and_flat_map(self) -> None:
        found = metrics.measure([(np.full((8, 8), 77, np.uint8), np.zeros((8, 8), np.uint8))])
        self.assertTrue(all(np.isfinite(v) for v in found.values()))


class Losses(unittest.TestCase):
    def test_right_is_cheaper_than_wrong(self) -> None:
        target = torch.zeros(2, 1, 48, 48)
        target[:, :, 10:30, 10:30] = 1
        right = (target * 2 - 1) * 8
        for loss in (losses.cross_entropy_and_overlap, losses.hybrid_enhanced):
            self.assertEqual(loss(right, target).shape, (2,))
            self.assertTrue(bool((loss(right, target) < 0.05).all()))
            self.assertTrue(bool((loss(-right, target) > 1).all()))

    def test_edge_weight_is_that_of_the_square_mean(self) -> None:
        target = (torch.rand(2, 1, 40, 50) > 0.7).float()
        local = F.avg_pool2d(target, 31, stride=1, padding=15, count_include_pad=False)
        torch.testing.assert_close(losses._edge_weight(target), 1 + 5 * (local - target).abs())

    def test_empty_and_full_targets(self) -> None:
        for value in (0.0, 1.0):
            logits = torch.zeros(1, 1, 32, 32, requires_grad=True)
            loss = losses.total(logits, torch.full((1, 1, 32, 32), value))
            loss.backward()
            self.assertTrue(bool(torch.isfinite(logits.grad).all()))


def small_pack(count: int = 4, side: int = 64) -> augment.Pack:
    generator = torch.Generator().manual_seed(3)
    rgb = torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)
    depth = torch.full((count, 1, side, side), 200, dtype=torch.uint8)
    mask = torch.zeros(count, 1, side, side, dtype=torch.uint8)
    mask[:, :, 20:40, 10:50] = 255
    depth[mask > 0] = 40
    has_depth = torch.tensor([True] * (count - 1) + [False])
    boxes = augment.object_boxes(mask)
    return augment.Pack(rgb, depth, mask, mask.clone(), has_depth, boxes)


def views(pack: augment.Pack, index: torch.Tensor, manner: augment.Manner = augment.Manner()):
    """Views with the masks as delivered."""
    return augment.views(pack, index, 48, torch.ones_like(index, dtype=torch.bool), manner)


class Views(unittest.TestCase):
    def test_boxes(self) -> None:
        box = small_pack().box[0].tolist()
        np.testing.assert_allclose(box, [-0.0625, -0.0625, 0.625, 0.3125])
        empty = augment.object_boxes(torch.zeros(1, 1, 8, 8, dtype=torch.uint8))
        self.assertEqual(empty[0].tolist(), [0, 0, 1, 1])

    def test_shapes_ranges_and_seed(self) -> None:
        pack, index = small_pack(), torch.tensor([0, 3, 1, 2, 0, 3])
        torch.manual_seed(5)
        rgb, depth, target = views(pack, index)
        self.assertEqual(rgb.shape, (6, 3, 48, 48))
        for plane in (depth, target):
            self.assertEqual(plane.shape, (6, 1, 48, 48))
            self.assertGreaterEqual(float(plane.min()), 0)
            self.assertLessEqual(float(plane.max()), 1)
        self.assertTrue(bool(torch.isfinite(rgb).all()))
        torch.manual_seed(5)
        again = views(pack, index)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip((rgb, depth, target), again)))

    def test_depth_keeps_its_polarity(self) -> None:
        torch.manual_seed(1)
        near, far, cases = 0.0, 0.0, 0
        pack, index = small_pack(), torch.zeros(32, dtype=torch.long)
        for _ in range(4):
            _, depth, target = views(pack, index)
            for d, t in zip(depth, target):
                if d.std() > 0.02 and 0.05 < t.mean() < 0.95:
                    near += float(d[t > 0.5].mean())
                    far += float(d[t <= 0.5].mean())
                    cases += 1
        self.assertGreater(cases, 60)
        self.assertLess(near / cases, far / cases - 0.2)

    def test_adopted_masks_are_used_where_asked(self) -> None:
        pack, index = small_pack(), torch.tensor([0, 1, 0, 1])
        pack.mask.fill_(255)
        pack.adopted.zero_()
        delivered = torch.tensor([True, False, False, True])
        manner = augment.Manner(focus=0.3, paste=0.0)
        _, _, target = augment.views(pack, index, 48, delivered, manner)
        self.assertEqual(target.amin((1, 2, 3)).tolist(), [1, 0, 0, 1])
        self.assertEqual(target.amax((1, 2, 3)).tolist(), [1, 0, 0, 1])

    def test_calm_views_get_no_pasted_objects(self) -> None:
        pack = small_pack()
        pack.mask[0] = 0  # nothing but a pasted object can be in its views
        index = torch.tensor([0, 1] * 64)
        torch.manual_seed(4)
        many = views(pack, index, augment.Manner(paste=0.5))[2][::2]
        none = views(pack, index, augment.CALM)[2][::2]
        self.assertGreater(float(many.max()), 0.9)
        self.assertEqual(float(none.max()), 0)

    def test_plain(self) -> None:
        rgb, depth = augment.plain(small_pack(), torch.tensor([1, 3]), 32)
        self.assertEqual((rgb.shape, depth.shape), ((2, 3, 32, 32), (2, 1, 32, 32)))


class Features(unittest.TestCase):
    def test_streams_start_as_the_plain_vgg(self) -> None:
        generator = torch.Generator().manual_seed(2)
        widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
        features = []
        for i, o in zip(widths, widths[1:]):
            weight = torch.randn(o, i, 3, 3, generator=generator) * (2 / (9 * i)) ** 0.5 * 1.5
            features.append((weight, 0.1 * torch.randn(o, generator=generator)))
        model = hdfnet.build("vgg16")
        rgb = torch.randn(2, 3, 64, 64, generator=generator)
        depth = torch.rand(2, 1, 64, 64, generator=generator)
        imagenet.initialise(model, features, rgb, depth)
        x, remaining = rgb, list(features)
        for stride, count in ((1, 2), (2, 2), (4, 3), (8, 3), (16, 3)):
            if stride > 1:
                x = F.max_pool2d(x, 2)
            for _ in range(count):
                x = F.relu(F.conv2d(x, *remaining.pop(0), padding=1))
        for training in (False, True):
            with torch.no_grad():
                y = rgb
                for stride in (1, 2, 4, 8, 16):
                    y = getattr(model, f"encoder{stride}").train(training)(y)
            # Equal up to one positive factor per channel.
            factor = (x * y).sum((0, 2, 3)) / (y * y).sum((0, 2, 3)).clamp_min(1e-9)
            difference = (y * factor.reshape(1, -1, 1, 1) - x).norm() / x.norm()
            self.assertLess(float(difference), 1e-3)

    def test_small_form(self) -> None:
        generator = torch.Generator().manual_seed(2)
        features = [
            (torch.randn(4, 2, 3, 3, generator=generator), torch.randn(4, generator=generator))
            for _ in range(13)
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "f.npz"
            imagenet.write_small(features, path)
            for (weight, bias), (w, b) in zip(imagenet.read_features(path), features):
                self.assertLess(float((weight - w).abs().max()), float(w.abs().max()) / 200)
                torch.testing.assert_close(bias, b)

    def test_only_arrays_are_unpickled(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "f.ckpt"
            tree = {f"Conv_{i}": {"kernel": np.zeros((3, 3, 2, 4), np.float32)} for i in range(13)}
            for layer in tree.values():
                layer["bias"] = np.ones(4, np.float32)
            path.write_bytes(pickle.dumps({"VGG16_0": tree}, protocol=2))
            try:
                features = imagenet.read_features(path)
            except pickle.UnpicklingError as error:  # NumPy 2 pickles bytes through _codecs
                self.assertIn("_codecs", str(error))
            else:
                self.assertEqual(features[0][0].shape, (4, 2, 3, 3))
            path.write_bytes(pickle.dumps({"VGG16_0": print}, protocol=2))
            with self.assertRaises(pickle.UnpicklingError):
                imagenet.read_features(path)


class Training(unittest.TestCase):
    def test_strided_filter_equals_the_reference(self) -> None:
        x = torch.randn(2, 4, 6, 9, dtype=torch.float64, requires_grad=True)
        kernels = torch.randn(2, 36, 6, 9, dtype=torch.float64, requires_grad=True)
        for dilation in (1, 3, 5):
            results = []
            for function in (hdfnet.dynamic_filter, train.strided_dynamic_filter):
                out = function(x, kernels, 3, dilation)
                results.append((out,) + torch.autograd.grad(out.square().sum(), (x, kernels)))
            for a, b in zip(*results):
                torch.testing.assert_close(a, b)

    def test_offsets_start_as_the_identity_and_vanish_in_use(self) -> None:
        model = hdfnet.build("vgg16").eval()
        rgb, depth = torch.randn(2, 3, 32, 32), torch.rand(2, 1, 32, 32)
        with torch.no_grad():
            before = model(rgb, depth)
            offsets = train.SourceOffsets(model)
            offsets.origin = torch.tensor([0, 2])
            torch.testing.assert_close(model(rgb, depth), before)
            offsets.offset["classifier"][0] = 5.0  # the first origin's, which none of the two has
            torch.testing.assert_close(model(rgb, depth), before)
            offsets.offset["classifier"][1] = 1.0
            moved = model(rgb, depth)
            torch.testing.assert_close(moved[0], before[0])
            self.assertGreater(float((moved[1] - before[1]).abs().min()), 0)
            offsets.origin = None
            torch.testing.assert_close(model(rgb, depth), before)
        self.assertEqual(
            {name: tuple(t.shape) for name, t in model.state_dict().items()},
            hdfnet.state_shapes("vgg16"),
        )

    def test_features_are_hidden_in_training_alone(self) -> None:
        model = hdfnet.build("vgg16").eval()
        rgb, depth = torch.randn(1, 3, 32, 32), torch.rand(1, 1, 32, 32)
        with torch.no_grad():
            before = model(rgb, depth)
            train.hide_features(model, 0.5)
            torch.testing.assert_close(model(rgb, depth), before)
            model.train()
            r16 = torch.ones(1, 512, 2, 2)
            gone = (model.trans16(r16) == 0).all(dim=3).all(dim=2).float().mean()
        self.assertGreater(float(gone), 0.2)
        self.assertLess(float(gone), 0.8)

    def test_adoption(self) -> None:
        masks = torch.zeros(3, 1, 20, 20)
        masks[:, :, 4:12, 4:12] = 1
        maps = masks.clone()
        maps[0] *= 0.9  # agrees on the object
        maps[1] = maps[1].roll(8, 2) * 0.9  # chooses another
        maps[2] = 0.0  # sees none
        targets, weights = train.adoption(maps, masks)
        torch.testing.assert_close(targets[0], 0.2 * maps[0] + 0.8 * masks[0])
        torch.testing.assert_close(targets[1], (maps[1] + masks[1]) / 2)
        torch.testing.assert_close(targets[2], masks[2])
        torch.testing.assert_close(weights, torch.tensor([1.0, 0.4, 0.2]))

    def test_maps_are_written_in_17_levels(self) -> None:
        maps = torch.linspace(0, 1, 1001)
        planes = teach.quantised(maps)
        self.assertEqual(planes.dtype, torch.uint8)
        self.assertEqual(len(planes.unique()), 17)
        self.assertEqual((int(planes[0]), int(planes[-1])), (0, 255))
        self.assertLess(float((planes / 255 - maps).abs().max()), 1 / 32 + 1 / 255)

    def test_average(self) -> None:
        layer = nn.Linear(2, 1)
        average = train.Average(layer, 0.9)
        with torch.no_grad():
            layer.weight.fill_(1.0)
        for _ in range(400):
            average.update(layer)
        torch.testing.assert_close(average.model.weight, layer.weight)

    def test_parts_join(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.pt"
            content = bytes(range(256)) * 5000
            path.write_bytes(content)
            train.cut(path, 0.5)
            parts = sorted(Path(folder).iterdir())
            self.assertGreater(len(parts), 1)
            self.assertEqual(b"".join(p.read_bytes() for p in parts), content)


def write_tiny_pack(root: Path, labelled: int = 3) -> None:
    """A pack of small images: the validation images, `labelled` like them, two each of the rest."""
    names = [(f"l{i}", "labelled") for i in range(train.VALIDATION_IMAGES + labelled)]
    names += [("t0", "train"), ("t1", "train")]
    rows = [f"{name},{split},0.3,0.01" for name, split in names]
    for folder in ("nlpr/rgb", "nlpr/depth", "nlpr/mask", "sod/rgb", "sod/mask"):
        (root / folder).mkdir(parents=True)
    (root / "nlpr.csv").write_text("\n".join(["name,split,foreground,indecision", *rows]) + "\n")
    mask = np.zeros((8, 8), np.uint8)
    mask[2:6, 3:7] = 255
    rgb = Image.fromarray(np.stack([mask, 255 - mask, mask // 2], axis=2))
    for collection, stems in (("nlpr", [name for name, _ in names]), ("sod", ["s0", "s1"])):
        for stem in stems:
            rgb.save(root / collection / "rgb" / f"{stem}.jpg")
            Image.fromarray(mask).save(root / collection / "mask" / f"{stem}.png")
            if collection == "nlpr":
                Image.fromarray(255 - mask).save(root / collection / "depth" / f"{stem}.jpg")


class AllLabelled(unittest.TestCase):
    SHARES = (0.5, 0.3, 0.2)

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.pack = Path(cls.folder.name)
        write_tiny_pack(cls.pack)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def chances(self, validation_trains: bool) -> dict:
        """The chance of an image of each source, which is the same for all of them."""
        images = train.Images(self.pack, 0, torch.device("cpu"), validation_trains)
        self.assertEqual(images.source.count("validation"), train.VALIDATION_IMAGES)
        self.assertEqual(images.source.count("labelled"), 3)
        chances = train.initial_chances(images, self.SHARES)
        found = {}
        for source in (*train.SOURCES, "validation"):
            values = chances[images.of(source)].unique()
            self.assertEqual(len(values), 1, source)
            found[source] = float(values)
        return found

    def test_validation_images_are_drawn_when_asked(self) -> None:
        apart, together = self.chances(False), self.chances(True)
        self.assertEqual(apart["validation"], 0)
        self.assertAlmostEqual(apart["train"], 0.5 / 2)
        self.assertAlmostEqual(apart["labelled"], 0.3 / 3)
        self.assertAlmostEqual(apart["sod"], 0.2 / 2)
        self.assertEqual(together, {**apart, "validation": apart["labelled"]})

    def options(self, out: Path, *more: str) -> list:
        archive = ROOT / "weights" / "hdfnet_vgg16.pt"
        tiny = "--minutes 0.0001 --size 32 --batch 2 --limit 2 --part-mib 0".split()
        return ["--data", str(self.pack), "--start", str(archive), "--out", str(out), *tiny, *more]

    def train(self, options: list) -> None:
        """The command, quiet; the faster filter that it puts into hdfnet is taken out again."""
        with mock.patch.object(hdfnet, "dynamic_filter", hdfnet.dynamic_filter):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(train.main(options), 0)

    def test_the_bias_cannot_be_found_on_seen_images(self) -> None:
        output = io.StringIO()
        with contextlib.redirect_stderr(output), self.assertRaises(SystemExit):
            train.parse_arguments(self.options(Path("out"), "--all-labelled"))
        self.assertIn("--all-labelled needs --bias-shift", output.getvalue())

    def test_figures_on_seen_images_say_so_and_choose_nothing(self) -> None:
        for seen in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder)
                more = ["--bias-shift", "-2.25"] + ["--all-labelled"] * seen
                self.train(self.options(out, *more))
                report = json.loads((out / "metrics.json").read_text())
                curve = json.loads((out / "curves.json").read_text())
            self.assertEqual("best average on validation" in report["candidates"], not seen)
            self.assertEqual(report["bias shift"], -2.25)
            for name in ("float32", "float32, levelled", "int8", "int8, depth 0.5"):
                self.assertIs(report[name]["seen_in_training"], seen)
            self.assertIs(curve[-1]["seen_in_training"], seen)

    def test_a_state_goes_on_as_it_was_begun(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state.pt"
            torch.save({"all_labelled": True, "taught": False}, state)
            options = self.options(Path(folder), "--state", str(state))
            with self.assertRaisesRegex(SystemExit, "another choice of --all-labelled"):
                self.train(options)

    def test_curves_name_images_that_trained(self) -> None:
        entry = {"step": 1, "max_f": 0.8, "mae": 0.1, "loss": 1.0}
        for seen in (False, True):
            drawn = plot_curves.draw([{**entry, "seen_in_training": seen}])
            self.assertEqual("which also trained" in drawn, seen)

    def test_curves_of_several_runs_are_told_apart(self) -> None:
        first = [{"step": 1, "max_f": 0.8, "mae": 0.1, "loss": 1.0}]
        second = [{"step": 2, "max_f": 0.9, "mae": 0.05}]  # its loss is not known
        drawn = plot_curves.draw({"one & all": first, "two": second})
        self.assertIn(">one &amp; all</text>", drawn)
        self.assertIn("training loss: not logged", plot_curves.draw(second))
        self.assertIn(">two</text>", drawn)
        self.assertEqual(drawn.count("<polyline"), 6)
        self.assertEqual(drawn.count("<circle"), 5)
        with self.assertRaisesRegex(ValueError, "at most 4 runs, found 5"):
            plot_curves.draw({str(i): first for i in range(5)})


class Composed(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(5)
        # Every view has a value of its own everywhere, so that each pixel tells where it comes from.
        self.value = torch.arange(64.0).reshape(64, 1, 1, 1)
        self.rgb = self.value.expand(64, 3, 40, 40).clone()
        self.depth = self.value.expand(64, 1, 40, 40).clone() / 64

    def test_views_are_left_alone_or_joined_with_their_neighbour(self) -> None:
        rgb, depth, composed = augment.compose(self.rgb, self.depth, 0.5)
        self.assertTrue(10 < int(composed.sum()) < 54)
        torch.testing.assert_close(rgb[~composed], self.rgb[~composed], rtol=0, atol=0)
        torch.testing.assert_close(depth, rgb[:, :1] / 64)  # both are joined alike
        own, neighbour = self.value, self.value.roll(1, 0)
        part = ((rgb - own) / (neighbour - own))[composed]
        areas = part.mean((1, 2, 3))
        rectangles = part.amax((1, 2, 3)) - part.amin((1, 2, 3)) > 0.5
        self.assertTrue(0 < int(rectangles.sum()) < len(part))
        self.assertTrue(bool(((part[rectangles] < 1e-4) | (part[rectangles] > 1 - 1e-4)).all()))
        self.assertTrue(bool(((areas > 0.13) & (areas < 0.78)).all()))
        for plane in part[rectangles][:, 0] > 0.5:  # one rectangle: rows and columns tell all
            outer = plane.any(1)[:, None] & plane.any(0)[None, :]
            self.assertTrue(torch.equal(plane, outer))

    def test_none_and_all(self) -> None:
        for share in (0.0, 1.0):
            composed = augment.compose(self.rgb, self.depth, share)[2]
            self.assertEqual(composed.float().mean().item(), share)


class Teacher(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.manual_seed(3)
        cls.model = u2net.U2Net().eval()
        cls.rgb, cls.depth = torch.randn(2, 3, 50, 70), torch.rand(2, 1, 50, 70)

    def test_it_has_the_parameters_of_the_published_network(self) -> None:
        of_depth = self.model.depth_entry.weight.numel()
        count = sum(p.numel() for p in self.model.parameters()) - of_depth
        self.assertEqual(count, 43_981_069)  # 44,009,869 with the BatchNorm that is folded in
        self.assertEqual(len(u2net.convolutions_in_order(self.model)), 119)

    def test_any_size_gives_a_map_and_six_side_outputs(self) -> None:
        with torch.no_grad():
            logits = self.model.all_logits(self.rgb, self.depth)
            found = self.model(self.rgb, self.depth)
        self.assertEqual([tuple(x.shape) for x in logits], [(2, 1, 50, 70)] * 7)
        torch.testing.assert_close(found, logits[0].sigmoid())

    def test_depth_counts_once_it_is_trained(self) -> None:
        with torch.no_grad():
            before = self.model(self.rgb, self.depth)
            torch.testing.assert_close(self.model(self.rgb, 1 - self.depth), before)
            self.model.depth_entry.weight.fill_(0.1)
            moved = self.model(self.rgb, 1 - self.depth)
            self.model.depth_entry.weight.zero_()
        self.assertGreater(float((moved - before).abs().max()), 0)

    def test_it_is_stored_in_8_bits_and_read_again(self) -> None:
        state = self.model.state_dict()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "teacher.npz"
            u2net.store(state, path)
            self.assertLess(path.stat().st_size, 45e6)
            again = u2net.load(path).state_dict()
        self.assertEqual(set(again), set(state))
        for name, tensor in state.items():
            largest = tensor.abs().amax(dim=(1, 2, 3)) if tensor.dim() == 4 else torch.zeros(1)
            step = (largest / 127).reshape(-1, *[1] * (tensor.dim() - 1))
            self.assertTrue(bool(((again[name] - tensor).abs() <= 0.501 * step).all()), name)

    def test_a_file_without_depth_leaves_it_at_zero(self) -> None:
        state = dict(self.model.state_dict())
        del state["depth_entry.weight"]
        with tempfile.TemporaryDirectory() as folder:
            u2net.store(state, Path(folder) / "u2net.npz")
            again = u2net.load(Path(folder) / "u2net.npz").state_dict()
        self.assertEqual(float(again["depth_entry.weight"].abs().max()), 0)
        torch.testing.assert_close(again["outconv.bias"], state["outconv.bias"])

    def test_a_file_that_lacks_weights_is_refused(self) -> None:
        for lost, said in (
            ("side1.bias", "u2net.npz: no weights of U²-Net: side1.bias missing"),
            ("side1.weight_scale", "u2net.npz: side1.weight: is int8 and needs side1.weight_scale"),
        ):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "u2net.npz"
                u2net.store(self.model.state_dict(), path)
                with np.load(path) as stored:
                    kept = {name: stored[name] for name in stored.files if name != lost}
                np.savez(path, **kept)
                with self.assertRaisesRegex(ValueError, said):
                    u2net.load(path)

    def test_weights_between_the_first_and_the_last(self) -> None:
        first, last = {"a": torch.zeros(2)}, {"a": torch.tensor([1.0, 2.0])}
        torch.testing.assert_close(refine.between(first, last, 0.25)["a"], torch.tensor([0.25, 0.5]))

    def test_parameters_are_told_by_their_order(self) -> None:
        state = self.model.state_dict()
        given = [
            (state[f"{name}.weight"].numpy(), state[f"{name}.bias"].numpy())
            for name in u2net.convolutions_in_order(self.model)
        ]
        found = u2net.state_of(given)
        self.assertEqual(set(found), set(state) - {"depth_entry.weight"})
        for name, array in found.items():
            np.testing.assert_array_equal(array, state[name].numpy())
        with self.assertRaisesRegex(ValueError, "expected 119 convolutions, found 118"):
            u2net.state_of(given[:-1])
        with self.assertRaisesRegex(ValueError, "stage1.rebnconvin.conv_s1: expected"):
            u2net.state_of([given[1], given[0], *given[2:]])

    def test_what_it_answers_is_mixed_into_the_targets(self) -> None:
        targets, answers = torch.zeros(3, 1, 2, 2), torch.ones(3, 1, 2, 2)
        shares = torch.tensor([0.6, 0.3, 0.6])
        found = train.taught(targets, answers, shares, torch.tensor([False, False, True]))
        torch.testing.assert_close(found[:, 0, 0, 0], torch.tensor([0.6, 0.3, 0.0]))

    def test_sharper_logits_are_a_multiple(self) -> None:
        model = hdfnet.build("vgg16").eval()
        rgb, depth = torch.randn(1, 3, 32, 32), torch.rand(1, 1, 32, 32)
        with torch.no_grad():
            before = model.logits(rgb, depth)
            train.sharpen(model, 1.5)
            torch.testing.assert_close(model.logits(rgb, depth), 1.5 * before)


class TeacherRun(unittest.TestCase):
    """refine.py and then train.py --teacher, on a few tiny images, with a tiny U²-Net."""

    STEPS = 3
    TINY = {
        "_DOWN": tuple((f"stage{i}", 4, 3 if i == 1 else 4, 2, 4) for i in range(1, 7)),
        "_UP": tuple((f"stage{i}d", 4, 8, 2, 4) for i in range(5, 0, -1)),
        "_SIDES": (4,) * 6,
    }

    def setUp(self) -> None:
        def progress(run: object) -> float:
            return run.step / self.STEPS

        patches = [
            mock.patch.object(refine.Refinement, "progress", progress),
            mock.patch.object(train.Run, "progress", progress),
            mock.patch.object(hdfnet, "dynamic_filter", hdfnet.dynamic_filter),
            mock.patch.multiple(u2net, **self.TINY),
            contextlib.redirect_stdout(io.StringIO()),
        ]
        for patch in patches:
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        write_tiny_pack(self.folder)
        torch.manual_seed(3)
        u2net.store(u2net.U2Net().state_dict(), self.folder / "u2net.npz")

    def tiny(self, *more: object) -> list:
        line = ["--data", self.folder, *"--size 32 --batch 2 --limit 2".split(), *more]
        return [str(word) for word in line]

    def refined(self, *more: str) -> Path:
        out = self.folder / "refined"
        start = self.folder / "u2net.npz"
        self.assertEqual(refine.main(self.tiny("--start", start, "--out", out, *more)), 0)
        return out

    def trained(self, *more: object) -> dict:
        archive = ROOT / "weights" / "hdfnet_vgg16.pt"
        out = self.folder / "out"
        options = self.tiny("--start", archive, "--out", out, "--part-mib", 0, "--bias-shift", -1, *more)
        self.assertEqual(train.main(options), 0)
        self.assertTrue((out / "hdfnet_vgg16.pt").is_file())
        return json.loads((out / "metrics.json").read_text())

    def test_a_network_is_refined(self) -> None:
        first = u2net.load(self.folder / "u2net.npz").state_dict()
        for seen in (False, True):
            out = self.refined("--lr", "0.05", *["--all-labelled"] * seen)
            report = json.loads((out / "metrics.json").read_text())
            self.assertEqual(report["steps"], self.STEPS)
            self.assertIs(report["refined"]["seen_in_training"], seen)
            self.assertEqual(set(report["kept"]), {"0.4", "1"})
            shifts = [report["kept"][place]["bias shift"] for place in ("0.4", "1")]
            last = u2net.load(out / "teacher-1.npz").state_dict()
            part = u2net.load(out / "teacher-0.4.npz").state_dict()
            self.assertGreater(float(last["depth_entry.weight"].abs().max()), 0)
            for name in first:
                way = torch.lerp(first[name], last[name], 0.4)
                if name == "outconv.bias":
                    way += shifts[0] - 0.4 * shifts[1]
                torch.testing.assert_close(part[name], way, atol=2e-2 * float(way.abs().max()), rtol=0)
            self.assertGreater(float((last["outconv.weight"] - first["outconv.weight"]).abs().max()), 0.03)
            self.assertEqual(any(shifts), not seen)
            with np.load(out / "maps-0.4.npz") as maps:
                self.assertEqual(len(maps.files), 2)

    def test_the_first_weights_stay_as_they_were(self) -> None:
        line = self.tiny("--start", self.folder / "u2net.npz", "--out", self.folder, "--lr", 0.1)
        run = refine.Refinement(refine.parse_arguments(line))
        run.step = 1  # the first step's rate is zero
        run.set_rate(run.progress())
        run.train_step()
        given = u2net.load(self.folder / "u2net.npz").state_dict()
        moved = run.model.state_dict()
        for name, tensor in given.items():
            torch.testing.assert_close(run.first[name], tensor, rtol=0, atol=0)
        self.assertFalse(torch.equal(moved["outconv.bias"], given["outconv.bias"]))
        self.assertFalse(torch.equal(moved["outconv.weight"], given["outconv.weight"]))

    def test_it_teaches(self) -> None:
        refined = self.refined()
        archive = ROOT / "weights" / "hdfnet_vgg16.pt"
        teachers = [archive, refined / "teacher-0.4.npz"]
        learnt = ["--archive", *teachers, "--size", 32, "--limit", 2, "--out", self.folder / "maps"]
        self.assertEqual(teach.main([str(w) for w in ["--data", self.folder, *learnt]]), 0)
        self.assertEqual(len(list((self.folder / "maps").iterdir())), 2)
        teacher = ["--maps", self.folder / "maps", "--teacher", *teachers]
        with mock.patch.object(train, "taught", wraps=train.taught) as mixing:
            report = self.trained(*teacher, "--sharpen", 1.5)
        self.assertEqual(report["steps"], self.STEPS)
        self.assertEqual(mixing.call_count, self.STEPS)
        self.assertEqual(report["options"]["sharpen"], "1.5")
        self.assertEqual(report["teachers"]["images"], 2)

    def test_of_composed_views_the_teachers_answers_are_the_whole_target(self) -> None:
        run = self.run_of("--teacher", self.folder / "u2net.npz", "--composed", 1)
        run.delivered_share.fill_(1)  # else every image would have the offsets of its origin
        shown, origins, composed = [], [], []
        as_it_is = augment.compose

        def compose(*arguments: object) -> tuple:
            composed.append(as_it_is(*arguments))
            return composed[-1]

        def logits(rgb: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
            origins.append(run.offsets.origin.tolist())
            shown.append((rgb, depth))
            return type(run.model).logits(run.model, rgb, depth)

        with mock.patch.object(train, "taught", wraps=train.taught) as mixing:
            with mock.patch.object(augment, "compose", compose):
                with mock.patch.object(run.model, "logits", logits):
                    with mock.patch.object(
                        run.teachers, "forward", side_effect=run.teachers.forward
                    ) as asking:
                        run.train_step()
        _, _, shares, offset = mixing.call_args.args
        self.assertEqual(shares.tolist(), [1.0, 1.0])
        self.assertEqual(offset.tolist(), [False, False])
        self.assertEqual(origins, [[0, 0]])
        for seen in (shown[0], asking.call_args.args):
            for mine, made in zip(seen, composed[0]):
                torch.testing.assert_close(mine, made, rtol=0, atol=0)

    def test_composed_views_need_a_teacher_and_a_share(self) -> None:
        for options, expected in (
            (["--composed", 0.5], "--composed needs --teacher"),
            (["--composed", -0.5], "--composed -0.5: expected a share, 0 to 1"),
        ):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.run_of(*options)
            self.assertIn(expected, said.getvalue())

    def run_of(self, *more: object) -> train.Run:
        archive = ROOT / "weights" / "hdfnet_vgg16.pt"
        line = self.tiny("--start", archive, "--out", self.folder / "out", *more)
        return train.Run(train.parse_arguments(line), 0.0)

    def test_nobody_teaches_unasked(self) -> None:
        with mock.patch.object(train, "taught", wraps=train.taught) as mixing:
            self.run_of().train_step()
        mixing.assert_not_called()

    def test_several_teach_their_mean(self) -> None:
        archive = ROOT / "weights" / "hdfnet_vgg16.pt"
        run = self.run_of("--teacher", self.folder / "u2net.npz", archive)
        rgb, depth = torch.randn(2, 3, 32, 32), torch.rand(2, 1, 32, 32)
        each = [teacher(rgb, depth) for teacher in run.teachers.networks]
        self.assertGreater(float((each[0] - each[1]).abs().max()), 0.01)
        torch.testing.assert_close(run.teachers(rgb, depth), (each[0] + each[1]) / 2)
        expected = train.evaluate(run.teachers, run.images, 32, blind=False)
        del expected["seen_in_training"]
        self.assertEqual(run.taught_by, expected)

    def test_a_state_that_was_taught_goes_on_so(self) -> None:
        state = self.folder / "state.pt"
        torch.save({"all_labelled": False, "taught": True}, state)
        with self.assertRaisesRegex(SystemExit, "another choice of --teacher"):
            self.trained("--state", state)


class Teaching(unittest.TestCase):
    def test_several_networks_teach_the_mean_of_their_maps(self) -> None:
        class Flat(nn.Module):
            def __init__(self, value: float) -> None:
                super().__init__()
                self.value = value

            def forward(self, rgb: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
                return torch.full_like(depth, self.value)

        with tempfile.TemporaryDirectory() as folder:
            write_tiny_pack(Path(folder))
            images = train.Images(Path(folder), 1, torch.device("cpu"))
        maps = teach.mean_maps([Flat(0.25), Flat(0.75)], images, images.of("train"), 32)
        torch.testing.assert_close(maps, torch.full((1, 1, 352, 352), 0.5))
        options = teach.parse_arguments("--data P --archive A.pt B.pt --out M".split())
        self.assertEqual(options.archives, [Path("A.pt"), Path("B.pt")])


if __name__ == "__main__":
    unittest.main()

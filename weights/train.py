"""Trains HDFNet-VGG16 on a pack of RGB-D images and writes the archive that hdfnet-infer loads.

    python weights/train.py --data PACK --features vgg16_features.npz --out OUT --minutes 8

PACK holds nlpr/{rgb,depth,mask}, nlpr.csv and sod/{rgb,mask}. The learning-rate schedule follows
the clock, not the step count: a run of any length ends annealed. With --maps, the images whose
masks come from the RGB network also teach an earlier network's maps (see teach.py). With --teacher,
other networks answer every view as well (see refine.py). With --state
the whole training state is kept in a file, and a run cut into slices (--slice-minutes) goes on
where the last stopped. OUT gets the archive, cut into parts of --part-mib, metrics.json,
curves.json, the validation images' logits (maps.npz) and a sheet of their maps.

80 of the `labelled` images are kept from training, to measure on. With --all-labelled they train as
well: that is for the archive to ship, once the same options without it have been measured.
"""

from __future__ import annotations

import argparse
import copy
import csv
import json
import math
import os
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

import archive  # noqa: E402
import archive_reader  # noqa: E402
import augment  # noqa: E402
import hdfnet  # noqa: E402
import imagenet  # noqa: E402
import losses  # noqa: E402
import metrics  # noqa: E402
import u2net  # noqa: E402

STORED_SIZE = 352
VALIDATION_IMAGES = 80
NEARLY_EMPTY, UNDECIDED = 0.005, 0.05
SOURCES = ("train", "labelled", "sod")  # of the images that train; `validation` is the fourth


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train HDFNet-VGG16.")
    parser.add_argument("--data", type=Path, required=True, help="the training pack")
    parser.add_argument("--features", type=Path, help="ImageNet VGG16 features (see imagenet.py)")
    parser.add_argument("--start", type=Path, help="start from this archive instead")
    parser.add_argument("--maps", type=Path, help="an earlier network's maps (see teach.py)")
    parser.add_argument(
        "--teacher",
        type=Path,
        nargs="+",
        default=[],
        dest="teachers",
        help="networks that teach: U²-Nets (.npz, see refine.py), archives (.pt); of several the "
        "mean answer",
    )
    parser.add_argument(
        "--teacher-shares",
        type=float,
        nargs=3,
        default=(0.6, 0.3, 0.3),
        metavar=("TRAIN", "LABELLED", "SOD"),
        help="their answers' share of the targets in the views of each source (distillation)",
    )
    parser.add_argument(
        "--composed",
        type=float,
        default=0.0,
        help="share of the views that are put together from two (CutMix and mixup), for which the "
        "teachers' answers are the whole target",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8.0, help="length of the whole schedule")
    parser.add_argument("--slice-minutes", type=float, help="stop after this long; needs --state")
    parser.add_argument("--state", type=Path, help="file that keeps the training state")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--rgb-lr", type=float, default=0.12, help="RGB encoder, times --lr")
    parser.add_argument("--depth-lr", type=float, default=0.3, help="depth encoder, times --lr")
    parser.add_argument("--weight-decay", type=float, default=0.04)
    parser.add_argument("--average", type=float, default=0.999, help="decay of the weight average")
    parser.add_argument("--adopt-at", type=float, default=0.35, help="when masks are adopted anew")
    parser.add_argument("--calm-at", type=float, default=0.8, help="when views become calmer")
    parser.add_argument("--drop", type=float, default=0.1, help="share of features hidden")
    parser.add_argument(
        "--shares",
        type=float,
        nargs=3,
        default=(0.50, 0.34, 0.16),
        metavar=("TRAIN", "LABELLED", "SOD"),
        help="shares of the views from each source; with --all-labelled the further images come "
        "on top",
    )
    parser.add_argument(
        "--all-labelled",
        action="store_true",
        help="train on the validation images, too; needs --bias-shift, and nothing is chosen by "
        "what it measures on them",
    )
    parser.add_argument("--hybrid", type=float, default=0.2, help="weight of the hybrid loss")
    parser.add_argument(
        "--freeze", action="store_true", help="keep the encoders and all BatchNorm statistics"
    )
    parser.add_argument(
        "--sharpen",
        type=float,
        default=1.0,
        help="factor of the logits at the end, which takes back how soft the teachers' answers are",
    )
    parser.add_argument(
        "--bias-shift",
        type=float,
        help="added to the classifier's bias after that; default: what validation likes best",
    )
    parser.add_argument("--depth-blind", action="store_true", help="never show any depth")
    parser.add_argument("--evaluations", type=int, default=8)
    parser.add_argument("--part-mib", type=float, default=15.0)
    parser.add_argument("--limit", type=int, default=0, help="images per source, for a trial")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    if bool(options.features) == bool(options.start) and not (options.state or Path()).is_file():
        parser.error("give either --features or --start")
    if options.slice_minutes and not options.state:
        parser.error("--slice-minutes needs --state")
    if not 0 <= options.composed <= 1:
        parser.error(f"--composed {options.composed:g}: expected a share, 0 to 1")
    if options.composed and not options.teachers:
        parser.error("--composed needs --teacher: no mask belongs to such views")
    if options.all_labelled and options.bias_shift is None:
        parser.error("--all-labelled needs --bias-shift: no image is left to find it on")
    return options


# ---- data -----------------------------------------------------------------------------------


def _read(path: Path, mode: str) -> np.ndarray:
    with Image.open(path) as image:
        image = image.convert(mode)
        if image.size != (STORED_SIZE, STORED_SIZE):
            image = image.resize((STORED_SIZE, STORED_SIZE), Image.BILINEAR)
        return np.asarray(image)


class Images:
    """The pack on the device, with what is known of each image."""

    def __init__(
        self, root: Path, limit: int, device: torch.device, validation_trains: bool = False
    ) -> None:
        self.validation_trains = validation_trains
        with (root / "nlpr.csv").open() as file:
            rows = list(csv.DictReader(file))
        labelled = sorted(
            (row["name"] for row in rows if row["split"] == "labelled"),
            key=lambda name: zlib.crc32(name.encode()),
        )
        held_out = set(labelled[:VALIDATION_IMAGES])
        self.names: List[str] = []
        self.source: List[str] = []
        for row in rows:
            empty = float(row["foreground"]) < NEARLY_EMPTY
            vague = float(row["indecision"]) > UNDECIDED
            if row["name"] in held_out:
                source = "validation"
            elif empty or vague:
                continue
            else:
                source = row["split"]
            self.names.append(f"nlpr/{row['name']}")
            self.source.append(source)
        for path in sorted((root / "sod" / "rgb").iterdir()):
            self.names.append(f"sod/{path.stem}")
            self.source.append("sod")
        if limit:
            kept = [i for i, s in enumerate(self.source) if self.source[:i].count(s) < limit]
            self.names = [self.names[i] for i in kept]
            self.source = [self.source[i] for i in kept]

        def load(name: str) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
            folder, stem = name.split("/")
            rgb = _read(root / folder / "rgb" / f"{stem}.jpg", "RGB")
            mask = _read(root / folder / "mask" / f"{stem}.png", "L")
            depth_path = root / folder / "depth" / f"{stem}.jpg"
            depth = _read(depth_path, "L") if depth_path.exists() else np.full_like(mask, 128)
            return rgb, depth, mask

        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            loaded = list(pool.map(load, self.names))
        rgb, depth, mask = (torch.from_numpy(np.stack(planes)) for planes in zip(*loaded))
        mask = mask.unsqueeze(1).to(device)
        self.pack = augment.Pack(
            rgb=rgb.permute(0, 3, 1, 2).contiguous().to(device),
            depth=depth.unsqueeze(1).to(device),
            mask=mask,
            adopted=mask.clone(),
            has_depth=torch.tensor([n.startswith("nlpr") for n in self.names], device=device),
            box=augment.object_boxes(mask),
        )

    def of(self, *sources: str) -> Tensor:
        """Indices of the images of these sources, on the device."""
        found = [i for i, source in enumerate(self.source) if source in sources]
        return torch.tensor(found, device=self.pack.rgb.device)


# ---- network --------------------------------------------------------------------------------


def strided_dynamic_filter(x: Tensor, kernels: Tensor, kernel_size: int, dilation: int) -> Tensor:
    """hdfnet.dynamic_filter without the copy of nine patches that F.unfold makes per image: the
    patches are a view of the padded map. Same shapes, same values."""
    n, c, h, w = x.shape
    reach = dilation * (kernel_size - 1) // 2
    padded = F.pad(x.contiguous(), [reach] * 4)
    patches = padded.unfold(2, h, dilation).unfold(3, w, dilation)  # (N,C,K,K,H,W)
    taps = kernels.contiguous().reshape(n, c, kernel_size, kernel_size, h, w)
    return (patches * taps).sum(dim=(2, 3))


def hide_features(model: nn.Module, share: float) -> None:
    """While training, hides whole channels of what the deeper encoder stages hand over."""
    for name in ("trans16", "trans8", "depth_trans16", "depth_trans8"):
        getattr(model, name).register_forward_hook(
            lambda layer, _, out: F.dropout2d(out, share, training=layer.training)
        )


class SourceOffsets(nn.Module):
    """Lets masks of other origins differ in what they call salient, without learning it.

    The masks from the RGB network and those from the RGB-D network choose different objects in one
    image out of seven, and photographs are labelled by yet other habits. While an image comes with
    a mask of another origin, a learnt gain and offset of that origin is applied to the features
    that enter the decoder; with masks as the RGB-D network makes them, and in use, there is none.
    So all kinds train the shared features, and one decides. Nothing of this is part of the network
    that is saved.
    """

    ORIGINS = ("train", "sod")  # those with offsets, numbered from 1
    LAYERS = (
        "trans16 trans8 trans4 trans2 trans1 depth_trans16 depth_trans8 depth_trans4 "
        "upconv16 upconv8 upconv4 classifier"
    ).split()

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.origin: Optional[Tensor] = None  # (N,) int64: 0 for none, or an origin's number
        self.gain, self.offset = nn.ParameterDict(), nn.ParameterDict()
        for name in self.LAYERS:
            layer = getattr(model, name)
            convolution = [m for m in layer.modules() if isinstance(m, nn.Conv2d)][-1]
            shape = (len(self.ORIGINS), convolution.out_channels, 1, 1)
            self.gain[name] = nn.Parameter(torch.zeros(shape))
            self.offset[name] = nn.Parameter(torch.zeros(shape))
            layer.register_forward_hook(self._hook(name))

    def _hook(self, name: str):  # noqa: ANN202
        def apply(module: nn.Module, arguments: object, out: Tensor) -> Tensor:
            if self.origin is None:
                return out
            gain, offset = self._of_each(self.gain[name]), self._of_each(self.offset[name])
            return out * (1 + gain).to(out.dtype) + offset.to(out.dtype)

        return apply

    def _of_each(self, table: Tensor) -> Tensor:
        """The rows (N,C,1,1) of a table (origins,C,1,1); zeros where there is no origin."""
        return torch.cat([torch.zeros_like(table[:1]), table])[self.origin]


def parameter_groups(model: nn.Module, options: argparse.Namespace) -> List[Dict[str, object]]:
    """Encoders learn more slowly than the rest; biases and BatchNorm are not decayed."""
    groups: Dict[Tuple[float, bool], List[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = options.lr
        if name.startswith("encoder"):
            rate *= options.rgb_lr
        elif name.startswith("depth_encoder"):
            rate *= options.depth_lr
        groups.setdefault((rate, parameter.dim() > 1), []).append(parameter)
    return [
        {"params": p, "lr": rate, "full_lr": rate, "weight_decay": options.weight_decay * decayed}
        for (rate, decayed), p in groups.items()
    ]


class Average:
    """An exponential moving average of the weights and of BatchNorm's statistics."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.steps += 1
        rate = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        mine, theirs = [], []
        for a, b in zip(self.model.state_dict().values(), model.state_dict().values()):
            if a.is_floating_point():
                mine.append(a)
                theirs.append(b)
        torch._foreach_lerp_(mine, theirs, rate)


@torch.no_grad()
def recalibrate(
    model: nn.Module,
    images: Images,
    chances: Tensor,
    options: argparse.Namespace,
    batches: int,
    manner: augment.Manner,
) -> None:
    """Measures BatchNorm's statistics anew for averaged weights, on training views."""
    if options.freeze:
        return
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    model.train()
    for _ in range(batches):
        index = torch.multinomial(chances, options.batch, replacement=True)
        adopted = torch.zeros_like(index, dtype=torch.bool)
        rgb, depth, _ = augment.views(images.pack, index, options.size, adopted, manner)
        if options.depth_blind:
            depth = torch.full_like(depth, augment.NEUTRAL_DEPTH)
        model(rgb.contiguous(memory_format=torch.channels_last), depth)
    model.eval()
    for norm in norms:
        norm.momentum = 0.1


# ---- evaluation -----------------------------------------------------------------------------


@torch.no_grad()
def maps_of(
    model: nn.Module, images: Images, index: Tensor, size: int, blind: bool, mirror: bool = False
) -> Tensor:
    """Maps (N,1,STORED_SIZE,STORED_SIZE) in 0..1 of the images `index`."""
    found = []
    for part in index.split(40):
        rgb, depth = augment.plain(images.pack, part, size)
        if blind:
            depth = torch.full_like(depth, augment.NEUTRAL_DEPTH)
        out = model(rgb, depth).float()
        if mirror:
            out = (out + model(rgb.flip(3), depth.flip(3)).float().flip(3)) / 2
        found.append(
            F.interpolate(out, size=(STORED_SIZE,) * 2, mode="bilinear", align_corners=False)
        )
    return torch.cat(found)


def evaluate(model: nn.Module, images: Images, size: int, blind: bool) -> Dict[str, float]:
    index = images.of("validation")
    maps = (maps_of(model, images, index, size, blind) * 255).to(torch.uint8)[:, 0].cpu().numpy()
    masks = images.pack.mask[index][:, 0].cpu().numpy()
    result = metrics.measure(zip(maps, masks))
    result["seen_in_training"] = images.validation_trains
    return result


@torch.no_grad()
def level_bias(model: nn.Module, images: Images, size: int, blind: bool) -> float:
    """The shift of the classifier's bias with the least mean absolute error in validation.

    Losses that balance regions and views that focus on objects leave the maps too bright. One
    number takes that back; the order of the pixels, and so the best F, stays as it is.
    """
    index = images.of("validation")
    masks = (images.pack.mask[index] > 128).float()
    maps = maps_of(model, images, index, size, blind).clamp(1e-7, 1 - 1e-7)
    shifts = [s / 4 for s in range(-20, 9)]
    errors = [float(((maps.logit() + s).sigmoid() - masks).abs().mean()) for s in shifts]
    return shifts[int(np.argmin(errors))]


def merit(result: Dict[str, float]) -> float:
    return result["max_f"] - result["mae"]


def write_maps(model: nn.Module, images: Images, size: int, blind: bool, path: Path) -> None:
    """The validation images' logits, at the network's size, under the images' names."""
    index = images.of("validation")
    maps = maps_of(model, images, index, size, blind).clamp(1e-6, 1 - 1e-6)
    logits = F.interpolate(maps.logit(), size=(size // 2,) * 2, mode="area").half().cpu().numpy()
    np.savez_compressed(path, **{images.names[i]: m[0] for i, m in zip(index.tolist(), logits)})


def write_sheet(model: nn.Module, images: Images, size: int, blind: bool, path: Path) -> None:
    """A picture of validation images, depth, masks and maps, to be looked at."""
    index = images.of("validation")[:24]
    maps = maps_of(model, images, index, size, blind)
    pack = images.pack
    rows = [pack.rgb[index].float(), pack.depth[index].float().expand(-1, 3, -1, -1)]
    rows += [pack.mask[index].float().expand(-1, 3, -1, -1), 255 * maps.expand(-1, 3, -1, -1)]
    small = [F.interpolate(row, size=(96, 96), mode="area") for row in rows]
    columns = torch.cat(small, dim=2)  # (N,3,4*96,96)
    bands = [torch.cat(list(band), dim=2) for band in columns.split(12)]
    widest = max(band.shape[2] for band in bands)
    bands = [F.pad(band, (0, widest - band.shape[2])) for band in bands]
    sheet = torch.cat(bands, dim=1).permute(1, 2, 0).to(torch.uint8).cpu().numpy()
    Image.fromarray(sheet).save(path)


# ---- training -------------------------------------------------------------------------------


def overlap(maps: Tensor, masks: Tensor) -> Tensor:
    """Soft intersection over union (N,) of maps and masks (N,1,S,S) in 0..1."""
    both = (maps * masks).sum((1, 2, 3))
    return both / ((maps + masks).sum((1, 2, 3)) - both + 1)


def taught(targets: Tensor, answers: Tensor, shares: Tensor, offset: Tensor) -> Tensor:
    """The targets (N,1,S,S) with the teacher's answers in them, as many as `shares` (N,) says.

    None where `offset` (N,) bool says that a mask of another origin comes with the offsets of that
    origin: these learn how such masks differ.
    """
    share = torch.where(offset, torch.zeros_like(shares), shares)
    return targets + (answers - targets) * share.reshape(-1, 1, 1, 1)


@torch.no_grad()
def sharpen(model: nn.Module, factor: float) -> None:
    """Multiplies the network's logits."""
    model.classifier.weight.mul_(factor)
    model.classifier.bias.mul_(factor)


def adoption(maps: Tensor, masks: Tensor) -> Tuple[Tensor, Tensor]:
    """What the network is to answer where a mask of another origin is all there is.

    maps and masks (N,1,S,S) in 0..1 -> targets of the same shape, and their weights (N,). Where the
    two agree on the object, nearly the mask, which has the better edges and the fewer objects too
    many. The less they agree, the nearer to their mean, which leaves open what one of them has and
    the other has not, and the less weight. A map without an object says nothing: the mask stands,
    with less weight still.
    """
    trust = ((overlap(maps, masks) - 0.4) / 0.4).clamp(0, 1)
    empty = maps.mean((1, 2, 3)) < NEARLY_EMPTY
    share = torch.where(empty, torch.ones_like(trust), 0.5 + 0.3 * trust).reshape(-1, 1, 1, 1)
    weights = torch.where(empty, torch.full_like(trust, 0.2), 0.4 + 0.6 * trust)
    return maps + (masks - maps) * share, weights


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 where it is fast."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def initial_chances(images: Images, shares: Sequence[float]) -> Tensor:
    """How often each image is drawn, up to a factor: fixed shares of the views per source; (M,).

    Validation images are drawn never, or, where they train as well, each as often as any other
    labelled image: so one image weighs against another as it does without them.
    """
    counts = [max(images.source.count(source), 1) for source in SOURCES]
    chance = {name: share / n for name, share, n in zip(SOURCES, shares, counts)}
    chance["validation"] = chance["labelled"] if images.validation_trains else 0.0
    return torch.tensor([chance[s] for s in images.source], device=images.pack.rgb.device)


def new_model(options: argparse.Namespace, images: Images, device: torch.device) -> nn.Module:
    model = hdfnet.build("vgg16").to(device)
    if options.start:
        model.load_state_dict(read_archive(options.start))
        return model
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # Raw taps multiply activations: they must start small or the pyramid's sums explode.
    for name, module in model.named_modules():
        if name.endswith("gernerate_kernel.2"):
            nn.init.normal_(module.weight, std=0.02)
        if name == "classifier":
            nn.init.normal_(module.weight, std=0.05)
            nn.init.constant_(module.bias, -1.0)
    pool = images.of(*SOURCES)
    chosen = pool[torch.randperm(len(pool), device=device)[: 2 * options.batch]]
    as_delivered = torch.ones_like(chosen, dtype=torch.bool)
    rgb, depth, _ = augment.views(
        images.pack, chosen, options.size, as_delivered, augment.Manner()
    )
    imagenet.initialise(model, imagenet.read_features(options.features), rgb, depth)
    return model


def read_archive(path: Path) -> Dict[str, Tensor]:
    """The float32 state dict of an HDFNet-VGG16 archive."""
    return archive_reader.load(path, "vgg16")[1]


def read_network(path: Path) -> nn.Module:
    """A U²-Net (.npz, see u2net.py) or the HDFNet of an archive; both answer `logits`."""
    if path.suffix == ".npz":
        return u2net.load(path)
    return hdfnet.build_with("vgg16", read_archive(path))


def cut(path: Path, part_mib: float) -> None:
    """Cuts a file into PATH.000, PATH.001, ...; `cat PATH.* > PATH` joins them."""
    content = path.read_bytes()
    size = int(part_mib * 2**20)
    for number, begin in enumerate(range(0, len(content), size)):
        part = path.with_name(f"{path.name}.{number:03d}")
        part.with_suffix(".tmp").write_bytes(content[begin : begin + size])
        part.with_suffix(".tmp").replace(part)
    path.unlink()


def write_archive(state: Dict[str, Tensor], out: Path, part_mib: float) -> None:
    on_cpu = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
    path = out / "hdfnet_vgg16.pt"
    archive.save(archive.make("vgg16", on_cpu, "int8"), path)
    print(f"archive: {path.stat().st_size} bytes, sha256 {archive.sha256(path)}", flush=True)
    if part_mib:
        cut(path, part_mib)


def steady_kernels():  # noqa: ANN201
    """Within it, cuDNN does not try its kernels on every new shape."""
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=False, allow_tf32=torch.backends.cudnn.allow_tf32
    )


def decided(mask: Tensor) -> Tensor:
    """A mask in 0..1 with its wavering edges made steeper."""
    return ((mask - 0.5) * 2 + 0.5).clamp(0, 1)


def adopt(images: Images, maps: Tensor, chances: Tensor, shares: Sequence[float]) -> None:
    """Mixes maps (N,1,S,S) uint8 of the `train` images into what is to be answered on these, and
    sets how often each is drawn, in `chances`, by how far the two agree."""
    full = initial_chances(images, shares)
    for part, some in zip(images.of("train").split(80), maps.split(80)):
        masks = decided(images.pack.mask[part].float() / 255)
        targets, weights = adoption(some.float() / 255, masks)
        images.pack.adopted[part] = (targets * 255).round().to(torch.uint8)
        chances[part] = full[part] * weights


class Teachers(nn.Module):
    """Other networks, whose mean map (N,1,H,W) in 0..1 is their answer to rgb and depth.

    On CUDA they compute in bfloat16. Autocast would do that too, but it rounds the weights at every
    call, and resizes in float32.
    """

    def __init__(self, paths: Sequence[Path], device: torch.device) -> None:
        super().__init__()
        self.networks = nn.ModuleList(read_network(path) for path in paths)
        self.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                module.to(self.dtype)

    @torch.no_grad()
    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        with torch.autocast(rgb.device.type, enabled=False):
            rgb, depth = rgb.to(self.dtype), depth.to(self.dtype)
            maps = [network.logits(rgb, depth).float().sigmoid() for network in self.networks]
        return torch.stack(maps).mean(dim=0)


class Run:
    """The state of a training run and its loop."""

    def __init__(self, options: argparse.Namespace, began: float) -> None:
        self.options = options
        self.began = began
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(options.seed)
        self.images = Images(options.data, options.limit, self.device, options.all_labelled)
        counts = {s: self.images.source.count(s) for s in sorted(set(self.images.source))}
        print(f"{self.clock():6.1f} s  {counts} on {self.device}", flush=True)
        self.elapsed_before = 0.0
        self.step = 0
        self.adoptions = 0
        self.writer: Optional[threading.Thread] = None
        self.curve: List[Dict[str, float]] = []
        self.best: Optional[Dict[str, Tensor]] = None
        self.best_merit = -math.inf
        resumed = options.state is not None and options.state.is_file()
        self.chances = initial_chances(self.images, options.shares)
        self.origin = self._origins()
        # How likely an image is to come with its delivered mask and the offsets of its origin.
        self.delivered_share = torch.tensor([1.0, 1.0, 0.5], device=self.device)[self.origin]
        self.teachers = Teachers(options.teachers, self.device) if options.teachers else None
        self.teacher_share = self._teacher_shares()
        self.earlier_maps: Optional[Tensor] = None
        if options.maps:
            self.earlier_maps = self._read_maps()
            self.adopt(self.earlier_maps)
        self.model = (
            hdfnet.build("vgg16").to(self.device)
            if resumed
            else new_model(options, self.images, self.device)
        )
        self.model = self.model.to(memory_format=torch.channels_last).train(not options.freeze)
        if options.freeze:
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_("encoder" not in name)
        self.average = Average(self.model, options.average)
        hide_features(self.model, options.drop)
        self.offsets = SourceOffsets(self.model).to(self.device)
        groups = parameter_groups(self.model, options)
        groups.append(
            {
                "params": list(self.offsets.parameters()),
                "lr": options.lr,
                "full_lr": options.lr,
                "weight_decay": 0.0,
            }
        )
        self.optimiser = torch.optim.AdamW(groups, fused=self.device.type == "cuda")
        self.taught_by: Optional[Dict[str, float]] = None
        if resumed:
            self._restore()
        elif self.teachers is not None:
            self.taught_by = self._measured_teachers()
        print(f"{self.clock():6.1f} s  network ready", flush=True)

    def _origins(self) -> Tensor:
        """(M,) the number of each image's origin in SourceOffsets, 0 for none."""
        number = {source: i + 1 for i, source in enumerate(SourceOffsets.ORIGINS)}
        found = [number.get(source, 0) for source in self.images.source]
        return torch.tensor(found, device=self.device)

    def _teacher_shares(self) -> Tensor:
        """(M,) the share of the teachers' answers in each image's targets."""
        shares = dict(zip(SOURCES, self.options.teacher_shares))
        shares["validation"] = shares["labelled"]
        return torch.tensor([shares[s] for s in self.images.source], device=self.device)

    def _measured_teachers(self) -> Dict[str, float]:
        """How good the teachers' answers are on the validation images. Whether they trained on
        these is not known here."""
        options = self.options
        with steady_kernels():
            found = evaluate(self.teachers, self.images, options.size, options.depth_blind)
        del found["seen_in_training"]
        print(f"{self.clock():6.1f} s  the teachers: {found}", flush=True)
        return found

    def _read_maps(self) -> Tensor:
        """The earlier network's maps of the `train` images, in their order, as 8-bit planes."""
        index = self.images.of("train").tolist()
        stems = [self.images.names[i].split("/")[1] for i in index]
        planes = [_read(self.options.maps / f"{stem}.png", "L") for stem in stems]
        return torch.from_numpy(np.stack(planes)).unsqueeze(1).to(self.device)

    def clock(self) -> float:
        return time.monotonic() - self.began

    def autocast(self) -> torch.autocast:
        return autocast(self.device)

    def progress(self) -> float:
        return (self.elapsed_before + self.clock()) / (60 * self.options.minutes)

    def manner(self) -> augment.Manner:
        """What views are like now: towards the end, more like the images in use."""
        return augment.CALM if self.progress() >= self.options.calm_at else augment.Manner()

    def _choices(self) -> Dict[str, bool]:
        """What all slices of a run must agree on."""
        return {
            "all_labelled": self.options.all_labelled,
            "taught": self.teachers is not None,
        }

    def _restore(self) -> None:
        kept = torch.load(self.options.state, map_location=self.device, weights_only=True)
        for name, option in (("all_labelled", "--all-labelled"), ("taught", "--teacher")):
            if kept[name] != self._choices()[name]:
                raise SystemExit(f"{self.options.state}: begun with another choice of {option}")
        self.model.load_state_dict(kept["model"])
        self.offsets.load_state_dict(kept["offsets"])
        self.average.model.load_state_dict(kept["average"])
        self.optimiser.load_state_dict(kept["optimiser"])
        self.average.steps = self.step = kept["step"]
        self.elapsed_before = kept["elapsed"]
        self.adoptions = kept["adoptions"]
        self.chances = kept["chances"]
        self.delivered_share = kept["delivered_share"]
        self.images.pack.adopted = kept["adopted"]
        self.curve = kept["curve"]
        self.taught_by = kept["taught_by"]
        torch.manual_seed(self.options.seed + self.step)

    def keep(self) -> None:
        content = {
            **self._choices(),
            "model": self.model.state_dict(),
            "offsets": self.offsets.state_dict(),
            "average": self.average.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "elapsed": self.elapsed_before + self.clock(),
            "adoptions": self.adoptions,
            "chances": self.chances,
            "delivered_share": self.delivered_share,
            "adopted": self.images.pack.adopted,
            "curve": self.curve,
            "taught_by": self.taught_by,
        }
        torch.save(content, self.options.state)
        print(f"{self.clock():6.1f} s  state kept in {self.options.state}", flush=True)

    def set_rate(self, progress: float) -> None:
        warm = min(1.0, progress / 0.03)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        for group in self.optimiser.param_groups:
            group["lr"] = group["full_lr"] * warm * (0.005 + 0.995 * cosine)

    def train_step(self) -> Tensor:
        options, images = self.options, self.images
        index = torch.multinomial(self.chances, options.batch, replacement=True)
        delivered = torch.rand(len(index), device=self.device) < self.delivered_share[index]
        rgb, depth, target = augment.views(
            images.pack, index, options.size, delivered, self.manner()
        )
        if options.depth_blind:
            depth = torch.full_like(depth, augment.NEUTRAL_DEPTH)
        origin = self.origin[index] * delivered
        shares = self.teacher_share[index]
        if options.composed:
            rgb, depth, composed = augment.compose(rgb, depth, options.composed)
            origin = origin * ~composed
            shares = torch.where(composed, torch.ones_like(shares), shares)
        rgb = rgb.contiguous(memory_format=torch.channels_last)
        self.offsets.origin = origin
        if self.teachers is not None:
            target = taught(target, self.teachers(rgb, depth), shares, origin > 0)
        with self.autocast():
            logits = self.model.logits(rgb, depth)
        self.offsets.origin = None
        loss = losses.total(logits.float(), target, self.options.hybrid)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        nn.utils.clip_grad_norm_(trained, 3.0)
        self.optimiser.step()
        self.average.update(self.model)
        return loss.detach()

    def adopt(self, maps: Tensor) -> None:
        """Takes maps (N,1,S,S) uint8 of the `train` images for what to answer on these.

        Until then these images train through the offsets of their origin alone, and the network
        answers without those. From then on that holds for one view in three; the others teach the
        maps.
        """
        index = self.images.of("train")
        adopt(self.images, maps, self.chances, self.options.shares)
        self.delivered_share[index] = 0.35
        agreed = overlap(maps.float() / 255, self.images.pack.mask[index].float() / 255)
        quantiles = torch.quantile(agreed, agreed.new_tensor([0.1, 0.25, 0.5]))
        print(
            f"{self.clock():6.1f} s  maps and masks overlap at 10/25/50 %: "
            f"{[round(q, 3) for q in quantiles.tolist()]}",
            flush=True,
        )

    def adopt_own(self) -> None:
        """Adopts the maps of the average so far, or its mean with those of the earlier network."""
        options = self.options
        self.recalibrate_average(10)
        with self.autocast(), steady_kernels():
            index, blind = self.images.of("train"), options.depth_blind
            maps = maps_of(self.average.model, self.images, index, options.size, blind, mirror=True)
        maps = maps * 255
        if self.earlier_maps is not None:
            maps = (maps + self.earlier_maps) / 2
        self.adopt(maps.round().to(torch.uint8))
        self.adoptions += 1

    def recalibrate_average(self, batches: int) -> None:
        with self.autocast():
            recalibrate(
                self.average.model,
                self.images,
                self.chances,
                self.options,
                batches,
                self.manner(),
            )

    def note(self, loss: float) -> None:
        """Measures the average on the validation images and keeps it when it is the best so far.

        Images seen in training cannot tell which is best: then none is kept.
        """
        options = self.options
        self.recalibrate_average(10)
        with self.autocast(), steady_kernels():
            result = evaluate(self.average.model, self.images, options.size, options.depth_blind)
        entry = {"seconds": self.elapsed_before + self.clock(), "step": self.step, "loss": loss}
        entry.update(result)
        self.curve.append(entry)
        print(
            f"{self.clock():6.1f} s  step {self.step}  loss {loss:.4f}  max F "
            f"{result['max_f']:.4f}  MAE {result['mae']:.4f}  S {result['s']:.4f}  "
            f"indecision {result['indecision']:.4f}",
            flush=True,
        )
        (options.out / "curves.json").write_text(json.dumps(self.curve, indent=1))
        unseen = not options.all_labelled
        if unseen and self.progress() > 0.45 and merit(result) > self.best_merit:
            self.best_merit = merit(result)
            state = self.average.model.state_dict()
            self.best = {name: tensor.clone() for name, tensor in state.items()}

    def loop(self) -> bool:
        """Trains until the schedule or the slice ends; true when the schedule is finished."""
        options = self.options
        slice_seconds = 60 * (options.slice_minutes or math.inf)
        next_note = (len(self.curve) + 1) / options.evaluations
        safe_copies = [0.45, 0.75]
        running = torch.zeros((), device=self.device)
        counted = 0
        while True:
            progress = self.progress()
            if progress >= 1 or self.clock() >= slice_seconds:
                break
            if self.adoptions < 2 and progress >= options.adopt_at * (1 + self.adoptions):
                self.adopt_own()
            if progress >= next_note and progress < 0.97:
                self.note(float(running) / max(counted, 1))
                running.zero_()
                counted = 0
                next_note += 1 / options.evaluations
            if safe_copies and progress >= safe_copies[0] and not options.state:
                safe_copies.pop(0)
                self.write_in_background()
            self.set_rate(progress)
            running += self.train_step()
            self.step += 1
            counted += 1
            if self.step % 100 == 0:
                mean = float(running) / counted
                if not math.isfinite(mean):
                    raise RuntimeError(f"the loss is {mean} at step {self.step}")
                if self.step % 200 == 0:
                    print(f"{self.clock():6.1f} s  step {self.step}  loss {mean:.4f}", flush=True)
        self.last_loss = float(running) / max(counted, 1)
        return self.progress() >= 1

    def write_in_background(self) -> None:
        """Writes the average so far, in case the run is ended from outside."""
        state = {name: t.detach().cpu() for name, t in self.average.model.state_dict().items()}
        arguments = (state, self.options.out, self.options.part_mib)
        self.writer = threading.Thread(target=write_archive, args=arguments, daemon=True)
        self.writer.start()

    def finish(self) -> None:
        """Chooses, measures and writes the final weights."""
        options, images = self.options, self.images
        if self.writer is not None:
            self.writer.join()
        self.note(self.last_loss)
        final = self.average.model
        batches = 40 if self.device.type == "cuda" else 2
        candidates = {}
        self.recalibrate_average(batches)
        candidates["last average"] = copy.deepcopy(final.state_dict())
        if self.best is not None:
            final.load_state_dict(self.best)
            self.recalibrate_average(batches)
            candidates["best average on validation"] = copy.deepcopy(final.state_dict())

        report: Dict[str, object] = {"steps": self.step, "device": str(self.device)}
        report["options"] = {k: str(v) for k, v in vars(options).items()}
        report["teachers"] = self.taught_by
        if self.device.type == "cuda":
            report["device"] = torch.cuda.get_device_name()
        blind = options.depth_blind
        results = {}
        for name, state in candidates.items():
            final.load_state_dict(state)
            results[name] = evaluate(final, images, options.size, blind)
            print(f"{self.clock():6.1f} s  {name}: {results[name]}", flush=True)
        # The end of the schedule is preferred: picking among many on few images flatters itself.
        chosen = "last average"
        for name in candidates:
            if merit(results[name]) > merit(results[chosen]) + 0.004:
                chosen = name
        report.update(candidates=results, chosen=chosen, float32=results[chosen])
        state = candidates[chosen]
        final.load_state_dict(state)
        sharpen(final, options.sharpen)
        shift = options.bias_shift
        if shift is None:
            shift = level_bias(final, images, options.size, blind)
        final.classifier.bias.add_(shift)
        report["bias shift"] = shift
        state = copy.deepcopy(final.state_dict())
        write_archive(state, options.out, options.part_mib)
        (options.out / "metrics.json").write_text(json.dumps(report, indent=1))

        report["float32, levelled"] = evaluate(final, images, options.size, blind)
        final.load_state_dict(archive.as_stored(state, "int8"))
        report["int8"] = evaluate(final, images, options.size, blind)
        report["int8, depth 0.5"] = evaluate(final, images, options.size, True)
        for name in ("int8", "int8, depth 0.5"):
            print(f"{self.clock():6.1f} s  {name}: {report[name]}", flush=True)
        (options.out / "metrics.json").write_text(json.dumps(report, indent=1))
        write_maps(final, images, options.size, blind, options.out / "maps.npz")
        write_sheet(final, images, options.size, blind, options.out / "sheet.png")


def main(arguments: Optional[List[str]] = None) -> int:
    began = time.monotonic()
    options = parse_arguments(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 5  # the search takes half a minute else
    torch.backends.cuda.matmul.allow_tf32 = True
    hdfnet.dynamic_filter = strided_dynamic_filter
    with steady_kernels():
        run = Run(options, began)
    finished = run.loop()
    if options.state:
        run.keep()
    if not finished:
        return 0
    # The final figures are float32's own.
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    run.finish()
    print(f"{run.clock():6.1f} s  done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

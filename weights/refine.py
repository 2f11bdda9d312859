"""Refines U²-Net on a pack of RGB-D images, so that it can teach HDFNet (train.py --teacher).

    python weights/refine.py --data PACK --start u2net.npz --out OUT --minutes 4

U²-Net learnt from other photographs, with true masks, what people look at. Here it learns the masks
of this pack, and to see depth. Networks are kept from several places on the way from the first
weights to the refined ones (--towards), for these differ in their errors. OUT gets one file of
8-bit weights for each (teacher-0.4.npz, ...), metrics.json and the validation images' logits
(maps-0.4.npz, ...).

80 of the `labelled` images are kept from training, as in train.py.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

import augment  # noqa: E402
import losses  # noqa: E402
import train  # noqa: E402
import u2net  # noqa: E402


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Refine U²-Net as a teacher.")
    parser.add_argument("--data", type=Path, required=True, help="the training pack")
    parser.add_argument("--start", type=Path, required=True, help="U²-Net's weights (see u2net.py)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=4.0, help="length of the schedule")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--average", type=float, default=0.998, help="decay of the weight average")
    parser.add_argument("--adopt-at", type=float, default=0.4, help="when masks are adopted anew")
    parser.add_argument("--calm-at", type=float, default=0.8, help="when views become calmer")
    parser.add_argument("--drop", type=float, default=0.1, help="share of features hidden")
    parser.add_argument(
        "--shares",
        type=float,
        nargs=3,
        default=(0.46, 0.44, 0.10),
        metavar=("TRAIN", "LABELLED", "SOD"),
        help="shares of the views from each source",
    )
    parser.add_argument("--hybrid", type=float, default=0.2, help="weight of the hybrid loss")
    parser.add_argument("--sides", type=float, default=0.3, help="weight of the side outputs' loss")
    parser.add_argument(
        "--all-labelled", action="store_true", help="train on the validation images, too"
    )
    parser.add_argument(
        "--towards",
        type=float,
        nargs="+",
        default=(0.4, 1.0),
        metavar="PLACE",
        help="where the networks that are kept lie between the first weights (0) and the refined "
        "(1); their weights are interpolated (WiSE-FT)",
    )
    parser.add_argument("--evaluations", type=int, default=5)
    parser.add_argument("--limit", type=int, default=0, help="images per source, for a trial")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(arguments)


class Refinement:
    """The state of a run and its loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.began = time.monotonic()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(options.seed)
        self.images = train.Images(options.data, options.limit, self.device, options.all_labelled)
        self.chances = train.initial_chances(self.images, options.shares)
        model = u2net.load(options.start, options.drop)
        self.first = {
            name: tensor.detach().to(self.device, copy=True)
            for name, tensor in model.state_dict().items()
        }
        self.model = model.to(self.device, memory_format=torch.channels_last)
        self.average = train.Average(self.model, options.average)
        self.curve: List[Dict[str, object]] = []
        self.step = 0
        self.measure("as it came")
        self.adopt()
        self.model.train()
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimiser = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": options.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=options.lr,
            fused=self.device.type == "cuda",
        )

    def clock(self) -> float:
        return time.monotonic() - self.began

    def progress(self) -> float:
        return self.clock() / (60 * self.options.minutes)

    def autocast(self) -> torch.autocast:
        return train.autocast(self.device)

    def maps_of(self, index: Tensor) -> Tensor:
        """The average's maps, of the images and of their mirror images."""
        with self.autocast(), train.steady_kernels():
            return train.maps_of(
                self.average.model, self.images, index, self.options.size, False, mirror=True
            )

    def adopt(self) -> None:
        """Mixes the maps of the average so far into the RGB network's masks."""
        maps = (self.maps_of(self.images.of("train")) * 255).round().to(torch.uint8)
        train.adopt(self.images, maps, self.chances, self.options.shares)

    def measure(self, when: str) -> Dict[str, object]:
        with self.autocast(), train.steady_kernels():
            found: Dict[str, object] = dict(
                train.evaluate(self.average.model, self.images, self.options.size, blind=False)
            )
        found.update(when=when, step=self.step, seconds=self.clock())
        self.curve.append(found)
        print(
            f"{self.clock():6.1f} s  {when}: max F {found['max_f']:.4f}  MAE {found['mae']:.4f}  "
            f"S {found['s']:.4f}",
            flush=True,
        )
        return found

    def set_rate(self, progress: float) -> None:
        warm = min(1.0, progress / 0.04)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        for group in self.optimiser.param_groups:
            group["lr"] = self.options.lr * warm * (0.01 + 0.99 * cosine)

    def train_step(self) -> Tensor:
        options, images = self.options, self.images
        index = torch.multinomial(self.chances, options.batch, replacement=True)
        adopted = torch.zeros_like(index, dtype=torch.bool)
        calm = self.progress() >= options.calm_at
        manner = augment.CALM if calm else augment.Manner()
        rgb, depth, target = augment.views(images.pack, index, options.size, adopted, manner)
        rgb = rgb.contiguous(memory_format=torch.channels_last)
        with self.autocast():
            whole, *sides = self.model.all_logits(rgb, depth)
        loss = losses.total(whole.float(), target, options.hybrid)
        for side in sides:
            entropy = F.binary_cross_entropy_with_logits(side.float(), target)
            loss = loss + options.sides / len(sides) * entropy
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 3.0)
        self.optimiser.step()
        self.average.update(self.model)
        return loss.detach()

    def loop(self) -> None:
        adopted = False
        next_note = 1 / self.options.evaluations
        running = torch.zeros((), device=self.device)
        while (progress := self.progress()) < 1:
            if not adopted and progress >= self.options.adopt_at:
                adopted = True
                self.adopt()
            if next_note <= progress < 0.97:
                self.measure(f"step {self.step}")
                next_note += 1 / self.options.evaluations
            self.set_rate(progress)
            running = 0.98 * running + 0.02 * self.train_step()
            self.step += 1
            if self.step % 200 == 0:
                print(f"{self.clock():6.1f} s  step {self.step}  loss {running:.4f}", flush=True)

    def keep(self, refined: Dict[str, Tensor], place: float) -> Dict[str, object]:
        """Writes the network at `place` on the way to the refined weights, its brightness levelled
        where images are left to level it on."""
        options, images, model = self.options, self.images, self.average.model
        model.load_state_dict(between(self.first, refined, place))
        shift = 0.0
        with self.autocast(), train.steady_kernels():
            if not options.all_labelled:
                shift = train.level_bias(model, images, options.size, False)
                model.outconv.bias.add_(shift)
            path = options.out / f"teacher-{place:g}.npz"
            u2net.store(model.state_dict(), path)
            model.load_state_dict(u2net.load(path).state_dict())  # what follows is the file's
            train.write_maps(model, images, options.size, False, options.out / f"maps-{place:g}.npz")
        return {"bias shift": shift, **self.measure(f"{place:g} of the way")}

    def finish(self) -> None:
        options = self.options
        report: Dict[str, object] = {
            "options": {k: str(v) for k, v in vars(options).items()},
            "steps": self.step,
            "refined": self.measure("refined"),
        }
        refined = {k: tensor.clone() for k, tensor in self.average.model.state_dict().items()}
        report["kept"] = {f"{place:g}": self.keep(refined, place) for place in options.towards}
        report["curve"] = self.curve
        (options.out / "metrics.json").write_text(json.dumps(report, indent=1))


def between(first: Dict[str, Tensor], last: Dict[str, Tensor], place: float) -> Dict[str, Tensor]:
    """Weights at `place` on the way from the first (0) to the last (1)."""
    return {name: torch.lerp(first[name], last[name], place) for name in last}


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse_arguments(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 5
    torch.backends.cuda.matmul.allow_tf32 = True
    run = Refinement(options)
    run.loop()
    run.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())

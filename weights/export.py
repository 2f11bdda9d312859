"""Turns an HDFNet checkpoint (.pth) into the TorchScript archive (.pt) that hdfnet-infer loads.

    python weights/export.py --checkpoint HDFNet_VGG16.pth --out hdfnet_vgg16.pt
    python weights/export.py --golden-rule --variant res50 --out res50_rule.pt --dtype fp16
    python weights/export.py --archive weights/hdfnet_vgg16.pt --fused --out hdfnet_fused.pt

--fused makes an archive whose own forward runs on the operators of libhdfnet_ops.so, for other
TorchScript hosts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))

import archive  # noqa: E402
import archive_reader  # noqa: E402
import checkpoint  # noqa: E402
import fused  # noqa: E402
import golden_rule  # noqa: E402
import hdfnet  # noqa: E402

# Differences that rounding alone explains, between the archive's forward and the eager model on the
# same stored values. More means that the archive is wrong.
_TOLERANCE = 1e-4


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Export HDFNet weights as the TorchScript archive that hdfnet-infer loads."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", type=Path, help="state dict saved by PyTorch (.pth)")
    source.add_argument(
        "--archive", type=Path, help="an archive made before (.pt); its code is not run"
    )
    source.add_argument(
        "--golden-rule", action="store_true", help="weights made by the test rule (needs --variant)"
    )
    parser.add_argument(
        "--variant", choices=hdfnet.VARIANTS, help="default: told from the checkpoint's keys"
    )
    parser.add_argument("--out", type=Path, required=True, help="the archive to write (.pt)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--script", action="store_true", help="script the network (default)")
    form.add_argument("--trace", action="store_true", help="trace the network")
    parser.add_argument(
        "--dtype", choices=archive.STORAGE_TYPES, default="fp32", help="how parameters are stored"
    )
    parser.add_argument(
        "--fused",
        action="store_true",
        help="the archive's forward calls hdfnet::dynamic_filter, so that a host must load "
        "libhdfnet_ops.so before the archive",
    )
    parser.add_argument(
        "--ops-library",
        type=Path,
        help="the libhdfnet_ops.so that --fused needs (default: what HDFNET_OPS_LIBRARY names, or that of the build in build/)",
    )
    options = parser.parse_args(arguments)
    if options.golden_rule and not options.variant:
        parser.error("--golden-rule needs --variant")
    if options.ops_library and not options.fused:
        parser.error("--ops-library goes with --fused")
    return options


def largest_difference(first: torch.nn.Module, second: torch.nn.Module) -> float:
    """The largest absolute difference of two networks' maps, over an even and an odd size."""
    largest = 0.0
    with torch.inference_mode():
        for tag in ("even", "odd"):
            rgb, depth = golden_rule.inputs(tag)
            difference = first(rgb[:1], depth[:1]) - second(rgb[:1], depth[:1])
            largest = max(largest, float(difference.abs().max()))
    return largest


def read_weights(options: argparse.Namespace) -> Tuple[str, Dict[str, Tensor]]:
    if options.golden_rule:
        shapes = hdfnet.state_shapes(options.variant)
        return options.variant, golden_rule.state_dict(shapes, options.variant)
    if options.archive:
        return archive_reader.load(options.archive, options.variant)
    return checkpoint.load(options.checkpoint, options.variant)


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse_arguments(arguments)
    change = None
    try:
        if options.fused:
            fused.load_operators(options.ops_library)
            change = fused.fuse_ddpms
        variant, state = read_weights(options)
    except (checkpoint.CheckpointError, fused.OperatorsMissing) as error:
        print(f"export.py: {error}", file=sys.stderr)
        return 2
    form = ("trace" if options.trace else "script") + (", fused" if options.fused else "")
    try:
        network = archive.make(variant, state, options.dtype, options.trace, change)
        archive.save(network, options.out)
    except OSError as error:
        print(f"export.py: cannot write {options.out}: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {variant}, {form}, {options.dtype}")
    print(f"  {options.out.stat().st_size} bytes, sha256 {archive.sha256(options.out)}")

    loaded = torch.jit.load(str(options.out), map_location="cpu").eval()
    stored = hdfnet.build_with(variant, archive.as_stored(state, options.dtype))
    error = largest_difference(loaded, stored)
    print(f"  reloaded, against the same values in the eager model: {error:.2e}")
    if options.dtype != "fp32":
        loss = largest_difference(loaded, hdfnet.build_with(variant, state))
        print(f"  reloaded, against float32 parameters: {loss:.2e}")
    if not error <= _TOLERANCE:
        print(f"export.py: the archive's forward is off by more than {_TOLERANCE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

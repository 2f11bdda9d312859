"""Training views of RGB-D pairs, made on the device for a whole batch at a time.

Everything a sample needs is drawn from torch's global generator, so that a seed fixes the run.
Depth keeps its polarity (near = dark) throughout; what varies is its range, its response curve, its
resolution and its faults, as they differ from one depth camera or stereo matcher to another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from imagenet import MEAN, STD

NEUTRAL_DEPTH = 0.5  # stands for "no depth", in training and in the depth-blind measurement


@dataclass
class Pack:
    """All images, resident on the device as 8-bit planes."""

    rgb: Tensor  # (M,3,S,S) uint8
    depth: Tensor  # (M,1,S,S) uint8
    mask: Tensor  # (M,1,S,S) uint8, as delivered
    adopted: Tensor  # (M,1,S,S) uint8, as the network is to answer; at first the same
    has_depth: Tensor  # (M,) bool
    box: Tensor  # (M,4): the object's centre x, y and half extent x, y; the image spans -1..1


@dataclass
class Manner:
    """How far views go from the images: shares of the views."""

    focus: float = 0.3  # that close in on the object
    paste: float = 0.08  # that get another image's object


CALM = Manner(focus=0.1, paste=0.0)  # close to the images as they are in use


def object_boxes(mask: Tensor) -> Tensor:
    """(M,1,S,S) uint8 -> (M,4) centre and half extents of the mask; the whole image if empty."""
    boxes = []
    for plane in mask[:, 0] > 127:
        rows, columns = plane.any(1).nonzero()[:, 0], plane.any(0).nonzero()[:, 0]
        if len(rows) == 0:
            boxes.append((0.0, 0.0, 1.0, 1.0))
            continue
        size = plane.shape[0]
        top, bottom = 2 * int(rows[0]) / size - 1, 2 * (int(rows[-1]) + 1) / size - 1
        left, right = 2 * int(columns[0]) / size - 1, 2 * (int(columns[-1]) + 1) / size - 1
        centre = ((left + right) / 2, (top + bottom) / 2)
        boxes.append(centre + ((right - left) / 2, (bottom - top) / 2))
    return torch.tensor(boxes, device=mask.device)


def normalise(rgb: Tensor) -> Tensor:
    """rgb (N,3,H,W) in 0..1 -> the network's input."""
    mean = rgb.new_tensor(MEAN).reshape(1, 3, 1, 1)
    std = rgb.new_tensor(STD).reshape(1, 3, 1, 1)
    return (rgb - mean) / std


def _between(n: int, low: float, high: float, device: torch.device) -> Tensor:
    """n uniform values as (n,1,1,1)."""
    return torch.empty(n, 1, 1, 1, device=device).uniform_(low, high)


def _chance(n: int, probability: float, device: torch.device) -> Tensor:
    """n coin flips as (n,1,1,1) bool."""
    return torch.rand(n, 1, 1, 1, device=device) < probability


def _clouds(n: int, size: int, cells: int, device: torch.device) -> Tensor:
    """Smooth noise of about unit variance, (n,1,size,size)."""
    noise = torch.randn(n, 1, cells, cells, device=device)
    return 1.4 * F.interpolate(noise, size=(size, size), mode="bicubic", align_corners=False)


def _soften(x: Tensor, radius: int) -> Tensor:
    kernel = 2 * radius + 1
    return F.avg_pool2d(F.pad(x, [radius] * 4, mode="replicate"), kernel, stride=1)


def _coarsen(x: Tensor, size: int, mode: str) -> Tensor:
    """x resampled to size and back: the look of a lower resolution."""
    small = F.interpolate(x, size=(size, size), mode="area")
    if mode == "nearest":
        return F.interpolate(small, size=x.shape[-2:], mode="nearest")
    return F.interpolate(small, size=x.shape[-2:], mode=mode, align_corners=False)


def _maps_to_source(box: Tensor, focus_share: float) -> Tensor:
    """Random affine maps (N,2,3) from a view to its source image.

    Some views focus on the object, so that it fills 35 to 95 % of the frame, as in pictures from
    other collections; the others shift and scale moderately.
    """
    n, device = box.shape[0], box.device

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(n, device=device).uniform_(low, high)

    focus = torch.rand(n, device=device) < focus_share
    share = uniform(0.35, 0.95)
    extent = box[:, 2:].amax(dim=1)
    zoom_in = (extent / share).clamp(0.38, 1.1)
    zoom = torch.where(focus, zoom_in, torch.exp(uniform(math.log(0.62), math.log(1.25))))
    aspect = torch.exp(uniform(-0.22, 0.22))
    slack = (zoom - extent).clamp_min(0.05)
    centre = box[:, :2] + slack[:, None] * torch.empty(n, 2, device=device).uniform_(-1, 1)
    reach = ((1 - zoom).clamp_min(0) + 0.08)[:, None]
    drift = reach * torch.empty(n, 2, device=device).uniform_(-1, 1)
    # A focused view stays inside the image as far as its size allows.
    room = (1 - zoom).clamp_min(0.0)[:, None]
    centre = torch.minimum(torch.maximum(centre, -room), room)
    shift = torch.where(focus[:, None], centre, drift)

    angle = torch.randn(n, device=device).clamp(-2, 2) * math.radians(8)
    angle = angle * (torch.rand(n, device=device) < 0.6)
    mirror = torch.where(torch.rand(n, device=device) < 0.5, -1.0, 1.0)
    cos, sin = torch.cos(angle), torch.sin(angle)
    scale_x, scale_y = zoom * aspect * mirror, zoom / aspect
    rows = torch.stack(
        [
            torch.stack([cos * scale_x, -sin * scale_y, shift[:, 0]], dim=1),
            torch.stack([sin * scale_x, cos * scale_y, shift[:, 1]], dim=1),
        ],
        dim=1,
    )
    return rows


def _warp(x: Tensor, maps: Tensor, size: int) -> Tensor:
    grid = F.affine_grid(maps, [x.shape[0], x.shape[1], size, size], align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _geometry(
    pack: Pack, index: Tensor, delivered: Tensor, size: int, focus_share: float
) -> Tuple[Tensor, Tensor, Tensor]:
    """Warped rgb, depth, mask in 0..1; depth is registered a little less than perfectly."""
    maps = _maps_to_source(pack.box[index], focus_share)
    chosen = delivered.reshape(-1, 1, 1, 1)
    mask = torch.where(chosen, pack.mask[index], pack.adopted[index])
    picture = torch.cat([pack.rgb[index], mask], dim=1).float() / 255
    picture = _warp(picture, maps, size)
    off = torch.randn(len(index), 2, device=maps.device) * 0.008
    off = off * (torch.rand(len(index), 1, device=maps.device) < 0.3)
    depth_maps = torch.cat([maps[:, :, :2], (maps[:, :, 2] + off).unsqueeze(2)], dim=2)
    depth = _warp(pack.depth[index].float() / 255, depth_maps, size)
    return picture[:, :3], depth, picture[:, 3:]


def _invented_depth(mask: Tensor) -> Tensor:
    """Depth for images that have none: a ground plane, clouds, an object that stands out by chance.

    Other bumps of the same strength are mixed in, so that depth alone does not give the mask away.
    """
    n, size, device = mask.shape[0], mask.shape[-1], mask.device
    ramp = torch.linspace(-1, 1, size, device=device).reshape(1, 1, size, 1)
    depth = 0.6 - _between(n, 0.0, 0.3, device) * ramp + 0.08 * _clouds(n, size, 5, device)
    patchy = (0.75 + 0.25 * _clouds(n, size, 6, device)).clamp(0, 1)
    body = _soften(mask, 6) * patchy
    other = ((_clouds(n, size, 4, device) - 1.0) * 4).clamp(0, 1)
    other = other * _chance(n, 0.6, device)
    strength = _between(n, -0.05, 0.45, device)
    return (depth - strength * torch.maximum(body, other)).clamp(0, 1)


def _paste(
    base: Tuple[Tensor, Tensor, Tensor], other: Tuple[Tensor, Tensor, Tensor], share: float
) -> Tuple[Tensor, Tensor, Tensor]:
    """Pastes the other batch's objects onto some of the base's, nearer than what they hide."""
    rgb, depth, mask = base
    other_rgb, other_depth, other_mask = other
    n, device = rgb.shape[0], rgb.device
    area = other_mask.mean(dim=(1, 2, 3), keepdim=True)
    use = _chance(n, share, device) & (area > 0.02) & (area < 0.6)
    alpha = other_mask * use
    weight = alpha.sum(dim=(1, 2, 3), keepdim=True) + 1e-3
    own = (other_depth * alpha).sum(dim=(1, 2, 3), keepdim=True) / weight
    behind = (depth * alpha).sum(dim=(1, 2, 3), keepdim=True) / weight
    moved = (other_depth - own) * 0.7 + behind * _between(n, 0.0, 0.8, device)
    # Depth edges are never as sharp as the mask's.
    depth_alpha = _soften(alpha, 2)
    return (
        rgb + (other_rgb - rgb) * alpha,
        (depth + (moved - depth) * depth_alpha).clamp(0, 1),
        torch.maximum(mask, alpha),
    )


def _vary_depth(depth: Tensor) -> Tensor:
    """(N,1,S,S) in 0..1 -> the same, as another sensor would have given it."""
    n, size, device = depth.shape[0], depth.shape[-1], depth.device

    # Response: gamma, or metres against disparity; then a narrower range.
    gamma = torch.exp(_between(n, -0.7, 0.7, device))
    depth = torch.where(_chance(n, 0.5, device), depth.clamp_min(1e-4) ** gamma, depth)
    k = _between(n, 0.3, 5.0, device)
    disparity = (1 - 1 / (1 + k * depth)) * (1 + k) / k
    depth = torch.where(_chance(n, 0.3, device), disparity, depth)

    # Resolution and edges.
    coarse = int(torch.randint(18, 110, (1,)))
    mode = "nearest" if torch.rand(1).item() < 0.3 else "bilinear"
    depth = torch.where(_chance(n, 0.2, device), _coarsen(depth, coarse, mode), depth)
    radius = int(torch.randint(1, 6, (1,)))
    depth = torch.where(_chance(n, 0.2, device), _soften(depth, radius), depth)

    # Noise, fine and coarse; few levels; holes at either end of the range.
    fine = torch.randn_like(depth) * _between(n, 0.0, 0.05, device)
    depth = torch.where(_chance(n, 0.25, device), depth + fine, depth)
    wavy = _clouds(n, size, int(torch.randint(4, 20, (1,))), device)
    wavy = wavy * _between(n, 0.0, 0.06, device)
    depth = torch.where(_chance(n, 0.15, device), depth + wavy, depth)
    levels = _between(n, 8, 48, device).floor()
    stepped = (depth * levels).round() / levels
    depth = torch.where(_chance(n, 0.1, device), stepped, depth)
    spots = _clouds(n, size, int(torch.randint(8, 30, (1,))), device)
    holes = spots > _between(n, 1.3, 2.6, device)
    fill = torch.where(_chance(n, 0.6, device), 0.0, 1.0)
    depth = torch.where(holes & _chance(n, 0.1, device), fill, depth)

    # Range last: either end may be cut or unused.
    low, high = _between(n, -0.08, 0.2, device), _between(n, 0.75, 1.08, device)
    depth = torch.where(_chance(n, 0.6, device), low + depth * (high - low), depth)
    return depth.clamp(0, 1)


def _vary_rgb(rgb: Tensor) -> Tensor:
    """(N,3,S,S) in 0..1 -> the same under other light and from another camera."""
    n, device = rgb.shape[0], rgb.device
    coarse = int(torch.randint(110, 260, (1,)))
    rgb = torch.where(_chance(n, 0.12, device), _coarsen(rgb, coarse, "bilinear"), rgb)
    rgb = torch.where(_chance(n, 0.12, device), _soften(rgb, int(torch.randint(1, 3, (1,)))), rgb)

    rgb = rgb * _between(n, 0.65, 1.35, device)
    level = rgb.mean(dim=(1, 2, 3), keepdim=True)
    rgb = level + (rgb - level) * _between(n, 0.65, 1.4, device)
    weights = rgb.new_tensor([0.299, 0.587, 0.114]).reshape(1, 3, 1, 1)
    grey = (rgb * weights).sum(dim=1, keepdim=True)
    colour = _between(n, 0.4, 1.5, device) * (~_chance(n, 0.07, device))
    rgb = grey + (rgb - grey) * colour
    cast = torch.empty(n, 3, 1, 1, device=device).uniform_(0.88, 1.12)
    rgb = torch.where(_chance(n, 0.5, device), rgb * cast, rgb)
    # Hue: the chroma turned about the grey axis.
    swapped = torch.roll(rgb, 1, dims=1)
    rgb = torch.where(_chance(n, 0.08, device), swapped, rgb)
    gamma = torch.exp(_between(n, -0.3, 0.3, device))
    rgb = torch.where(_chance(n, 0.3, device), rgb.clamp_min(1e-4) ** gamma, rgb)
    noise = torch.randn_like(rgb) * _between(n, 0.0, 0.05, device)
    rgb = torch.where(_chance(n, 0.2, device), rgb + noise, rgb)
    return rgb.clamp(0, 1)


def views(
    pack: Pack, index: Tensor, size: int, delivered: Tensor, manner: Manner
) -> Tuple[Tensor, Tensor, Tensor]:
    """Training views of the images `index` (N,): rgb (N,3,size,size) normalised, depth and target
    (N,1,size,size) in 0..1. `delivered` (N,) bool: use the mask as delivered, else the adopted."""
    n, device = len(index), index.device
    rgb, depth, mask = _geometry(pack, index, delivered, size, manner.focus)
    known = pack.has_depth[index].reshape(n, 1, 1, 1)
    depth = torch.where(known, depth, _invented_depth(mask))
    if manner.paste:
        # The objects come from the neighbours in the batch, seen in views of their own.
        others = (index.roll(1), delivered.roll(1))
        other = _geometry(pack, *others, size, focus_share=0.5)
        rgb, depth, mask = _paste((rgb, depth, mask), other, manner.paste)

    depth = _vary_depth(depth)
    blind = _chance(n, 0.04, device) | (~known & _chance(n, 0.45, device))
    depth = torch.where(blind, torch.full_like(depth, NEUTRAL_DEPTH), depth)
    # Machine-made masks waver at edges; the target is meant to be decided.
    target = ((mask - 0.5) * 2 + 0.5).clamp(0, 1)
    return normalise(_vary_rgb(rgb)), depth, target


def compose(rgb: Tensor, depth: Tensor, share: float) -> Tuple[Tensor, Tensor, Tensor]:
    """Views that no camera gives, for networks to learn from another network's answers.

    Of `share` of the views, half get a rectangle of their neighbour in the batch (CutMix), and half
    are blended with it (mixup). No mask belongs to these: the third result, (N,) bool, tells which
    they are.
    """
    n, size, device = rgb.shape[0], rgb.shape[-1], rgb.device
    composed = _chance(n, share, device)
    rectangle = _chance(n, 0.5, device)
    # Sides of 0.4 to 0.8 of the view: 0.16 to 0.64 of its area.
    high, wide = _between(n, 0.4, 0.8, device), _between(n, 0.4, 0.8, device)
    top, left = _between(n, 0, 1, device) * (1 - high), _between(n, 0, 1, device) * (1 - wide)
    at = (torch.arange(size, device=device) + 0.5) / size
    rows, columns = at.reshape(1, 1, size, 1), at.reshape(1, 1, 1, size)
    inside = (rows >= top) & (rows < top + high) & (columns >= left) & (columns < left + wide)
    blend = _between(n, 0.25, 0.75, device)
    alpha = torch.where(rectangle, inside.to(rgb.dtype), blend) * composed
    rgb = rgb + (rgb.roll(1, 0) - rgb) * alpha
    depth = depth + (depth.roll(1, 0) - depth) * alpha
    return rgb, depth, composed.flatten()


def plain(pack: Pack, index: Tensor, size: int) -> Tuple[Tensor, Tensor]:
    """The images `index` as the network sees them in use: rgb (N,3,size,size), depth (N,1,...)."""
    rgb = pack.rgb[index].float() / 255
    depth = pack.depth[index].float() / 255
    options = {"size": (size, size), "mode": "bilinear", "antialias": True, "align_corners": False}
    return normalise(F.interpolate(rgb, **options)), F.interpolate(depth, **options)

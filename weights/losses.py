"""Training losses on logits and targets (N,1,H,W); each gives one value per image, (N,)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_PLANE = (1, 2, 3)


def _edge_weight(target: Tensor) -> Tensor:
    """1 in flat regions, up to 6 where the 31x31 neighbourhood is mixed."""
    # The mean over a rectangle is a mean of means, and much cheaper as one.
    local = F.avg_pool2d(target, (31, 1), stride=1, padding=(15, 0), count_include_pad=False)
    local = F.avg_pool2d(local, (1, 31), stride=1, padding=(0, 15), count_include_pad=False)
    return 1 + 5 * (local - target).abs()


def cross_entropy_and_overlap(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy and soft intersection over union, both weighted at edges."""
    weight = _edge_weight(target)
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    entropy = (weight * entropy).sum(_PLANE) / weight.sum(_PLANE)
    p = logits.sigmoid()
    both = (weight * p * target).sum(_PLANE)
    either = (weight * (p + target)).sum(_PLANE) - both
    return entropy + 1 - (both + 1) / (either + 1)


def hybrid_enhanced(logits: Tensor, target: Tensor) -> Tensor:
    """The paper's hybrid enhanced loss: errors at the edge, inside and outside the object.

    Each part is a mean over its own region, so that small objects count as much as large ones.
    """
    p = logits.sigmoid()
    local = F.avg_pool2d(target, 5, stride=1, padding=2, count_include_pad=False)
    edge = ((target - local).abs() > 0.01).to(p.dtype)
    at_edge = (edge * (p - target).abs()).sum(_PLANE) / (edge.sum(_PLANE) + 1)
    inside = (target * (1 - p)).sum(_PLANE) / (target.sum(_PLANE) + 1)
    outside = ((1 - target) * p).sum(_PLANE) / ((1 - target).sum(_PLANE) + 1)
    return at_edge + inside + outside


def total(logits: Tensor, target: Tensor, hybrid_weight: float = 1.0) -> Tensor:
    """The sum of both, averaged over the batch; a scalar.

    The hybrid loss weighs a pixel by the size of its region. Where masks contradict each other, a
    pixel pays off as salient as soon as that is likelier than the object's share of the image, so
    a high weight gives recall and costs precision.
    """
    each = cross_entropy_and_overlap(logits, target)
    if hybrid_weight:
        each = each + hybrid_weight * hybrid_enhanced(logits, target)
    return each.mean()

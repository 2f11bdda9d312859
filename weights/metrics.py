"""Measures of saliency maps, with the definitions of PySODMetrics.

Maps are 8-bit, as written to disk, and are stretched to 0..1 per image; masks are cut at 128. F has
beta^2 = 0.3; its maximum is that of the mean curve over the images.
"""

from __future__ import annotations

from typing import Dict, Iterable, Tuple

import numpy as np

_EPS = np.spacing(1)
_BETA2 = 0.3


def _prepared(saliency: np.ndarray, mask: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """saliency (H,W) uint8 -> float64 in 0..1 with its full range used; mask (H,W) -> bool."""
    values = saliency / 255.0
    low, high = values.min(), values.max()
    if low != high:
        values = (values - low) / (high - low)
    return values, mask > 128


def f_curve(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """F at the 256 thresholds from 255 down to 0; values (H,W) in 0..1, truth (H,W) bool."""
    levels = (values * 255).astype(np.uint8)
    hit = np.bincount(levels[truth], minlength=256)[::-1].cumsum()
    miss = np.bincount(levels[~truth], minlength=256)[::-1].cumsum()
    chosen = np.maximum(hit + miss, 1)
    precision = hit / chosen
    recall = hit / max(int(truth.sum()), 1)
    numerator = (1 + _BETA2) * precision * recall
    denominator = np.where(numerator == 0, 1, _BETA2 * precision + recall)
    return numerator / denominator


def _object_part(values: np.ndarray, truth: np.ndarray) -> float:
    inside = values[truth]
    mean = inside.mean()
    deviation = inside.std(ddof=1) if inside.size > 1 else 0.0
    return 2 * mean / (mean * mean + 1 + deviation + _EPS)


def _similarity(values: np.ndarray, truth: np.ndarray) -> float:
    count = values.size
    if count < 2:
        return 0.0
    x, y = values.mean(), truth.mean()
    var_x = ((values - x) ** 2).sum() / (count - 1)
    var_y = ((truth - y) ** 2).sum() / (count - 1)
    covariance = ((values - x) * (truth - y)).sum() / (count - 1)
    alpha = 4 * x * y * covariance
    beta = (x * x + y * y) * (var_x + var_y)
    if alpha != 0:
        return alpha / (beta + _EPS)
    return 1.0 if beta == 0 else 0.0


def s_measure(values: np.ndarray, truth: np.ndarray) -> float:
    """The structure measure: object and region parts in equal shares."""
    share = truth.mean()
    if share == 0:
        return 1 - values.mean()
    if share == 1:
        return values.mean()
    by_object = share * _object_part(values, truth)
    by_object += (1 - share) * _object_part(1 - values, ~truth)
    height, width = truth.shape
    rows, columns = np.nonzero(truth)
    row, column = int(np.round(rows.mean())) + 1, int(np.round(columns.mean())) + 1
    by_region = 0.0
    for part_rows in (slice(0, row), slice(row, height)):
        for part_columns in (slice(0, column), slice(column, width)):
            part = values[part_rows, part_columns]
            weight = part.size / (height * width)
            if weight > 0:
                truth_part = truth[part_rows, part_columns].astype(np.float64)
                by_region += weight * _similarity(part, truth_part)
    return max(0.0, 0.5 * by_object + 0.5 * by_region)


def measure(pairs: Iterable[Tuple[np.ndarray, np.ndarray]]) -> Dict[str, float]:
    """Means over (saliency, mask) pairs of 8-bit images (H,W): max_f, mean_f, mae, s, indecision.

    `indecision` is the mean of min(p, 1-p) of the maps as written.
    """
    curves, errors, structures, indecision = [], [], [], []
    for saliency, mask in pairs:
        values, truth = _prepared(saliency, mask)
        curves.append(f_curve(values, truth))
        errors.append(np.abs(values - truth).mean())
        structures.append(s_measure(values, truth))
        raw = saliency / 255.0
        indecision.append(np.minimum(raw, 1 - raw).mean())
    curve = np.mean(curves, axis=0)
    return {
        "max_f": float(curve.max()),
        "mean_f": float(curve.mean()),
        "mae": float(np.mean(errors)),
        "s": float(np.mean(structures)),
        "indecision": float(np.mean(indecision)),
        "images": len(errors),
    }

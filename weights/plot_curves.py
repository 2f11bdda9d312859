"""Draws the curves that train.py logs as an SVG.

    python weights/plot_curves.py curves.json out.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Dict, List, Tuple

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 300, 170, 56, 34, 66
_PANELS = (("max_f", "max F"), ("mae", "MAE"), ("loss", "training loss"))


def _panel(entries: List[Dict[str, float]], key: str, title: str, x0: int) -> str:
    points = [(entry["step"], entry[key]) for entry in entries if entry[key] > 0]
    low, high = min(v for _, v in points), max(v for _, v in points)
    margin = 0.08 * (high - low) or 0.01
    low, high = low - margin, high + margin
    last = max(step for step, _ in points)

    def at(step: float, value: float) -> Tuple[float, float]:
        return (
            round(x0 + _WIDTH * step / last, 1),
            round(_TOP + _HEIGHT * (high - value) / (high - low), 1),
        )

    parts = [
        f'<rect x="{x0}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        'stroke="#999"/>',
        f'<text x="{x0}" y="{_TOP - 10}" font-weight="bold">{title}</text>',
    ]
    for part in range(5):
        value = low + (high - low) * (part + 0.5) / 5
        _, y = at(0, value)
        parts.append(f'<line x1="{x0}" x2="{x0 + _WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{x0 - 6}" y="{y + 4}" text-anchor="end">{value:.3f}</text>')
    for part in range(0, 5):
        step = last * part / 4
        x, _ = at(step, low)
        parts.append(
            f'<text x="{x}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{round(step)}</text>'
        )
    line = " ".join(f"{x},{y}" for x, y in (at(*point) for point in points))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="2"/>')
    for point in points:
        x, y = at(*point)
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="#1f6fb2"/>')
    return "\n".join(parts)


def draw(entries: List[Dict[str, float]]) -> str:
    """The SVG text: one panel per measure over the training steps."""
    width = len(_PANELS) * (_WIDTH + _GAP) + _LEFT - _GAP + 20
    panels = [
        _panel(entries, key, title, _LEFT + index * (_WIDTH + _GAP))
        for index, (key, title) in enumerate(_PANELS)
    ]
    height = _TOP + _HEIGHT + 44
    seen = any(entry.get("seen_in_training") for entry in entries)
    images = "validation images, which also trained," if seen else "validation images"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *panels,
            f'<text x="{_LEFT}" y="{height - 8}">steps (measured on the {images} with '
            "averaged weights)</text>",
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(draw(json.loads(Path(sys.argv[1]).read_text())))

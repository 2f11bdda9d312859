"""Draws the curves that train.py logs as an SVG.

    python weights/plot_curves.py curves.json out.svg

curves.json is a run's list of entries, or has several runs by name. An entry may lack a measure.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Dict, List, Tuple, Union
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 300, 170, 56, 34, 66
_PANELS = (("max_f", "max F"), ("mae", "MAE"), ("loss", "training loss"))
_COLOURS = ("#1f6fb2", "#c2571a", "#2f8f4e", "#7d4fa3")

Entries = List[Dict[str, float]]


def _panel(runs: Dict[str, Entries], key: str, title: str, x0: int) -> str:
    lines = {
        name: [(entry["step"], entry[key]) for entry in entries if entry.get(key, 0) > 0]
        for name, entries in runs.items()
    }
    points = [point for line in lines.values() for point in line]
    if not points:
        return f'<text x="{x0}" y="{_TOP - 10}" font-weight="bold">{title}: not logged</text>'
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
    for line, colour in zip(lines.values(), _COLOURS):
        places = [at(*point) for point in line]
        drawn = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in places:
            parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>')
    return "\n".join(parts)


def _legend(names: List[str], x: int, y: int) -> List[str]:
    if len(names) < 2:
        return []
    return [
        f'<text x="{x + 180 * i}" y="{y}" fill="{colour}" font-weight="bold">{escape(name)}</text>'
        for i, (name, colour) in enumerate(zip(names, _COLOURS))
    ]


def draw(curves: Union[Entries, Dict[str, Entries]]) -> str:
    """The SVG text: one panel per measure over the training steps."""
    runs = curves if isinstance(curves, dict) else {"": curves}
    if len(runs) > len(_COLOURS):
        raise ValueError(f"expected at most {len(_COLOURS)} runs, found {len(runs)}")
    width = len(_PANELS) * (_WIDTH + _GAP) + _LEFT - _GAP + 20
    panels = [
        _panel(runs, key, title, _LEFT + index * (_WIDTH + _GAP))
        for index, (key, title) in enumerate(_PANELS)
    ]
    height = _TOP + _HEIGHT + 44
    seen = any(entry.get("seen_in_training") for entries in runs.values() for entry in entries)
    images = "validation images, which also trained," if seen else "validation images"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *panels,
            *_legend(list(runs), _LEFT + 460, height - 8),
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

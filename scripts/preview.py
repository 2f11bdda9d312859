"""Draws pictures side by side in the terminal, two pixels a character: preview.py PICTURE..."""

import os
import shutil
import sys

from PIL import Image

LEVELS = " ░▒▓█"


def rows_in_colour(image: Image.Image) -> list[str]:
    pixels = image.convert("RGB").load()
    lines = []
    for y in range(0, image.height - 1, 2):
        line = ""
        for x in range(image.width):
            top, bottom = pixels[x, y], pixels[x, y + 1]
            line += "\x1b[38;2;{};{};{};48;2;{};{};{}m▀".format(*top, *bottom)
        lines.append(line + "\x1b[0m")
    return lines


def rows_in_grey(image: Image.Image) -> list[str]:
    half = image.convert("L").resize((image.width, image.height // 2), Image.Resampling.BOX)
    pixels = half.load()
    return ["".join(LEVELS[min(pixels[x, y] * len(LEVELS) // 256, len(LEVELS) - 1)] for x in range(half.width))
            for y in range(half.height)]


def main() -> None:
    files = sys.argv[1:]
    width = min(56, (shutil.get_terminal_size((80, 24)).columns - 2 * len(files)) // max(1, len(files)))
    draw = rows_in_colour if sys.stdout.isatty() and "NO_COLOR" not in os.environ else rows_in_grey
    columns = []
    for file in files:
        with Image.open(file) as image:
            height = max(2, round(width * image.height / image.width)) // 2 * 2
            columns.append(draw(image.convert("RGB").resize((width, height), Image.Resampling.BOX)))
    sys.stdout.reconfigure(encoding="utf-8")
    for lines in zip(*columns):
        print("  ".join(lines))


if __name__ == "__main__":
    main()

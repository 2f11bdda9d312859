#!/usr/bin/env python3
"""Makes reference.json: what PySODMetrics says about the images of reference_cases.cpp and, where the shared
pictures lie beside the repository (or HDFNET_SHARED names them), about real masks and maps.

    pip install pysodmetrics==1.6.2 pillow
    python tests/eval/make_reference.py

The images are made by the same integer rules here and in reference_cases.cpp, so none has to be stored.
"""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import py_sod_metrics as sod
from PIL import Image

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("HDFNET_SHARED", HERE.parents[2] / "shared"))

CASES = [
    # name, width, height, truth, prediction, seed
    ("disc_ramp", 131, 97, "disc", "ramp", 1),
    ("disc_ramp_odd", 96, 151, "disc", "ramp", 2),
    ("blobs_mixture", 160, 120, "blobs", "mixture", 3),
    ("blobs_noise", 75, 64, "blobs", "noise", 4),
    ("border_ramp", 120, 90, "border", "ramp", 5),
    ("border_mixture", 33, 200, "border", "mixture", 6),
    ("dots_ramp", 128, 128, "dots", "ramp", 7),
    ("dots_noise", 61, 83, "dots", "noise", 8),
    ("soft_truth", 90, 70, "soft", "mixture", 9),
    ("narrow_range", 100, 80, "disc", "range", 10),
    ("perfect", 80, 60, "disc", "perfect", 11),
    ("inverse", 80, 60, "blobs", "inverse", 12),
    ("all_black", 64, 48, "disc", "black", 13),
    ("all_white", 64, 48, "blobs", "white", 14),
    ("flat_grey", 64, 48, "blobs", "grey", 15),
    ("flat_grey_odd", 53, 47, "disc", "grey", 16),
    ("flat_part", 64, 48, "blobs", "patch", 17),
    ("empty_truth", 64, 48, "empty", "ramp", 18),
    ("empty_truth_black", 64, 48, "empty", "black", 19),
    ("full_truth", 64, 48, "full", "ramp", 20),
    ("full_truth_white", 64, 48, "full", "white", 21),
    ("single_pixel", 70, 50, "single", "ramp", 22),
    ("two_rows", 37, 2, "single", "noise", 23),
    ("tiny", 3, 4, "single", "noise", 24),
    ("wide", 700, 9, "disc", "noise", 25),
]

CURVE_SAMPLES = [0, 1, 15, 63, 100, 127, 128, 191, 240, 254, 255]


class Random:
    """Bytes of a linear congruential generator."""

    def __init__(self, seed):
        self.state = seed

    def byte(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 24


def make_truth(kind, width, height, random):
    truth = np.zeros((height, width), np.uint8)
    small = min(width, height)
    for y in range(height):
        for x in range(width):
            noise = random.byte()
            dx, dy = 2 * x - width + 1, 2 * y - height + 1
            bx, by = x - width // 4, y - height // 3
            value = {
                "disc": 255 * (dx * dx + dy * dy <= small * small * 4 // 9),
                "blobs": 255 * (bx * bx + by * by <= small * small // 36
                                or (width * 3 // 5 <= x < width * 9 // 10 and height // 2 <= y < height * 4 // 5)),
                "border": 255 * (x < width // 3 or y >= height - height // 5),
                "dots": 255 * (noise < 16),
                "soft": noise,
                "empty": 0,
                "full": 255,
                "single": 255 * (x == width // 2 and y == height // 3),
            }[kind]
            truth[y, x] = value
    return truth


def make_prediction(kind, truth, random):
    height, width = truth.shape
    prediction = np.zeros((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            noise = random.byte()
            t = int(truth[y, x])
            distance = abs(x - width // 2 + 3) + abs(y - height // 2 - 2)
            prediction[y, x] = {
                "ramp": max(0, min(255, 255 - 3 * distance + (noise >> 4) - 8)),
                "noise": noise,
                "mixture": 200 + (noise >> 3) if t > 128 else noise >> 2,
                "range": 60 + (noise >> 2),
                "perfect": t,
                "inverse": 255 - t,
                "black": 0,
                "white": 255,
                "grey": 128,
                "patch": 90 if x < width // 2 else noise,
            }[kind]
    return prediction


class Meter:
    def __init__(self):
        self.f, self.mae, self.s, self.e, self.w = (
            sod.Fmeasure(), sod.MAE(), sod.Smeasure(), sod.Emeasure(), sod.WeightedFmeasure())

    def step(self, prediction, truth):
        for metric in (self.f, self.mae, self.s, self.e, self.w):
            metric.step(pred=prediction, gt=truth)

    def result(self):
        f, e = self.f.get_results(), self.e.get_results()["em"]
        curves = {"precision": f["pr"]["p"], "recall": f["pr"]["r"], "f_measure": f["fm"]["curve"], "e_measure": e["curve"]}
        values = {
            "mae": self.mae.get_results()["mae"],
            "max_f": f["fm"]["curve"].max(),
            "mean_f": f["fm"]["curve"].mean(),
            "adaptive_f": f["fm"]["adp"],
            "weighted_f": self.w.get_results()["wfm"],
            "s_measure": self.s.get_results()["sm"],
            "max_e": e["curve"].max(),
            "mean_e": e["curve"].mean(),
            "adaptive_e": e["adp"],
        }
        return {
            **{key: round(float(value), 12) for key, value in values.items()},
            "curves": {key: [round(float(curve[i]), 12) for i in CURVE_SAMPLES] for key, curve in curves.items()},
        }


def real_pairs():
    """Masks against a network's soft map of the same image, and against the map of another image."""
    truths = sorted((SHARED / "data/train/sod/mask").glob("*.png"))[:12]
    maps = sorted((SHARED / "data/train/nlpr/mask").glob("*.png"))[:24]
    for truth, prediction in zip(truths, maps):
        yield truth, prediction
    for same in maps[12:]:
        yield same, same


def grey(path):
    return np.array(Image.open(path).convert("L"))


def main():
    warnings.simplefilter("ignore")
    together = Meter()
    document = {"made_by": f"PySODMetrics {__import__('importlib.metadata').metadata.version('pysodmetrics')}",
                "curve_samples": CURVE_SAMPLES, "cases": [], "real": []}
    for name, width, height, truth_kind, prediction_kind, seed in CASES:
        random = Random(seed)
        truth = make_truth(truth_kind, width, height, random)
        prediction = make_prediction(prediction_kind, truth, random)
        meter = Meter()
        meter.step(prediction, truth)
        together.step(prediction, truth)
        document["cases"].append({"name": name, "width": width, "height": height, "truth": truth_kind,
                                  "prediction": prediction_kind, "seed": seed, **meter.result()})
    document["all_cases"] = together.result()
    for truth, prediction in real_pairs():
        meter = Meter()
        meter.step(grey(prediction), grey(truth))
        document["real"].append({"truth": str(truth.relative_to(SHARED)), "prediction": str(prediction.relative_to(SHARED)),
                                 **meter.result()})
    text = json.dumps(document, separators=(",", ":"))
    # One line an entry, so that a change can be seen in a diff.
    text = text.replace('{"name"', '\n{"name"').replace('{"truth":"data', '\n{"truth":"data').replace('"all_cases"', '\n"all_cases"')
    (HERE / "reference.json").write_text(text + "\n")
    print(f"{len(document['cases'])} cases, {len(document['real'])} real pairs")


if __name__ == "__main__":
    main()

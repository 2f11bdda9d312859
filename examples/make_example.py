#!/usr/bin/env python3
"""Makes the example pairs of this folder: three table scenes, rendered from scratch.

    .venv/bin/python examples/make_example.py [--only NAME] [--out DIR] [--draft]

Writes, for each scene,
    rgb/NAME.jpg        the picture, 640x480
    depth/NAME.png      8-bit depth, near = dark, scaled to the picture's own nearest and farthest point
    depth_mm/NAME.png   16-bit depth in millimetres as a depth camera gives it: noisy, 0 = no reading
    mask/NAME.png       the object's true mask (255 = object)
The output is the same on every run with the same numpy and Pillow.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from render import (Box, Renderer, Scene, Surface, capsule, cone, curve, ellipsoid, hash_cell, mix, noise,
                    smoothstep, sphere, torus_y, tube, union, unit, vec)

WIDTH, HEIGHT = 640, 480


# ------------------------------------------------------------------------------------------ materials


def grey(v: np.ndarray) -> np.ndarray:
    return np.repeat(v[:, None], 3, 1).astype(np.float32)


def wood(light: np.ndarray, dark: np.ndarray, plank: float, gloss: float = 0.03):
    """Planks along x, each with its own grain and tint."""

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        row = np.floor(p[:, 2] / plank)
        tint = hash_cell(row, row * 0 + 3)
        x = p[:, 0] + 7 * tint
        warp = noise(x * 3, p[:, 2] * 14, 3)
        rings = 0.5 + 0.5 * np.sin((p[:, 2] * 95 + warp * 13 + tint * 40).astype(np.float32))
        fibre = noise(x * 14, p[:, 2] * 420, 2)
        grain = np.clip(0.5 * rings * noise(x * 2, p[:, 2] * 9 + 30, 2) * 1.6 + 0.55 * fibre, 0, 1)
        colour = mix(light, dark, grain) * (0.82 + 0.36 * tint)[:, None]
        gap = np.abs(p[:, 2] / plank - np.round(p[:, 2] / plank)) * plank
        colour = colour * mix(vec(0.35, 0.3, 0.27), vec(1, 1, 1), smoothstep(0.0004, 0.0018, gap))
        return Surface(colour, gloss, 0.3 + 0.25 * fibre)

    return paint


def plaster(colour: np.ndarray):
    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        stain = noise(p[:, 0] * 2.5 + 40, p[:, 1] * 2.5, 4)
        rough = noise(p[:, 0] * 130, p[:, 1] * 130, 2)
        return Surface(colour * (0.86 + 0.18 * stain + 0.1 * rough)[:, None])

    return paint


def tiles(colour: np.ndarray, size: float):
    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        i, j = np.floor(p[:, 0] / size), np.floor(p[:, 1] / size)
        fx, fy = p[:, 0] / size - i, p[:, 1] / size - j
        edge = np.minimum(np.minimum(fx, 1 - fx), np.minimum(fy, 1 - fy)) * size
        body = smoothstep(0.002, 0.0045, edge)
        tint = 0.9 + 0.2 * hash_cell(i, j) + 0.05 * (noise(p[:, 0] * 30, p[:, 1] * 30, 2) - 0.5)
        surface = mix(vec(0.5, 0.49, 0.46), colour * tint[:, None], body)
        tilt = np.zeros_like(p)
        tilt[:, 0] = (hash_cell(i + 90, j) - 0.5) * 0.05
        tilt[:, 1] = (hash_cell(i, j + 90) - 0.5) * 0.05
        return Surface(surface, 0.05 * body, 0.12, tilt)

    return paint


def bricks(p: np.ndarray, n: np.ndarray) -> Surface:
    wide, high = 0.215, 0.07
    j = np.floor(p[:, 1] / high)
    x = p[:, 0] / wide + 0.5 * (j % 2)
    i = np.floor(x)
    edge = np.minimum(np.minimum(x - i, 1 - x + i) * wide, np.minimum(p[:, 1] / high - j, 1 - p[:, 1] / high + j) * high)
    edge = edge + 0.004 * (noise(p[:, 0] * 60, p[:, 1] * 60, 2) - 0.5)
    body = smoothstep(0.004, 0.008, edge)
    tint = hash_cell(i, j)
    brick = mix(vec(0.40, 0.17, 0.11), vec(0.56, 0.31, 0.20), tint) * (0.7 + 0.6 * noise(p[:, 0] * 50, p[:, 1] * 50, 3))[:, None]
    return Surface(mix(vec(0.55, 0.51, 0.46) * 0.9, brick, body))


def stone(p: np.ndarray, n: np.ndarray) -> Surface:
    base = mix(vec(0.52, 0.50, 0.48), vec(0.36, 0.35, 0.35), noise(p[:, 0] * 9, p[:, 2] * 9, 4))
    dark = smoothstep(0.72, 0.8, noise(p[:, 0] * 230, p[:, 2] * 230, 2))
    pale = smoothstep(0.72, 0.8, noise(p[:, 0] * 170 + 60, p[:, 2] * 170, 2))
    colour = mix(mix(base, vec(0.12, 0.12, 0.13), dark * 0.8), vec(0.75, 0.73, 0.7), pale * 0.7)
    return Surface(colour, 0.045, 0.18)


def cloth(colour: np.ndarray, stripe: np.ndarray):
    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        weave = 0.9 + 0.2 * noise(p[:, 0] * 500, p[:, 2] * 500 + p[:, 1] * 500)
        band = smoothstep(0.4, 0.45, np.abs((p[:, 0] / 0.055) % 1 - 0.5))
        return Surface(mix(colour, stripe, band * 0.8) * weave[:, None])

    return paint


def plain(colour: np.ndarray, gloss: float = 0.02, roughness: float = 0.35):
    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        shade = 0.94 + 0.12 * noise(p[:, 0] * 60 + p[:, 2] * 41, p[:, 1] * 60, 2)
        return Surface(colour * shade[:, None], gloss, roughness)

    return paint


def book(colour: np.ndarray, half: np.ndarray):
    """A lying book: cover above and below, cream pages in between on the sides away from the spine."""

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        inner = (np.abs(p[:, 1]) < half[1] * 0.8) & (np.abs(n[:, 1]) < 0.5) & (n[:, 2] < 0.5)
        leaves = 0.78 + 0.22 * noise(p[:, 1] * 1500, p[:, 0] * 3)
        cover = mix(colour, colour * 2.0 + 0.15, ((np.abs(p[:, 0]) > half[0] * 0.72) & (np.abs(p[:, 0]) < half[0] * 0.8)).astype(np.float32))
        return Surface(np.where(inner[:, None], vec(0.74, 0.68, 0.55) * leaves[:, None], cover), 0.02, 0.4)

    return paint


def painting(half: np.ndarray):
    """A framed landscape on the wall."""

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        u, v = p[:, 0] / half[0], p[:, 1] / half[1]
        hill = 0.05 + 0.5 * (noise(u * 1.5 + 9, u * 0 + 2, 3) - 0.5)
        sky = mix(vec(0.75, 0.55, 0.38), vec(0.30, 0.42, 0.55), np.clip(v, 0, 1))
        land = mix(vec(0.12, 0.18, 0.10), vec(0.32, 0.30, 0.14), noise(u * 6, v * 9, 3))
        colour = np.where((v > hill)[:, None], sky, land)
        border = (np.abs(u) > 0.68) | (np.abs(v) > 0.70)
        colour = np.where(border[:, None], vec(0.78, 0.75, 0.68), colour)
        frame = (np.abs(p[:, 0]) > half[0] - 0.022) | (np.abs(p[:, 1]) > half[1] - 0.022) | (n[:, 2] < 0.5)
        return Surface(np.where(frame[:, None], vec(0.10, 0.065, 0.04), colour))

    return paint


def bottle_label(colour: np.ndarray, label: np.ndarray):
    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        on = (np.abs(p[:, 1]) < 0.045).astype(np.float32)
        text = ((np.abs(p[:, 1] - 0.015) < 0.006) | (np.abs(p[:, 1] + 0.01) < 0.002)).astype(np.float32)
        return Surface(mix(mix(colour, label, on), colour * 0.3, on * text), 0.04, 0.2)

    return paint


# --------------------------------------------------------------------------------------------- teapot


def teapot() -> Scene:
    turn = np.radians(24)
    c, s = np.float32(np.cos(turn)), np.float32(np.sin(turn))

    def local(p: np.ndarray) -> np.ndarray:
        return np.stack([c * p[:, 0] - s * p[:, 2], p[:, 1], s * p[:, 0] + c * p[:, 2]], -1)

    spout = curve([vec(0.060, 0.050, 0), vec(0.098, 0.066, 0), vec(0.120, 0.104, 0), vec(0.148, 0.142, 0)], 4)
    spout_radii = list(np.interp(np.linspace(0, 1, len(spout)), [0, 0.3, 0.65, 1], [0.028, 0.021, 0.0145, 0.0105]))
    handle = curve([vec(-0.062, 0.124, 0), vec(-0.106, 0.132, 0), vec(-0.138, 0.098, 0), vec(-0.120, 0.058, 0),
                    vec(-0.076, 0.038, 0)], 6)

    def distance(p: np.ndarray) -> np.ndarray:
        q = local(p)
        body = ellipsoid(q, vec(0, 0.078, 0), vec(0.092, 0.074, 0.092))
        body = union(body, cone(q, 0.0, 0.02, 0.052, 0.058, 0.004), 0.02)
        d = union(body, tube(q, spout, spout_radii), 0.022)
        d = union(d, tube(q, handle, [0.0095] * len(handle)), 0.014)
        d = union(d, torus_y(q, 0.144, 0.046, 0.0045), 0.006)
        lid = ellipsoid(q, vec(0, 0.144, 0), vec(0.046, 0.02, 0.046))
        d = union(d, lid, 0.0)
        d = union(d, sphere(q, vec(0, 0.175, 0), 0.0125), 0.012)
        return d.astype(np.float32)

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        q = local(p)
        around = np.arctan2(q[:, 2], q[:, 0])
        glaze = mix(vec(0.045, 0.20, 0.26), vec(0.03, 0.13, 0.19), noise(around * 6, q[:, 1] * 60, 3))
        # A cream band about the belly with a row of diamonds; only on the body itself.
        body = np.hypot(q[:, 0], q[:, 2]) > 0.083
        on = body & (np.hypot(q[:, 0], q[:, 2]) < 0.0945)
        band = smoothstep(0.029, 0.0275, np.abs(q[:, 1] - 0.078)) * on
        u = around / (2 * np.pi) * 22
        diamond = smoothstep(0.43, 0.38, np.abs(u - np.round(u)) + np.abs(q[:, 1] - 0.078) / 0.045)
        line = smoothstep(0.0016, 0.001, np.abs(np.abs(q[:, 1] - 0.078) - 0.0235))
        cream = mix(vec(0.80, 0.74, 0.60), vec(0.62, 0.13, 0.06), np.maximum(diamond, line))
        colour = mix(glaze, cream, band)
        speck = smoothstep(0.80, 0.86, noise(around * 45, q[:, 1] * 420)) * 0.5
        return Surface(mix(colour, colour * 0.5, speck), 0.06, 0.06)

    frame = vec(0.24, 0.19, 0.012)
    book_a, book_b = vec(0.15, 0.021, 0.105), vec(0.135, 0.015, 0.095)
    room = [
        Box(vec(0, -0.03, -0.25), vec(1.6, 0.03, 0.95), wood(vec(0.50, 0.29, 0.15), vec(0.24, 0.115, 0.05), 0.13)),
        Box(vec(0, 0.5, -1.9), vec(4, 2.5, 0.05), plaster(vec(0.60, 0.53, 0.42))),
        Box(vec(0.47, 0.30, -1.84), frame, painting(frame)),
        Box(vec(-0.43, 0.021, -0.52), book_a, book(vec(0.33, 0.07, 0.06), book_a), 12),
        Box(vec(-0.42, 0.057, -0.53), book_b, book(vec(0.07, 0.13, 0.12), book_b), -9),
        Box(vec(0.62, 0.10, -0.70), vec(0.055, 0.10, 0.055), plain(vec(0.52, 0.46, 0.35)), 25),
    ]
    return Scene(distance, paint, vec(0, 0.09, 0), 0.185, room, vec(0.06, 0.245, 0.74), vec(0.005, 0.105, 0), 40,
                 vec(-1.3, 1.5, 1.0), 0.11, vec(1.75, 1.62, 1.42), vec(0.42, 0.44, 0.50), vec(0.26, 0.20, 0.15),
                 exposure=0.86, aperture=2.2, seed=11)


# ----------------------------------------------------------------------------------------------- duck


def duck() -> Scene:
    turn = np.radians(-38)
    c, s = np.float32(np.cos(turn)), np.float32(np.sin(turn))

    def local(p: np.ndarray) -> np.ndarray:
        q = np.stack([c * p[:, 0] - s * p[:, 2], p[:, 1], s * p[:, 0] + c * p[:, 2]], -1)
        q[:, 2] = np.abs(q[:, 2])
        return q

    # The duck looks along +x; everything is symmetric in z.
    def beak(q: np.ndarray) -> np.ndarray:
        upper = ellipsoid(q, vec(0.118, 0.128, 0), vec(0.026, 0.0065, 0.021))
        lower = ellipsoid(q, vec(0.111, 0.117, 0), vec(0.022, 0.0055, 0.016))
        return union(upper, lower, 0.004)

    eye = vec(0.0905, 0.150, 0.0265)

    def distance(p: np.ndarray) -> np.ndarray:
        q = local(p)
        body = ellipsoid(q, vec(0, 0.050, 0), vec(0.098, 0.053, 0.068))
        body = union(body, capsule(q, vec(-0.06, 0.062, 0), vec(-0.112, 0.101, 0), 0.032, 0.007), 0.045)
        body = union(body, ellipsoid(q, vec(-0.018, 0.062, 0.064), vec(0.054, 0.026, 0.013)), 0.012)
        d = union(body, sphere(q, vec(0.062, 0.135, 0), 0.047), 0.035)
        d = union(d, beak(q), 0.008)
        d = union(d, sphere(q, eye, 0.0085), 0.0)
        return np.maximum(d, -q[:, 1]).astype(np.float32)

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        q = local(p)
        colour = mix(vec(0.86, 0.56, 0.03), vec(0.82, 0.46, 0.02), noise(q[:, 0] * 25, q[:, 1] * 25, 2))
        orange = smoothstep(0.003, 0.001, beak(q))
        colour = mix(colour, vec(0.80, 0.17, 0.02), orange)
        ring = smoothstep(0.0125, 0.0115, np.linalg.norm(q - eye, axis=-1))
        colour = mix(colour, vec(0.85, 0.84, 0.80), ring * (np.linalg.norm(q - eye, axis=-1) < 0.0095))
        pupil = np.linalg.norm(q - (eye + vec(0.0035, 0.001, 0.0065)), axis=-1)
        colour = mix(colour, vec(0.01, 0.01, 0.012), smoothstep(0.0062, 0.0055, pupil))
        return Surface(colour, 0.045, 0.13)

    room = [
        Box(vec(0, -0.03, -0.25), vec(1.5, 0.03, 0.9), stone),
        Box(vec(0, 0.6, -1.15), vec(4, 2.5, 0.05), tiles(vec(0.42, 0.56, 0.58), 0.15)),
        Box(vec(-0.47, 0.035, -0.55), vec(0.20, 0.035, 0.13), cloth(vec(0.60, 0.60, 0.57), vec(0.10, 0.20, 0.36)), 14),
        Box(vec(-0.46, 0.100, -0.56), vec(0.19, 0.030, 0.12), cloth(vec(0.62, 0.50, 0.42), vec(0.62, 0.50, 0.42)), 9),
        Box(vec(0.33, 0.095, -0.72), vec(0.042, 0.095, 0.032), bottle_label(vec(0.70, 0.70, 0.66), vec(0.16, 0.34, 0.26)), 22),
        Box(vec(0.33, 0.205, -0.72), vec(0.014, 0.016, 0.014), plain(vec(0.08, 0.08, 0.09)), 22),
        Box(vec(0.49, 0.07, -0.62), vec(0.045, 0.07, 0.045), bottle_label(vec(0.30, 0.17, 0.10), vec(0.72, 0.68, 0.58)), -12),
        Box(vec(0.49, 0.149, -0.62), vec(0.03, 0.010, 0.03), plain(vec(0.65, 0.65, 0.66)), -12),
    ]
    return Scene(distance, paint, vec(0.0, 0.085, 0), 0.165, room, vec(-0.03, 0.245, 0.66), vec(0.012, 0.078, 0), 38,
                 vec(1.2, 1.6, 0.9), 0.10, vec(1.55, 1.58, 1.62), vec(0.50, 0.53, 0.56), vec(0.24, 0.24, 0.24),
                 exposure=0.84, aperture=2.4, seed=23, window=(0.6, 0.5))


# --------------------------------------------------------------------------------------------- cactus


def cactus() -> Scene:
    stem_low, stem_high = vec(0, 0.10, 0), vec(0, 0.235, 0)

    def ribs(q: np.ndarray, low: np.ndarray, high: np.ndarray, r0: float, r1: float, count: int, deep: float) -> np.ndarray:
        angle = np.arctan2(q[:, 2] - low[2], q[:, 0] - low[0])
        return capsule(q, low, high, r0, r1) + deep * (0.5 - 0.5 * np.cos(angle * count))

    def plant(q: np.ndarray) -> np.ndarray:
        d = ribs(q, stem_low, stem_high, 0.046, 0.038, 12, 0.0065)
        right = union(capsule(q, vec(0.03, 0.155, 0.0), vec(0.082, 0.166, 0.008), 0.016, 0.021),
                      ribs(q, vec(0.084, 0.172, 0.008), vec(0.088, 0.226, 0.010), 0.022, 0.019, 9, 0.004), 0.015)
        left = union(capsule(q, vec(-0.03, 0.19, 0.0), vec(-0.070, 0.197, 0.010), 0.013, 0.016),
                     ribs(q, vec(-0.072, 0.203, 0.010), vec(-0.076, 0.246, 0.010), 0.0175, 0.015, 9, 0.003), 0.012)
        return union(d, union(left, right), 0.012)

    flower = vec(0.006, 0.279, 0.006)

    def petals(q: np.ndarray) -> np.ndarray:
        v = q - flower
        angle = np.arctan2(v[:, 2], v[:, 0])
        wave = 0.78 + 0.22 * np.cos(angle * 7)
        return (ellipsoid(q, flower, vec(0.027, 0.015, 0.027)) + 0.010 * (1 - wave)).astype(np.float32)

    def pot(q: np.ndarray) -> np.ndarray:
        d = union(cone(q, 0.0, 0.083, 0.046, 0.066, 0.003), cone(q, 0.076, 0.104, 0.073, 0.076, 0.004), 0.003)
        return np.maximum(d, -cone(q, 0.094, 0.12, 0.066, 0.068, 0.001))

    def distance(p: np.ndarray) -> np.ndarray:
        d = union(pot(p), plant(p))
        return (0.92 * union(d, petals(p), 0.004)).astype(np.float32)

    def paint(p: np.ndarray, n: np.ndarray) -> Surface:
        is_pot = pot(p) < 0.0015
        is_petal = petals(p) < 0.0015
        height = noise(p[:, 0] * 40, p[:, 1] * 40 + p[:, 2] * 23, 3)
        clay = mix(vec(0.56, 0.235, 0.115), vec(0.66, 0.36, 0.22), height)
        soil = (p[:, 1] > 0.088) & (np.hypot(p[:, 0], p[:, 2]) < 0.0665) & is_pot
        clay = np.where(soil[:, None], vec(0.10, 0.065, 0.04) * (0.5 + height)[:, None], clay)
        angle = np.arctan2(p[:, 2], p[:, 0])
        ridge = 0.5 + 0.5 * np.cos(angle * 12)
        green = mix(vec(0.05, 0.15, 0.045), vec(0.15, 0.33, 0.09), ridge)
        green = green * (0.8 + 0.4 * noise(p[:, 0] * 90, p[:, 1] * 90, 2))[:, None]
        step = p[:, 1] / 0.0135
        thorn = smoothstep(0.93, 0.985, ridge) * smoothstep(0.16, 0.10, np.abs(step - np.round(step)))
        green = mix(green, vec(0.80, 0.76, 0.58), thorn)
        pink = mix(vec(0.78, 0.10, 0.25), vec(0.86, 0.62, 0.20), smoothstep(0.011, 0.006, np.hypot(p[:, 0] - flower[0], p[:, 2] - flower[2])))
        colour = np.where(is_petal[:, None], pink, np.where(is_pot[:, None], clay, green))
        bump = np.stack([noise(p[:, 1] * 300, p[:, 0] * 300), noise(p[:, 0] * 300, p[:, 2] * 300), noise(p[:, 2] * 300, p[:, 1] * 300)], -1)
        return Surface(colour, np.where(is_pot, 0.02, 0.03).astype(np.float32), np.where(is_pot, 0.6, 0.35).astype(np.float32), (bump - 0.5) * 0.12)

    book_a = vec(0.14, 0.016, 0.10)
    room = [
        Box(vec(0, -0.03, -0.2), vec(1.5, 0.03, 0.8), wood(vec(0.60, 0.52, 0.42), vec(0.40, 0.32, 0.24), 0.19, 0.02)),
        Box(vec(0, 0.6, -1.35), vec(4, 2.5, 0.05), bricks),
        Box(vec(0.46, 0.016, -0.42), book_a, book(vec(0.08, 0.14, 0.26), book_a), -18),
        Box(vec(0.45, 0.042, -0.42), vec(0.11, 0.010, 0.08), book(vec(0.45, 0.30, 0.08), vec(0.11, 0.010, 0.08)), -30),
        Box(vec(-0.52, 0.13, -0.75), vec(0.16, 0.13, 0.02), plain(vec(0.09, 0.09, 0.10), 0.04, 0.2), 24),
        Box(vec(-0.30, 0.045, -0.60), vec(0.035, 0.045, 0.035), plain(vec(0.62, 0.60, 0.55)), 40),
    ]
    return Scene(distance, paint, vec(0, 0.145, 0), 0.175, room, vec(0.10, 0.40, 0.98), vec(-0.018, 0.128, 0), 34,
                 vec(-1.35, 1.5, 1.0), 0.10, vec(1.85, 1.62, 1.32), vec(0.40, 0.43, 0.50), vec(0.24, 0.21, 0.18),
                 exposure=0.85, aperture=2.6, seed=37)


SCENES = {"teapot": teapot, "duck": duck, "cactus": cactus}


# --------------------------------------------------------------------------------------------- camera


def blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur of (H,W) or (H,W,C), edges repeated."""
    radius = max(1, int(np.ceil(3 * sigma)))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        pad = [(0, 0)] * image.ndim
        pad[axis] = (radius, radius)
        padded = np.pad(image, pad, mode="edge")
        length = image.shape[axis]
        image = sum(k * np.take(padded, range(i, i + length), axis) for i, k in enumerate(kernel))
    return image


def defocus(image: np.ndarray, depth: np.ndarray, focus: float, aperture: float) -> np.ndarray:
    """Blurs each pixel by how far it is from the plane in focus: a mix of a few blurred copies."""
    amount = np.clip(aperture * np.abs(1 - focus / depth) * 2.4, 0, 7.9)
    levels = [image] + [blur(image, sigma) for sigma in (1.0, 2.0, 4.0, 8.0)]
    scale = np.log2(np.maximum(amount, 0.5)) + 1
    result = np.zeros_like(image)
    for i, level in enumerate(levels):
        result += level * np.clip(1 - np.abs(scale - i), 0, 1)[..., None]
    return result


def develop(linear: np.ndarray, exposure: float, random: np.random.Generator) -> np.ndarray:
    """Lens fall-off, sensor noise, tone curve and 8 bits."""
    y, x = np.mgrid[-1:1:HEIGHT * 1j, -1:1:WIDTH * 1j]
    linear = linear * exposure * (1 - 0.16 * (x * x + 0.6 * y * y))[..., None]
    glow = blur(np.maximum(linear - 0.9, 0), 6)
    linear = linear + 0.12 * glow
    grain = random.normal(size=linear.shape)
    grain = 0.7 * grain + 0.9 * blur(grain, 0.7)
    linear = np.maximum(linear + grain * (0.0035 + 0.011 * np.sqrt(np.maximum(linear, 0))), 0)
    curve = linear * (2.51 * linear + 0.03) / (linear * (2.43 * linear + 0.59) + 0.14)
    srgb = np.clip(curve, 0, 1) ** (1 / 2.2)
    return np.round(255 * srgb).astype(np.uint8)


def depth_camera(depth: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Millimetres as a structured-light camera reports them: noise that grows with the square of the
    distance, steps, and no reading (0) where the object hides the projector's light."""
    wobble = blur(random.normal(size=depth.shape), 1.5) * 4
    reading = depth * 1000 + wobble * 0.9 * depth**2 + random.normal(size=depth.shape) * 0.8 * depth**2
    step = np.maximum(1.2 * depth**2, 1)
    reading = np.round(reading / step) * step
    shadow = np.zeros(depth.shape, dtype=bool)
    focal, baseline = WIDTH * 1.1, 0.05
    shift = focal * baseline / depth
    # A point is hidden when a point to its left reaches, seen from the projector, past it.
    edge = np.arange(WIDTH)[None, :] + shift - shift.min()
    furthest = np.maximum.accumulate(edge, axis=1)
    shadow = furthest > edge + 1.5
    reading[shadow] = 0
    return np.clip(reading, 0, 65535).astype(np.uint16)


def fill_holes(reading: np.ndarray) -> np.ndarray:
    """Fills what the depth camera did not see from the farther side, as the data sets' makers do."""
    filled = reading.astype(np.float64)
    hole = reading == 0
    column = np.arange(WIDTH)[None, :]
    before = np.maximum.accumulate(np.where(hole, -1, column), axis=1)
    after = np.flip(np.minimum.accumulate(np.flip(np.where(hole, WIDTH, column), 1), axis=1), 1)
    rows = np.arange(HEIGHT)[:, None]
    left = np.where(before >= 0, filled[rows, np.maximum(before, 0)], -1)
    right = np.where(after < WIDTH, filled[rows, np.minimum(after, WIDTH - 1)], -1)
    filled[hole] = np.maximum(left, right)[hole]
    return filled


def to_8_bit(depth: np.ndarray) -> np.ndarray:
    low, high = depth.min(), depth.max()
    return np.round(255 * (depth - low) / max(high - low, 1e-9)).astype(np.uint8)


# ----------------------------------------------------------------------------------------------- main


def make(name: str, out: Path, draft: bool) -> None:
    scene = SCENES[name]()
    random = np.random.default_rng(scene.seed + 1000)
    layers = Renderer(scene, WIDTH, HEIGHT, 1 if draft else 2).render()
    cover = layers["cover"]
    focus = float(np.median(layers["object_depth"][cover >= 1]))
    room = defocus(layers["room"], layers["room_depth"], focus, scene.aperture)
    soft = blur(cover, 0.5)[..., None]
    objects = blur(layers["object"], 0.5)
    linear = objects + room * (1 - soft)

    # Samples of one pixel share the object's depth where it covers half of it.
    mask = cover >= 0.5
    depth = np.where(mask, layers["object_depth"] / np.maximum(cover, 1e-6), layers["room_depth"])
    reading = depth_camera(depth, random)

    for folder in ("rgb", "depth", "depth_mm", "mask"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    Image.fromarray(develop(linear, scene.exposure, random)).save(out / "rgb" / f"{name}.jpg", quality=92, subsampling=0)
    Image.fromarray(to_8_bit(blur(fill_holes(reading), 0.8))).save(out / "depth" / f"{name}.png", optimize=True)
    Image.fromarray(reading).save(out / "depth_mm" / f"{name}.png", optimize=True)
    Image.fromarray((mask * 255).astype(np.uint8)).save(out / "mask" / f"{name}.png", optimize=True)
    print(f"{name}: object {100 * mask.mean():.1f} % of the frame, depth {depth.min():.2f} to {depth.max():.2f} m, "
          f"{100 * (reading == 0).mean():.1f} % without a reading")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=sorted(SCENES), help="make this scene alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent, help="folder to write into")
    parser.add_argument("--draft", action="store_true", help="one sample a pixel: four times as fast")
    arguments = parser.parse_args()
    for name in [arguments.only] if arguments.only else SCENES:
        make(name, arguments.out, arguments.draft)


if __name__ == "__main__":
    main()

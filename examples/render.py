"""A small renderer for the example pairs: one object made of signed-distance shapes in a room of boxes.

Lengths are metres; x to the right, y up, z towards the camera. Points and directions are (N,3) float32.
Light is linear RGB. The room is intersected exactly; only rays that may meet the object are marched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import numpy as np

FAR = np.float32(1e9)


def vec(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=-1)


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-9)


def mix(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The colour a where t is 0, b where it is 1; t has one value a point and may be fractional."""
    return a + (b - a) * np.asarray(t, dtype=np.float32)[:, None]


def smoothstep(low: float, high: float, x: np.ndarray) -> np.ndarray:
    t = np.clip((x - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def turn_y(v: np.ndarray, degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.stack([c * v[:, 0] + s * v[:, 2], v[:, 1], -s * v[:, 0] + c * v[:, 2]], -1).astype(np.float32)


# ---------------------------------------------------------------------------------------------- noise

_LATTICE = np.random.default_rng(7).random((256, 256), dtype=np.float32)


def noise(u: np.ndarray, v: np.ndarray, octaves: int = 1) -> np.ndarray:
    """Smooth noise in 0..1 with features of about one unit; each octave adds detail at half the size."""
    total, weight = np.zeros_like(u), 0.0
    for octave in range(octaves):
        scale = 2.0**octave
        x, y = u * scale + 17.3 * octave, v * scale + 5.1 * octave
        xi, yi = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        fx, fy = x - xi, y - yi
        fx, fy = fx * fx * (3 - 2 * fx), fy * fy * (3 - 2 * fy)
        x0, x1, y0, y1 = xi & 255, (xi + 1) & 255, yi & 255, (yi + 1) & 255
        top = _LATTICE[y0, x0] * (1 - fx) + _LATTICE[y0, x1] * fx
        bottom = _LATTICE[y1, x0] * (1 - fx) + _LATTICE[y1, x1] * fx
        total += (top * (1 - fy) + bottom * fy) / scale
        weight += 1 / scale
    return (total / weight).astype(np.float32)


def hash_cell(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """A fixed random number in 0..1 for each cell (i, j)."""
    return _LATTICE[j.astype(np.int64) & 255, i.astype(np.int64) & 255]


# ------------------------------------------------------------------------------------ distance shapes


def sphere(p: np.ndarray, centre: np.ndarray, radius: float) -> np.ndarray:
    return np.linalg.norm(p - centre, axis=-1) - radius


def ellipsoid(p: np.ndarray, centre: np.ndarray, radii: np.ndarray) -> np.ndarray:
    q = p - centre
    k0 = np.linalg.norm(q / radii, axis=-1)
    k1 = np.linalg.norm(q / (radii * radii), axis=-1)
    return k0 * (k0 - 1) / np.maximum(k1, 1e-6)


def capsule(p: np.ndarray, a: np.ndarray, b: np.ndarray, ra: float, rb: float) -> np.ndarray:
    """A tube from a to b whose radius goes from ra to rb."""
    ab = b - a
    t = np.clip(dot(p - a, ab) / float(dot(ab, ab)), 0, 1)
    return np.linalg.norm(p - a - t[:, None] * ab, axis=-1) - (ra + (rb - ra) * t)


def tube(p: np.ndarray, points: list[np.ndarray], radii: list[float]) -> np.ndarray:
    distance = capsule(p, points[0], points[1], radii[0], radii[1])
    for i in range(1, len(points) - 1):
        distance = union(distance, capsule(p, points[i], points[i + 1], radii[i], radii[i + 1]))
    return distance


def curve(points: list[np.ndarray], parts: int) -> list[np.ndarray]:
    """A smooth curve (Catmull-Rom) through the points, `parts` pieces between each two of them."""
    ends = [2 * points[0] - points[1], *points, 2 * points[-1] - points[-2]]
    result = []
    for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:]):
        for t in np.arange(parts, dtype=np.float32) / np.float32(parts):
            result.append((b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))).astype(np.float32))
    return [*result, points[-1]]


def cone(p: np.ndarray, y0: float, y1: float, r0: float, r1: float, rounding: float) -> np.ndarray:
    """An upright truncated cone with rounded edges."""
    t = np.clip((p[:, 1] - y0) / (y1 - y0), 0, 1)
    slope = (r1 - r0) / (y1 - y0)
    side = (np.hypot(p[:, 0], p[:, 2]) - (r0 + (r1 - r0) * t) + rounding) / np.sqrt(1 + slope * slope)
    cap = np.abs(p[:, 1] - (y0 + y1) / 2) - (y1 - y0) / 2 + rounding
    outside = np.hypot(np.maximum(side, 0), np.maximum(cap, 0))
    return outside + np.minimum(np.maximum(side, cap), 0) - rounding


def torus_y(p: np.ndarray, y: float, radius: float, thickness: float) -> np.ndarray:
    ring = np.hypot(p[:, 0], p[:, 2]) - radius
    return np.hypot(ring, p[:, 1] - y) - thickness


def union(a: np.ndarray, b: np.ndarray, blend: float = 0.0) -> np.ndarray:
    if blend <= 0:
        return np.minimum(a, b)
    h = np.maximum(blend - np.abs(a - b), 0) / blend
    return np.minimum(a, b) - h * h * blend / 4


# ---------------------------------------------------------------------------------------------- scene


@dataclass
class Surface:
    """What shading needs to know of a point: colour, mirror-like share at normal incidence, roughness."""

    albedo: np.ndarray
    gloss: np.ndarray | float = 0.0
    roughness: np.ndarray | float = 0.5
    normal_shift: np.ndarray | None = None


@dataclass
class Box:
    """A box of the room, turned about the vertical. `paint` gets points in the box's own frame (origin at
    its centre) and their normals there."""

    centre: np.ndarray
    half: np.ndarray
    paint: Callable[[np.ndarray, np.ndarray], Surface]
    turn: float = 0.0

    def to_local(self, p: np.ndarray) -> np.ndarray:
        return turn_y(p - self.centre, -self.turn)

    def hit(self, origin: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance along the ray (FAR: no hit) and the normal, in the world's frame."""
        o, d = self.to_local(origin), turn_y(direction, -self.turn)
        inverse = 1 / np.where(np.abs(d) < 1e-9, np.float32(1e-9), d)
        middle, span = -o * inverse, np.abs(inverse) * self.half
        near, far = (middle - span).max(-1), (middle + span).min(-1)
        distance = np.where((near < far) & (near > 1e-4), near, FAR).astype(np.float32)
        axis = np.argmax(middle - span, -1)
        normal = np.zeros_like(o)
        normal[np.arange(len(o)), axis] = -np.sign(d[np.arange(len(o)), axis])
        return distance, turn_y(normal, self.turn)


@dataclass
class Scene:
    distance: Callable[[np.ndarray], np.ndarray]
    paint: Callable[[np.ndarray, np.ndarray], Surface]
    bound_centre: np.ndarray
    bound_radius: float
    room: list[Box]
    eye: np.ndarray
    target: np.ndarray
    field_of_view: float
    light: np.ndarray
    light_size: float
    light_colour: np.ndarray
    sky: np.ndarray
    bounce: np.ndarray
    exposure: float = 1.0
    aperture: float = 0.0
    seed: int = 1
    window: tuple[float, float] = field(default=(0.5, 0.7))


class Renderer:
    def __init__(self, scene: Scene, width: int, height: int, samples: int):
        self.scene, self.width, self.height, self.samples = scene, width, height, samples
        self.random = np.random.default_rng(scene.seed)

    # -- rays

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """One ray through the middle of each of samples x samples cells of every pixel."""
        s, w, h = self.scene, self.width * self.samples, self.height * self.samples
        self.forward = unit(s.target - s.eye)
        right = unit(np.cross(self.forward, vec(0, 1, 0)))
        up = np.cross(right, self.forward)
        half = np.tan(np.radians(s.field_of_view) / 2)
        x = ((np.arange(w) + 0.5) / w * 2 - 1) * half
        y = (1 - (np.arange(h) + 0.5) / h * 2) * half * self.height / self.width
        gx, gy = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
        direction = unit(self.forward + gx.reshape(-1, 1) * right + gy.reshape(-1, 1) * up)
        return np.broadcast_to(s.eye, direction.shape), direction.astype(np.float32)

    # -- visibility

    def march(self, origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Distance to the object along each ray, FAR where it is missed."""
        s = self.scene
        offset = origin - s.bound_centre
        b, c = dot(offset, direction), dot(offset, offset) - s.bound_radius**2
        root = b * b - c
        result = np.full(len(origin), FAR, dtype=np.float32)
        active = np.flatnonzero(root > 0)
        t = np.maximum(-b[active] - np.sqrt(root[active]), 0).astype(np.float32)
        end = (-b[active] + np.sqrt(root[active])).astype(np.float32)
        for _ in range(90):
            if active.size == 0:
                break
            d = s.distance(origin[active] + t[:, None] * direction[active]).astype(np.float32)
            done = d < 2e-4
            result[active[done]] = t[done]
            t = t + 0.85 * d
            keep = ~done & (t < end)
            active, t, end = active[keep], t[keep], end[keep]
        return result

    def object_shadow(self, p: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Share of the light that passes the object, with a penumbra from how near the ray passes it."""
        s = self.scene
        offset = p - s.bound_centre
        b = dot(offset, direction)
        radius = s.bound_radius * 1.6
        root = b * b - dot(offset, offset) + radius**2
        light = np.ones(len(p), dtype=np.float32)
        active = np.flatnonzero((root > 0) & (-b + np.sqrt(np.maximum(root, 0)) > 0))
        t = np.maximum(-b[active] - np.sqrt(root[active]), 0.004).astype(np.float32)
        end = -b[active] + np.sqrt(root[active])
        sharpness = 1.0 / s.light_size
        for _ in range(48):
            if active.size == 0:
                break
            d = s.distance(p[active] + t[:, None] * direction[active])
            light[active] = np.minimum(light[active], np.clip(0.5 + 0.5 * sharpness * d / t, 0, 1))
            t = t + np.clip(d, 0.004, 0.05).astype(np.float32)
            keep = (t < end) & (light[active] > 0.003)
            active, t, end = active[keep], t[keep], end[keep]
        return light * light * (3 - 2 * light)

    def room_shadow(self, p: np.ndarray, samples: int) -> np.ndarray:
        """Share of an area light that the room's boxes leave visible."""
        s = self.scene
        blocked = np.zeros(len(p), dtype=np.float32)
        for _ in range(samples):
            spot = s.light + s.light_size * np.linalg.norm(s.light) * (
                self.random.random((len(p), 3), dtype=np.float32) - 0.5)
            way = spot - p
            reach = np.linalg.norm(way, axis=-1)
            way = way / reach[:, None]
            hidden = np.zeros(len(p), dtype=bool)
            for box in s.room:
                hidden |= box.hit(p, way)[0] < reach
            blocked += hidden
        return 1 - blocked / samples

    def occlusion(self, p: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Share of the sky that the object (and the table below it) leaves visible."""
        s = self.scene
        near = np.linalg.norm(p - s.bound_centre, axis=-1) < s.bound_radius * 2.2
        shade = np.zeros(len(p), dtype=np.float32)
        q, m = p[near], n[near]
        total = np.zeros(len(q), dtype=np.float32)
        for i, step in enumerate((0.008, 0.02, 0.04, 0.075, 0.12)):
            there = q + m * step
            free = np.minimum(s.distance(there), there[:, 1] + 0.6 * step)
            total += np.maximum(step - free, 0) / step * 0.75**i
        shade[near] = total * 0.36
        return np.clip(1 - shade, 0.12, 1)

    def object_normal(self, p: np.ndarray) -> np.ndarray:
        e = 4e-4
        n = np.zeros_like(p)
        for corner in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
            c = vec(*corner)
            n += c * self.scene.distance(p + e * c)[:, None]
        return unit(n)

    # -- light

    def surroundings(self, r: np.ndarray) -> np.ndarray:
        """What a mirror facing along r would show: a window with a cross bar, a dim room, the table."""
        s = self.scene
        to_light = unit(s.light)
        side = unit(np.cross(to_light, vec(0, 1, 0)))
        top = np.cross(side, to_light)
        ahead = dot(r, to_light)
        u = dot(r, side) / np.maximum(ahead, 1e-3)
        v = dot(r, top) / np.maximum(ahead, 1e-3)
        wide, high = s.window
        pane = (smoothstep(wide, wide - 0.05, np.abs(u)) * smoothstep(high, high - 0.05, np.abs(v))
                * smoothstep(0.02, 0.05, np.abs(u)) * smoothstep(0.02, 0.05, np.abs(v + 0.1)))
        pane = pane * (ahead > 0)
        room = mix(s.bounce * 0.5, s.sky * 0.55, smoothstep(-0.15, 0.25, r[:, 1]))
        lamp = smoothstep(0.93, 0.97, dot(r, unit(vec(0.75, 0.45, 0.5))))
        return room + pane[:, None] * s.light_colour * 2.6 + lamp[:, None] * vec(1.0, 0.75, 0.5) * 1.2

    def shade(self, p: np.ndarray, n: np.ndarray, view: np.ndarray, surface: Surface, lit: np.ndarray,
              open_sky: np.ndarray) -> np.ndarray:
        s = self.scene
        if surface.normal_shift is not None:
            n = unit(n + surface.normal_shift)
        way = s.light - p
        reach = np.linalg.norm(way, axis=-1)
        way = way / reach[:, None]
        falloff = (np.linalg.norm(s.light) / reach) ** 2
        key = np.maximum(dot(n, way), 0) * lit * falloff
        around = mix(s.bounce, s.sky, n[:, 1] * 0.5 + 0.5)
        colour = surface.albedo * (key[:, None] * s.light_colour + around * open_sky[:, None])
        gloss = np.broadcast_to(np.asarray(surface.gloss, dtype=np.float32), len(p))
        rough = np.broadcast_to(np.asarray(surface.roughness, dtype=np.float32), len(p))
        facing = np.clip(-dot(n, view), 0, 1)
        fresnel = gloss * (1 + (1 / np.maximum(gloss, 0.02) - 1) * (1 - facing) ** 5 * (1 - rough))
        mirrored = view - 2 * dot(view, n)[:, None] * n
        half_way = unit(way - view)
        power = 2 / np.maximum(rough, 0.03) ** 4
        highlight = (power + 8) / 25 * np.maximum(dot(n, half_way), 0) ** power * lit
        blurred = mix(self.surroundings(mirrored), around * 0.6, smoothstep(0.1, 0.5, rough))
        colour = colour * (1 - fresnel[:, None])
        return colour + fresnel[:, None] * (
            blurred * open_sky[:, None] + np.minimum(highlight, 8)[:, None] * s.light_colour * 0.4)

    # -- picture

    def render(self) -> dict[str, np.ndarray]:
        """The object and the room without it as separate layers, each sample resolved: linear colour, depth
        along the camera's axis in metres, and the share of each pixel that the object covers."""
        s = self.scene
        origin, direction = self.rays()
        distance = np.full(len(direction), FAR, dtype=np.float32)
        back = np.zeros_like(direction)
        for index, box in enumerate(s.room):
            d, normal = box.hit(origin, direction)
            closer = d < distance
            distance[closer] = d[closer]
            back[closer] = normal[closer]
            owner = np.where(closer, index, owner) if index else np.where(closer, index, -1)
        room_colour = np.zeros_like(direction)
        for index, box in enumerate(s.room):
            mine = np.flatnonzero(owner == index)
            if mine.size == 0:
                continue
            p = origin[mine] + distance[mine, None] * direction[mine]
            n = back[mine]
            p = p + n * 1e-4
            surface = box.paint(box.to_local(p), turn_y(n, -box.turn))
            if surface.normal_shift is not None:
                surface.normal_shift = turn_y(surface.normal_shift, box.turn)
            lit = self.room_shadow(p, 3) * self.object_shadow(p, unit(s.light - p))
            room_colour[mine] = self.shade(p, n, direction[mine], surface, lit, self.occlusion(p, n))

        near = self.march(origin, direction)
        mine = np.flatnonzero(near < distance)
        p = origin[mine] + near[mine, None] * direction[mine]
        n = self.object_normal(p)
        lit = self.object_shadow(p + n * 2e-3, unit(s.light - p)) * (dot(n, s.light - p) > 0)
        colour = np.zeros_like(direction)
        colour[mine] = self.shade(p, n, direction[mine], s.paint(p, n), lit, self.occlusion(p, n))

        covered = np.zeros(len(direction), dtype=np.float32)
        covered[mine] = 1
        axis = dot(direction, self.forward)
        return {
            "room": self.resolve(room_colour),
            "room_depth": self.resolve(distance * axis),
            "object": self.resolve(colour),
            "object_depth": self.resolve(np.where(covered > 0, near * axis, 0)),
            "cover": self.resolve(covered),
        }

    def resolve(self, values: np.ndarray) -> np.ndarray:
        k = self.samples
        grid = values.reshape(self.height, k, self.width, k, -1)
        return grid.mean((1, 3)).squeeze(-1) if values.ndim == 1 else grid.mean((1, 3))

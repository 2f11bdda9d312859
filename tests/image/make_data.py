#!/usr/bin/env python3
"""Makes tests/data/image: awkward pictures and the values that Pillow gives for them.

Run where Pillow >= 11 and NumPy are, with tiffcp (libtiff-tools) and img2webp (webp) on the PATH:
    python3 tests/image/make_data.py
The results are committed; the tests need neither Python nor Pillow.
"""

import csv
import pathlib
import struct
import subprocess
import zlib

import numpy as np
from PIL import Image, ImageOps

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "image"
W, H = 29, 18
# libtiff's conversion, which is used here, differs from Pillow's in rounding.
TOLERANCES = {"ycbcr.tif": 1}


def picture(height=H, width=W, channels=3):
    """A smooth picture with an edge and no symmetry, so that every turn shows."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [8 * x + y, 255 - 9 * y + 2 * x, 6 * x + 5 * y + 40 * (x > 2 * y)]
    return np.stack([np.clip(p, 0, 255) for p in planes[:channels]], -1).astype(np.uint8).squeeze()


def exif(orientation, order="<"):
    mark = b"II" if order == "<" else b"MM"
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "HIH", 42, 8, 1) + entry + struct.pack(order + "I", 0)


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(
        ">I", zlib.crc32(name + content))


def png(width, height, bits, colour_type, rows, before=b"", behind=b""):
    """A PNG from packed rows (bytes), for kinds that Pillow cannot write."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", data) + behind
            + chunk(b"IEND", b""))


def interlaced(samples, colour_type):
    """An interlaced PNG (Adam7); samples are rows x columns x channels of 8 or 16 bits."""
    height, width = samples.shape[:2]
    big_endian = samples.astype(samples.dtype.newbyteorder(">"))
    data = b""
    for x, y, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)):
        part = big_endian[y::dy, x::dx]
        if part.size:
            data += b"".join(b"\0" + row.tobytes() for row in part)
    header = struct.pack(">IIBBBBB", width, height, samples.dtype.itemsize * 8, colour_type, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data))
            + chunk(b"IEND", b""))


def bmp(width, height, bits, compression, masks, rows, palette=b"", size=40, top_down=False):
    body = b"".join(rows)
    extra = b"".join(struct.pack("<I", m) for m in masks)
    offset = 14 + size + (len(extra) if size == 40 else 0) + len(palette)
    info = struct.pack("<IiiHHIIiiII", size, width, -height if top_down else height, 1, bits,
                       compression, len(body), 2835, 2835, len(palette) // 4, 0)
    if size > 40:
        info += extra + b"\0" * (size - 40 - len(extra))
        extra = b""
    return (b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + info + extra + palette
            + body)


def tiff(samples, extra=None):
    """An uncompressed TIFF of R, G, B and perhaps alpha (`extra`: 1 multiplied into the colours, 2 not)."""
    height, width, channels = samples.shape
    data = samples.astype(samples.dtype.newbyteorder("<")).tobytes()
    entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, channels, 0), (259, 3, 1, 1),
               (262, 3, 1, 2), (273, 4, 1, 0), (277, 3, 1, channels), (278, 4, 1, height),
               (279, 4, 1, len(data))]
    if extra is not None:
        entries.append((338, 3, 1, extra))
    bits_at = 8 + 2 + 12 * len(entries) + 4
    values = {258: bits_at, 273: bits_at + 2 * channels}
    directory = b"".join(struct.pack("<HHII", tag, kind, count, values.get(tag, value))
                         for tag, kind, count, value in entries)
    bits = struct.pack("<H", samples.dtype.itemsize * 8) * channels
    return (b"II*\0" + struct.pack("<IH", 8, len(entries)) + directory + b"\0\0\0\0" + bits + data)


def save(name, image, **options):
    image.save(DATA / name, **options)
    return name


def write(name, content):
    (DATA / name).write_bytes(content)
    return name


def expected_rgb(name):
    """What a picture is to be decoded to."""
    image = Image.open(DATA / name)
    # Pillow turns TIFFs while it loads them.
    if image.format != "TIFF":
        image = ImageOps.exif_transpose(image)
    return np.asarray(image.convert("RGB"))


def ycck():
    """Four inks as Y, Cb, Cr, K. Pillow cannot write this, but the coded data of a CMYK file can be read
    so as well: only the transform in Adobe's marker says which it is."""
    ink = np.dstack([picture(), picture(channels=1) // 3])
    file = DATA / "temporary.jpg"
    Image.fromarray(ink, "CMYK").save(file, quality=92)
    content = bytearray(file.read_bytes())
    file.unlink()
    content[content.index(b"Adobe") + 11] = 2
    return bytes(content)


def jpegs():
    rgb = Image.fromarray(picture())
    for orientation in range(1, 9):
        yield save(f"exif_{orientation}.jpg", rgb, quality=90,
                   exif=b"Exif\0\0" + exif(orientation, "<" if orientation % 2 else ">"))
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        yield save(f"sampling_{name}.jpg", rgb, quality=85, subsampling=subsampling)
    yield save("progressive.jpg", rgb, quality=85, progressive=True)
    yield save("restarts.jpg", rgb, quality=85, restart_marker_blocks=1)
    yield save("grey.jpg", rgb.convert("L"), quality=85)
    yield save("rgb_colours.jpg", rgb, quality=90, keep_rgb=True)
    cmyk = np.dstack([picture(), picture(channels=1) // 3])
    yield save("cmyk.jpg", Image.fromarray(cmyk, "CMYK"), quality=92)
    yield write("ycck.jpg", ycck())


def pngs():
    rgb = picture()
    grey = picture(channels=1)
    image = Image.fromarray(rgb)
    yield save("rgb.png", image)
    yield save("grey.png", Image.fromarray(grey))
    yield save("palette.png", image.quantize(31))
    yield save("palette_4bit.png", image.quantize(13), bits=4)
    transparent = image.quantize(31)
    yield save("palette_transparent.png", transparent, transparency=bytes(range(0, 248, 8)))
    yield save("bits_1.png", Image.fromarray(grey).convert("1"))
    yield save("grey_alpha.png", Image.merge("LA", [Image.fromarray(grey), Image.fromarray(255 - grey)]))
    yield save("rgba.png", Image.merge("RGBA", [*image.split(), Image.fromarray(255 - grey)]))
    yield save("exif_5.png", image, exif=exif(5))
    yield save("exif_8.png", image, exif=exif(8, ">"))
    wide = rgb.astype(">u2") * 257 + np.arange(W, dtype=np.uint16)[None, :, None]
    yield write("rgb16.png", png(W, H, 16, 2, [r.astype(">u2").tobytes() for r in wide]))
    yield write("interlaced.png", interlaced(rgb, 2))
    yield write("interlaced16.png", interlaced(wide.astype(np.uint16), 2))
    key = chunk(b"tRNS", struct.pack(">HHH", *(int(v) for v in rgb[3, 4])))
    yield write("rgb_transparent_colour.png", png(W, H, 8, 2, [r.tobytes() for r in rgb], key))
    rows = [np.packbits(((r >> 6) & 3)[:, None] >> np.array([1, 0]) & 1).tobytes() for r in grey]
    yield write("bits_2.png", png(W, H, 2, 0, rows))
    behind = chunk(b"eXIf", exif(3))
    yield write("exif_behind_pixels_3.png", png(W, H, 8, 2, [r.tobytes() for r in rgb], b"", behind))
    frames = [image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    yield save("animated.png", frames[0], save_all=True, append_images=frames[1:])


def tiffs():
    rgb = picture()
    image = Image.fromarray(rgb)
    for orientation in range(1, 9):
        yield save(f"exif_{orientation}.tif", image, compression="raw", tiffinfo={274: orientation})
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield save(f"{compression}.tif", image, compression=compression)
    yield save("bits_1.tif", image.convert("1"), compression="group4")
    yield save("palette.tif", image.quantize(31))
    yield save("cmyk.tif", image.convert("CMYK"))
    alpha = Image.fromarray(255 - picture(channels=1))
    yield save("rgba.tif", Image.merge("RGBA", [*image.split(), alpha]))
    yield save("grey_alpha.tif", Image.merge("LA", [image.convert("L"), alpha]))
    yield write("rgb16.tif", tiff(rgb.astype(np.uint16) * 257 - rgb.astype(np.uint16)[..., ::-1] // 3))
    multiplied = rgb.astype(np.uint16) * (255 - rgb[..., :1]) // 255
    yield write("rgba_multiplied.tif", tiff(
        np.dstack([multiplied.astype(np.uint8), 255 - rgb[..., 0]]), extra=1))
    yield save("ycbcr.tif", image.convert("YCbCr"))
    big = Image.fromarray(picture(40, 50))
    big.save(DATA / "temporary.tif")
    for name, arguments in (("tiles", ["-t", "-w", "16", "-l", "16"]), ("planes", ["-p", "separate"]),
                            ("tiled_planes", ["-t", "-w", "16", "-l", "32", "-p", "separate"]),
                            ("bigtiff", ["-8"]), ("big_endian", ["-B"])):
        subprocess.run(["tiffcp", *arguments, DATA / "temporary.tif", DATA / f"{name}.tif"], check=True)
        yield f"{name}.tif"
    (DATA / "temporary.tif").unlink()
    yield save("pages.tif", image, save_all=True, append_images=[Image.new("RGB", (W, H))])


def bmps():
    rgb = picture()
    image = Image.fromarray(rgb)
    yield save("rgb.bmp", image)
    yield save("grey.bmp", image.convert("L"))
    yield save("palette.bmp", image.quantize(31))
    yield save("bits_1.bmp", image.convert("1"))
    r, g, b = (rgb[::-1, :, c].astype(np.uint32) for c in range(3))
    pad = b"\0" * (-2 * W % 4)
    p565 = (r >> 3) << 11 | (g >> 2) << 5 | b >> 3
    yield write("bits_565.bmp", bmp(W, H, 16, 3, (0xF800, 0x7E0, 0x1F),
                                    [row.astype("<u2").tobytes() + pad for row in p565]))
    p555 = (r >> 3) << 10 | (g >> 3) << 5 | b >> 3
    yield write("bits_555.bmp", bmp(W, H, 16, 0, (),
                                    [row.astype("<u2").tobytes() + pad for row in p555]))
    swapped = b << 16 | g << 8 | r
    # Pillow refuses these masks, so the values are stated.
    yield write("bits_bgr.bmp", bmp(W, H, 32, 3, (0xFF, 0xFF00, 0xFF0000),
                                    [row.astype("<u4").tobytes() for row in swapped], size=56)), rgb
    plain = r << 16 | g << 8 | b
    yield write("bits_32_top_down.bmp", bmp(W, H, 32, 0, (),
                                            [row.astype("<u4").tobytes() for row in plain[::-1]],
                                            top_down=True))
    palette = b"".join(bytes((255 - i * 9, i * 7, i * 11 % 256, 0)) for i in range(16))
    indexes = (np.add.outer(np.arange(H), np.arange(W) // 5) % 16).astype(np.uint8)
    rows = []
    for row in indexes:
        code = b""
        for start in range(0, W - 4, 5):
            code += bytes((5, row[start]))
        rest = bytes(row[W - 4:])
        rows.append(code + bytes((0, len(rest))) + rest + b"\0\0")
    yield write("rle8.bmp", bmp(W, H, 8, 1, (), rows[:-1] + [rows[-1][:-2] + b"\0\1"], palette))


def pnms():
    rgb = picture()
    yield save("rgb.ppm", Image.fromarray(rgb))
    yield save("grey.pgm", Image.fromarray(rgb[..., 0]))
    yield save("bitmap.pbm", Image.fromarray(rgb).convert("1"))
    text = f"P3\n# comment\n{W} {H}\n100\n" + "\n".join(str(int(v) * 100 // 255) for v in rgb.ravel())
    yield write("text_100.ppm", text.encode())
    wide = rgb.astype(np.uint32) * 4000 // 255
    yield write("max_4000.ppm", f"P6 {W} {H} 4000\n".encode() + wide.astype(">u2").tobytes())
    yield write("text.pbm", f"P1\n{W} {H}\n".encode() + b"".join(
        b"".join(b"1" if v < 128 else b"0" for v in row) + b"\n" for row in rgb[..., 0]))


def webps():
    rgb = picture()
    image = Image.fromarray(rgb)
    alpha = Image.fromarray(np.maximum(255 - rgb[..., 0], 1))
    yield save("lossy.webp", image, quality=80)
    yield save("lossless.webp", image, lossless=True)
    yield save("alpha_lossy.webp", Image.merge("RGBA", [*image.split(), alpha]), quality=80, exact=True)
    yield save("alpha_lossless.webp", Image.merge("RGBA", [*image.split(), alpha]), lossless=True,
               exact=True)
    yield save("exif_6.webp", image, lossless=True, exif=exif(6))
    frames = [image, image.transpose(Image.Transpose.ROTATE_180)]
    yield save("animated.webp", frames[0], save_all=True, append_images=frames[1:], lossless=True)
    yield save("animated_lossy.webp", frames[0], save_all=True, append_images=frames[1:], quality=70)


def bytes_of(seed, count):
    """The rule by which the tests make the same input: splitmix64, the top byte of each number."""
    with np.errstate(over="ignore"):
        z = (np.uint64(seed) << np.uint64(32)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(56)).astype(np.uint8)


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


RESIZES = [
    (640, 480, 320, 320), (480, 640, 320, 320), (320, 320, 640, 480), (320, 320, 320, 320),
    (1, 1, 7, 5), (7, 5, 1, 1), (1, 40, 1, 17), (40, 1, 17, 1), (1, 9, 30, 3), (9, 1, 3, 30),
    (33, 21, 64, 9), (21, 33, 9, 64), (100, 75, 101, 74), (97, 131, 320, 320), (641, 479, 320, 320),
    (256, 192, 1920, 1440), (1242, 375, 320, 320), (3, 2, 320, 320), (2000, 3, 17, 320),
    (127, 127, 128, 128), (128, 128, 127, 127), (50, 60, 50, 61), (50, 60, 49, 60),
]


def bilinear(image, size):
    """Along the rows first, then along the columns, as Pillow up to 12 always does. (Pillow 13 turns the
    order round where the height shrinks much more than the width; a step along one axis is the same.)
    """
    return image.resize((size[0], image.height), Image.Resampling.BILINEAR).resize(
        size, Image.Resampling.BILINEAR)


def resizes():
    """Check sums of Pillow's results on inputs that both sides make from a rule."""
    random = np.random.default_rng(3)
    sizes = RESIZES + [tuple(int(v) for v in random.integers(1, 200, 4)) for _ in range(60)]
    for seed, (width, height, new_width, new_height) in enumerate(sizes):
        for channels in (1, 3):
            values = bytes_of(seed, width * height * channels).reshape(height, width, channels)
            image = Image.fromarray(values.squeeze(-1) if channels == 1 else values)
            size = (new_width, new_height)
            yield (seed, channels, width, height, new_width, new_height,
                   crc(np.asarray(bilinear(image, size))),
                   crc(np.asarray(image.resize(size, Image.Resampling.NEAREST))),
                   crc(np.asarray(image.convert("L"))))


def golden_values():
    """Check sums of the reference's own pre-processing on the real pairs, where those are at hand."""
    pairs = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "pairs"
    size = (320, 320)
    for file in sorted((pairs / "golden").glob("*.jpg")):
        rgb = bilinear(Image.open(file).convert("RGB"), size)
        depth = bilinear(Image.open(file.with_suffix(".png")).convert("L"), size)
        yield f"golden/{file.name}", crc(np.asarray(rgb))
        yield f"golden/{file.stem}.png", crc(np.asarray(depth))
    for file in sorted((pairs / "nlpr16" / "depth").glob("*.png")):
        values = np.asarray(Image.open(file)).astype(np.float64)
        least, most = values.min(), values.max()
        yield f"nlpr16/depth/{file.name}", crc(
            np.round(255 * (values - least) / (most - least)).astype(np.uint8))


def normalised_levels():
    """What torchvision's ToTensor and Normalize make of every byte, in float32."""
    unit = np.arange(256, dtype=np.float32) / np.float32(255)
    for mean, deviation in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225), (0, 1)):
        yield ((unit - np.float32(mean)) / np.float32(deviation)).astype("<f4")


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    names = [n for make in (jpegs, pngs, tiffs, bmps, pnms, webps) for n in make()]
    # All expected pixels in one file, in the order of the table.
    with open(DATA / "pictures.csv", "w", newline="") as file, open(DATA / "pictures.rgb", "wb") as pixels:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file", "width", "height", "tolerance"])
        for item in names:
            name, rgb = item if isinstance(item, tuple) else (item, expected_rgb(item))
            table.writerow((name, rgb.shape[1], rgb.shape[0], TOLERANCES.get(name, 0)))
            pixels.write(rgb.tobytes())
    with open(DATA / "resize.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["seed", "channels", "width", "height", "new_width", "new_height",
                        "bilinear_crc32", "nearest_crc32", "grey_crc32"])
        table.writerows(resizes())
    with open(DATA / "golden.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file", "crc32"])
        table.writerows(golden_values())
    (DATA / "levels.f32").write_bytes(b"".join(levels.tobytes() for levels in normalised_levels()))


if __name__ == "__main__":
    main()

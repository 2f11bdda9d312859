"""Makes the fuzzers' first inputs: FOLDER/config, image, pairing and weights."""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 16000  # bytes; large inputs are slow and hold no more structure

PAIRINGS = {
    "plain": "\n\n\n\n\nra.jpg\nrb.png\nda.png\ndb.png\n",
    "suffixes": "\n\n_rgb\n_Depth\n\nr1_rgb.jpg\nr2_rgb.jpg\nd1_Depth.png\nd3_Depth.png\n",
    "globs": "*.jpg\n*/d*.png\n\n\no\nrs/a.jpg\nrs/da.png\nrt/b.jpg\n",
    "list": "\n\n\n\nr\nr/data/set/rgb/s1/0001.jpg\nds1/0001.png\nd0001.png\n",
    "both": "\n\n\n\nrd\nrx/y/1.jpg\ndz/y/1.png\n\n# note\nr\n",
    "double": "rgb/a.jpg depth/a.png\nrgb/b.jpg\tdepth/b.png\nrgb/c.jpg,depth/c.png\r\n",
    "bom": "\ufeffrgb/a.jpg;depth/a.png\r\n# comment\r\n\r\n",
    "collision": "\n\n\n\n\nra.jpg\nra.png\nda.png\nda.tif\n",
}

CONFIGS = {
    "values": "batch: auto\nsize: 320x240\nsave: [map, overlay]\ndepth-range: 1:5.5\nshard: 1/3\n",
    "quotes": "rgb: \"a \\\"b\\\" \\u00e4\"\ndepth: 'it''s'\nthreshold: otsu\nquiet: true\n",
    "wrong": "upsmaple: nearest\n",
    "types": "batch: [1]\nsave: {a: b}\nsize: ~\n",
    "anchors": "rgb: &a x\ndepth: *a\n<<: {out: y}\n",
    "folded": "rgb: >-\n  a\n  b\ndepth: |\n  c\n---\nout: d\n",
}


def write(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def images(folder: Path) -> None:
    for file in sorted((ROOT / "tests/data/image").iterdir()):
        if file.suffix not in (".csv", ".rgb", ".f32") and file.stat().st_size <= LARGEST:
            write(folder, file.name, file.read_bytes())
    rgb = Image.fromarray(np.arange(16 * 12 * 3, dtype=np.uint8).reshape(12, 16, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, picture, options in (
        ("rgb.jpg", rgb, {"quality": 80, "exif": exif}),
        ("progressive.jpg", rgb, {"progressive": True}),
        ("cmyk.jpg", rgb.convert("CMYK"), {}),
        ("rgb.png", rgb, {"exif": exif}),
        ("palette.png", rgb.quantize(7), {"transparency": 2}),
        ("alpha.png", rgb.convert("LA"), {}),
        ("bits.png", rgb.convert("1"), {}),
        ("depth16.png", Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16)), {}),
        ("float.tif", Image.fromarray(np.ones((6, 5), dtype=np.float32)), {}),
    ):
        stream = io.BytesIO()
        picture.save(stream, {"jpg": "JPEG", "png": "PNG", "tif": "TIFF"}[name[-3:]], **options)
        write(folder, name, stream.getvalue())
    write(folder, "depth.pfm", b"Pf\n2 2\n-1.0\n" + np.ones(4, dtype="<f4").tobytes())
    write(folder, "text.pgm", b"P2 # a note\n2 2\n255\n0 1 2 3\n")
    stream = io.BytesIO()
    np.save(stream, np.ones((3, 4), dtype=np.float16))
    write(folder, "half.npy", stream.getvalue())


def weights(folder: Path) -> None:
    write(folder, "pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    write(folder, "zip", b"PK\x03\x04 cut")
    write(folder, "long_text", b"P\x80\x02X\xf0\xff\xff\xfftext.")
    write(folder, "memo", b"P\x80\x02)r\xf0\xff\xff\x7f.")
    write(folder, "nested", b"P\x80\x02)" + 100 * b"\x85" + b".")
    try:
        import torch
    except ImportError:
        return  # the tests that need archives are not built then, either

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(1, 1, 1)
            self.register_buffer("scale", torch.ones(1, dtype=torch.float16))

        def forward(self, x):
            return self.layer(x) * self.scale

    stream = io.BytesIO()
    torch.jit.save(torch.jit.script(Small()), stream)
    with zipfile.ZipFile(stream) as archive:
        for name in archive.namelist():
            if name.endswith("/data.pkl"):
                write(folder, "pickle", b"P" + archive.read(name))
    if len(stream.getvalue()) <= LARGEST:
        write(folder, "archive.pt", stream.getvalue())
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2)}, stream)
    write(folder, "state_dict.pt", stream.getvalue())


def main() -> None:
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    images(target / "image")
    for name, text in PAIRINGS.items():
        write(target / "pairing", name, text.encode())
    for name, text in CONFIGS.items():
        write(target / "config", name, text.encode())
    for file in (ROOT / "configs").glob("*.yaml"):
        write(target / "config", file.name, file.read_bytes())
    weights(target / "weights")


if __name__ == "__main__":
    main()

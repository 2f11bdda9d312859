"""libhdfnet.so from Python with ctypes: needs NumPy, and neither PyTorch nor a compiled module.

    import hdfnet
    predictor = hdfnet.Predictor(device="cpu")
    saliency = predictor(rgb, depth)     # (H,W,3) uint8 and (H,W) uint8, uint16 or float32

As a program (needs Pillow): hdfnet.py RGB DEPTH MAP.png [SETTING=VALUE...]

The library is the one that HDFNET_LIBRARY names, else the one of the installation that this file lies in,
else what the system's loader finds. In a process that also imports torch, both use one LibTorch, so its
version must be the one that the library was built with.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import numpy as np


def _library() -> ctypes.CDLL:
    name = os.environ.get("HDFNET_LIBRARY", "libhdfnet.so")
    if name == "libhdfnet.so":  # PREFIX/share/hdfnet/examples/python/hdfnet.py
        prefix = Path(__file__).resolve().parents[min(4, len(Path(__file__).resolve().parents) - 1)]
        name = next((str(file) for file in prefix.glob("lib*/**/libhdfnet.so")), name)
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise OSError(
            f"libhdfnet.so cannot be loaded ({error}). Set HDFNET_LIBRARY to the file; libhdfnet_ops.so must "
            "lie beside it, and LibTorch where it was installed with or in LD_LIBRARY_PATH."
        ) from None


class _Image(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("width", ctypes.c_int32),
        ("height", ctypes.c_int32),
        ("stride", ctypes.c_size_t),
        ("pixels", ctypes.c_int32),
    ]


_RGB8 = 0
_GREY = {"uint8": 2, "uint16": 3, "float32": 4}

_lib = _library()
_lib.hdfnet_last_error.restype = ctypes.c_char_p
_lib.hdfnet_version.restype = ctypes.c_char_p
_lib.hdfnet_settings_create.restype = ctypes.c_void_p
_lib.hdfnet_settings_destroy.argtypes = [ctypes.c_void_p]
_lib.hdfnet_settings_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
_lib.hdfnet_predictor_create.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
_lib.hdfnet_predictor_destroy.argtypes = [ctypes.c_void_p]
_lib.hdfnet_predict.argtypes = [ctypes.c_void_p] + 3 * [ctypes.POINTER(_Image)]


class Error(RuntimeError):
    """`status` is the number of hdfnet_status."""

    def __init__(self, status: int) -> None:
        super().__init__(_lib.hdfnet_last_error().decode())
        self.status = status


def _check(status: int) -> None:
    if status != 0:
        raise Error(status)


def _image(array: np.ndarray, pixels: int) -> _Image:
    height, width = array.shape[:2]
    return _Image(array.ctypes.data, width, height, array.strides[0], pixels)


class Predictor:
    """Settings by the names of hdfnet-infer's options, with _ for -: depth_range="500:4000"."""

    def __init__(self, **settings: object) -> None:
        self._handle = ctypes.c_void_p()
        given = _lib.hdfnet_settings_create()
        try:
            for name, value in settings.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                _check(_lib.hdfnet_settings_set(given, name.replace("_", "-").encode(), text.encode()))
            _check(_lib.hdfnet_predictor_create(given, ctypes.byref(self._handle)))
        finally:
            _lib.hdfnet_settings_destroy(given)

    def __del__(self) -> None:
        _lib.hdfnet_predictor_destroy(self._handle)

    def __call__(self, rgb: np.ndarray, depth: np.ndarray, size=None, dtype="uint8") -> np.ndarray:
        """The map, of the RGB's size or of `size` (width, height), as uint8, uint16 or float32."""
        rgb = np.ascontiguousarray(rgb)
        depth = np.ascontiguousarray(depth)
        if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or not rgb.size:
            raise ValueError(f"rgb: expected (H, W, 3) of uint8, found {rgb.shape} {rgb.dtype}")
        if depth.ndim != 2 or depth.dtype.name not in _GREY:
            raise ValueError(
                f"depth: expected (H, W) of {', '.join(_GREY)}, found {depth.shape} {depth.dtype}"
            )
        width, height = size or (rgb.shape[1], rgb.shape[0])
        saliency = np.empty((height, width), dtype)
        images = (
            _image(rgb, _RGB8),
            _image(depth, _GREY[depth.dtype.name]),
            _image(saliency, _GREY[saliency.dtype.name]),
        )
        _check(_lib.hdfnet_predict(self._handle, *(ctypes.byref(image) for image in images)))
        return saliency


def main() -> int:
    from PIL import Image

    if len(sys.argv) < 4:
        print("usage: hdfnet.py RGB DEPTH MAP.png [SETTING=VALUE...]", file=sys.stderr)
        return 2
    try:
        predictor = Predictor(**dict(setting.split("=", 1) for setting in sys.argv[4:]))
        rgb = np.asarray(Image.open(sys.argv[1]).convert("RGB"))
        depth = np.asarray(Image.open(sys.argv[2]))
        if depth.dtype == np.int32:  # some versions of Pillow open 16 bits so
            depth = depth.astype(np.uint16)
        Image.fromarray(predictor(rgb, depth)).save(sys.argv[3])
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

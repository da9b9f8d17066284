"""Codecs that packages besides numcodecs decode, and that zarr-python 2 could use; none is written here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_IMAGES: Final = ("jpeg", "jpeg2k", "jpegls", "jpegxl", "lerc", "png", "tiff", "webp", "zfp")
_BYTES: Final = (
    *("blosc", "blosc2", "brotli", "bz2", "deflate", "delta", "lz4", "lz4f", "lzf", "lzfse", "lzma", "lzw"),
    *("packbits", "snappy", "zlib", "zlibng", "zopfli", "zstd"),
)
IMAGECODECS: Final = frozenset(f"imagecodecs_{name}" for name in (*_IMAGES, *_BYTES))
"""Ids that imagecodecs registers with numcodecs (imagecodecs 2024.12.30), as far as they are decoded here.

tifffile writes `imagecodecs_tiff` into references to TIFF files; imagecodecs encodes it since 2026.

JPEG XR is not: its decoder ends the process on some damaged chunks (imagecodecs 2026.3.6 and 2026.10.10).
"""

PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numcodecs.pcodec": "pcodec",
        "numcodecs.zfpy": "zfpy",
        **dict.fromkeys(sorted(IMAGECODECS), "imagecodecs"),
    }
)
"""Name in our chains -> package that decodes it."""

ARRAY_TO_BYTES_IN_V3: Final = frozenset({"numcodecs.pcodec", "numcodecs.zfpy"})
"""Those that zarr-python 3 reads, in place of `bytes`, if their package is installed.

Observed with zarr-python 3.1.6 and 3.4.2, zfpy 1.0.1 and pcodec 1.1.0; no register lists them, and
tensorstore 0.1.86 does not know them.
"""

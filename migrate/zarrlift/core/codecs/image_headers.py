"""Sizes of images by their headers, read before a decoder believes them.

Formats: JPEG and JPEG-LS, ITU-T T.81 B.2.2 and T.87 C.2; JPEG 2000, T.800 A.5.1 and its boxes, I.4; JPEG XL,
ISO/IEC 18181-1 D.2 and 18181-2; PNG, https://www.w3.org/TR/png-3/ 11.2.1; WebP,
https://developers.google.com/speed/webp/docs/riff_container; LERC, https://github.com/Esri/lerc, Lerc2.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

_CHANNELS: Final = {0: 1, 2: 3, 4: 2, 6: 4}
"""PNG's colour types without a palette -> channels."""
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xDA)})
"""JPEG's markers without a segment."""
_FRAMES: Final = frozenset({*range(0xC0, 0xD0), 0xF7}) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers of a frame, and JPEG-LS's."""
_RATIOS: Final = ((1, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""JPEG XL's ratios of width to height, by number; the first is not used."""


def _jpeg(data: bytes) -> int | None:
    if data[:2] != b"\xff\xd8" or b"\xff\xd9" not in data[-64:]:
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _ALONE or marker == 0xFF:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            depth, height, width, components = struct.unpack_from(">BHHB", data, at + 4)
            return int(width * height * components * (1 if depth <= 8 else 2))
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The boxes of a container: name and content."""
    at = 0
    while at + 8 <= len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        start = at + 8
        if size == 1:
            size, start = int.from_bytes(data[start : start + 8], "big"), start + 8
        end = len(data) if size == 0 else at + size
        if end < start or end > len(data):
            return
        yield name, data[start:end]
        at = end


def _jpeg2000(data: bytes) -> int | None:
    if data[4:8] == b"jP  ":
        data = next((content for name, content in _boxes(data) if name == b"jp2c"), b"")
    if data[:4] != b"\xff\x4f\xff\x51" or b"\xff\xd9" not in data[-64:]:
        return None
    right, bottom, left, top = struct.unpack_from(">4I", data, 8)
    components = int.from_bytes(data[40:42], "big")
    depth = max((depth & 0x7F) + 1 for depth in data[42 : 42 + 3 * components : 3] or b"\0")
    return int((right - left) * (bottom - top) * components * (1 if depth <= 8 else 2 if depth <= 16 else 4))


class _Bits:
    """Bits of a JPEG XL header, lowest first."""

    def __init__(self, data: bytes) -> None:
        self._bits = int.from_bytes(data, "little")

    def take(self, count: int) -> int:
        """The next bits as a number."""
        value = self._bits & (1 << count) - 1
        self._bits >>= count
        return value


def _jpegxl(data: bytes) -> int | None:
    if data[4:8] == b"JXL ":
        parts = [c if n == b"jxlc" else c[4:] for n, c in _boxes(data) if n in (b"jxlc", b"jxlp")]
        data = parts[0] if parts else b""
    if data[:2] != b"\xff\x0a" or len(data) < 12:
        return None
    bits = _Bits(data[2:12])
    small = bits.take(1)

    def length() -> int:
        return (bits.take(5) + 1) * 8 if small else bits.take((9, 13, 18, 30)[bits.take(2)]) + 1

    height = length()
    ratio = bits.take(3)
    width = length() if ratio == 0 else height * _RATIOS[ratio][0] // _RATIOS[ratio][1]
    return width * height


def _png(data: bytes) -> int | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or b"IEND" not in data[-64:]:
        return None
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    channels = _CHANNELS.get(colour)
    return None if channels is None else int(width * height * channels * (1 if depth <= 8 else 2))


def _webp(data: bytes) -> int | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or int.from_bytes(data[4:8], "little") + 8 > len(data):
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 ":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    else:
        return None
    return width * height * 3


def _lerc(data: bytes) -> int | None:
    if data[:6] != b"Lerc2 " or len(data) < 42:
        return None
    version = int.from_bytes(data[6:10], "little")
    numbers = struct.unpack_from("<8i", data, 10 if version < 3 else 14)
    height, width = numbers[:2]
    depth = numbers[2] if version >= 4 else 1
    size = numbers[5 if version >= 4 else 4]
    if min(height, width, depth) < 0 or not 0 < size <= len(data):
        return None
    return int(height * width * depth)


LEAST_BYTES: Final[Mapping[str, Callable[[bytes], int | None]]] = {
    "jpeg": _jpeg,
    "jpeg2k": _jpeg2000,
    "jpegls": _jpeg,
    "jpegxl": _jpegxl,
    "lerc": _lerc,
    "png": _png,
    "webp": _webp,
}
"""Format -> bytes that an image has at least once it is decoded; None if its header or its end is missing."""

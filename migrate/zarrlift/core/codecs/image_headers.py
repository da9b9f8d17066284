"""Sizes of images by their headers, and by the directories of TIFF, read before a decoder believes them.

Formats: JPEG and JPEG-LS, ITU-T T.81 B.2.2 and T.87 C.2; JPEG 2000, T.800 A.5.1 and its boxes, I.4; JPEG XL,
ISO/IEC 18181-1 D.2 and 18181-2; PNG, https://www.w3.org/TR/png-3/ 11.2.1; WebP,
https://developers.google.com/speed/webp/docs/riff_container; LERC, https://github.com/Esri/lerc, Lerc2.h;
TIFF 6.0, part 1 section 2; BigTIFF, https://libtiff.gitlab.io/libtiff/specification/bigtiff.html; the depth
of an image or a tile (tags 32997 and 32998) is SGI's extension, which libtiff's `tiff.h` has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

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


WIDTH: Final = 256
LENGTH: Final = 257
BITS: Final = 258
SAMPLES: Final = 277
TILE_WIDTH: Final = 322
TILE_LENGTH: Final = 323
DEPTHS: Final = (32997, 32998)
ROWS: Final = 278
PLANAR: Final = 284
PARTS: Final = (273, 279, 324, 325)
"""Offsets and sizes of strips, and of tiles."""
_READ: Final = frozenset(
    {WIDTH, LENGTH, BITS, SAMPLES, ROWS, PLANAR, TILE_WIDTH, TILE_LENGTH, *PARTS, *DEPTHS}
)
_SEPARATE: Final = 2
"""Each sample has its own strips or tiles."""
_TYPES: Final = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""Types of unsigned numbers: bytes, shorts, longs, and BigTIFF's."""
_SMALL_TILE: Final = 64 << 20
"""Bytes of a tile that may be larger than its image: a decoder needs memory for a whole tile."""

Tags = Mapping[int, int]
"""Tag -> its first number; for `PARTS` how many there are."""


class _Form(NamedTuple):
    """The numbers of a file: byte order, format of an offset, of the number of entries; bytes of an entry."""

    order: str
    offset: str
    number: str
    entry: int
    value: int
    """Where the value is in an entry."""


def tiff_bytes(data: bytes, index: int | None) -> int | None:
    """Bytes that a decoder makes at least of the image `index`, or of all that have the first one's size.

    None if the file, one of its directories or such an image is not whole: a missing part becomes black where
    libtiff converts colours. Also None if an image has a depth: libtiff reads one of its planes, and
    imagecodecs returns the others as they are in memory.
    """
    form = _form(data)
    if form is None:
        return None
    images: list[Tags] = []
    try:
        images.extend(_directories(data, form))
    except (struct.error, ValueError, OverflowError):
        return None
    wanted = images if index is None else images[index : index + 1]
    if not wanted or not all(_pixels(wanted[0])):
        return None
    if any(tags.get(tag, 1) > 1 for tags in wanted for tag in DEPTHS):
        return None
    if not all(map(_has_all_parts, wanted)):
        return None
    same = [tags for tags in wanted if _pixels(tags) == _pixels(wanted[0])]
    tiles = max(_tile(tags) for tags in wanted)
    return max(sum(map(_bytes, same)), tiles if tiles > _SMALL_TILE else 0)


def _form(data: bytes) -> _Form | None:
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or len(data) < 8:
        return None
    version = int.from_bytes(data[2:4], "little" if order == "<" else "big")
    if version == 43:
        return _Form(order, "Q", "Q", 20, 12)
    return _Form(order, "I", "H", 12, 8) if version == 42 else None


def _directories(data: bytes, form: _Form) -> Iterator[Tags]:
    """The tags of each directory; struct.error for a file that is cut short, ValueError if some overlap."""
    (at,) = struct.unpack_from(form.order + form.offset, data, 8 if form.offset == "Q" else 4)
    seen: set[int] = set()
    entries = 0
    while at and at not in seen:
        seen.add(at)
        (count,) = struct.unpack_from(form.order + form.number, data, at)
        at += struct.calcsize(form.number)
        entries += count
        if entries * form.entry > len(data):
            raise ValueError("more entries than the file can hold")
        tags = dict(_tags(data, form, at, count))
        entries += sum(tags.get(tag, 0) for tag in PARTS) // 4
        yield tags
        (at,) = struct.unpack_from(form.order + form.offset, data, at + count * form.entry)


def _tags(data: bytes, form: _Form, at: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(at, at + count * form.entry, form.entry):
        tag, kind, values = struct.unpack_from(f"{form.order}HH{form.offset}", data, start)
        if tag not in _READ or kind not in _TYPES or not values:
            continue
        size = struct.calcsize(_TYPES[kind])
        inside = values * size <= struct.calcsize(form.offset)
        place = start + form.value
        if not inside:
            (place,) = struct.unpack_from(form.order + form.offset, data, place)
        if tag in PARTS:
            if place + values * size > len(data):
                raise ValueError("more parts than the file can hold")
            numbers = np.frombuffer(data, f"{form.order}u{size}", values, place)
            if not numbers.all():
                raise ValueError("a part is missing")
            yield tag, values
        else:
            yield tag, struct.unpack_from(form.order + _TYPES[kind], data, place)[0]


def _pixels(tags: Tags) -> tuple[int, int]:
    return tags.get(WIDTH, 0), tags.get(LENGTH, 0)


def _has_all_parts(tags: Tags) -> bool:
    width, length = _pixels(tags)
    if TILE_WIDTH in tags:
        across, down = tags[TILE_WIDTH], tags.get(TILE_LENGTH, 0)
        offsets, sizes = PARTS[2:]
    else:
        across, down = width, tags.get(ROWS, length)
        offsets, sizes = PARTS[:2]
    if not across or not down:
        return False
    parts = -(-width // across) * -(-length // down)
    if tags.get(PLANAR) == _SEPARATE:
        parts *= tags.get(SAMPLES, 1)
    return tags.get(offsets, 0) >= parts and tags.get(sizes, parts) >= parts


def _sample(tags: Tags) -> int:
    """Bytes of a pixel, at least."""
    return tags.get(SAMPLES, 1) * max(1, tags.get(BITS, 1) // 8)


def _bytes(tags: Tags) -> int:
    return tags.get(WIDTH, 0) * tags.get(LENGTH, 0) * _sample(tags)


def _tile(tags: Tags) -> int:
    return tags.get(TILE_WIDTH, 0) * tags.get(TILE_LENGTH, 0) * _sample(tags)

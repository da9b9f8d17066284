"""What the directories of a TIFF file state, read before libtiff believes them.

libtiff needs memory for a whole tile, also if the image is smaller, and leaves parts black that are missing.
TIFF 6.0, part 1 section 2; BigTIFF, https://libtiff.gitlab.io/libtiff/specification/bigtiff.html; the depth
of an image or a tile (tags 32997 and 32998) is SGI's extension, which libtiff's `tiff.h` has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

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

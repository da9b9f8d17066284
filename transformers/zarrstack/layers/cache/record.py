"""What is cached of a key, and the record format of the disk tier.

A record has a head, checksums and a value, little-endian:

    offset  0  b"zsc3"                  4 bytes
            4  crc32c of the rest of the head and of the checksums
            8  length of the value      uint64   2**64 - 1: the key is missing in the store
           16  stored                   float64  seconds, by the cache's clock, when the fetch began
           24  stamp                    uint64   versions.py
           32  tier                     16 bytes identity of the tier that wrote it
           48  what                     16 bytes digest of the source, the key and the part
           64  crc32c of each block of 64 KiB of the value, uint32
               the value

The layout is version 5 of this project (`folder_control.VERSION`). A record is accepted only if lengths,
checksums, tier and digest all match: a torn or corrupted file reads as missing. For a part of a value, only
the blocks that contain it are read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from ...core.crc32c import crc32c

HEAD: Final = struct.Struct("<4sIQdQ16s16s")
MAGIC: Final = b"zsc3"
MISSING: Final = 2**64 - 1
BLOCK: Final = 2**16
"""Bytes of a value with a checksum of their own."""
_CHECKED_FROM: Final = 8

Part: TypeAlias = tuple[int, int | None] | None
"""Part of a value as the bounds of a slice; None for all of it."""
ODD: Final = (0, 0)
"""A range that stores answer differently (empty, negative, or of an unknown type): never cached."""


class CachedValue(NamedTuple):
    """A cached value or a cached absence."""

    data: bytes | memoryview | None
    """The bytes, read-only; None if the key is missing in the store."""
    stored: float
    """When its fetch began, in seconds by the cache's clock."""
    stamp: int
    """Stamp of its path before the fetch (versions.py)."""

    @property
    def size(self) -> int:
        """Length of the value in bytes; 0 if the key is missing."""
        return 0 if self.data is None else len(self.data)


def digest_of(source: str, key: str, part: Part) -> bytes:
    """What identifies a record; no two have the same text, since only keys may contain NUL."""
    span = "" if part is None else f"{part[0]}:{part[1]}"
    text = f"{source}\0{span}\0{key}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


class DamagedRecordError(Exception):
    """A record is damaged, or belongs to another tier or key."""


def record_head(digest: bytes, cached: CachedValue, tier: bytes) -> bytes:
    """Head and checksums of a record; the value follows unchanged."""
    length = MISSING if cached.data is None else len(cached.data)
    head = HEAD.pack(MAGIC, 0, length, cached.stored, cached.stamp, tier, digest)
    checked = head[_CHECKED_FROM:] + _checksums(cached.data or b"")
    return MAGIC + crc32c(checked).to_bytes(4, "little") + checked


def _checksums(data: bytes | memoryview) -> bytes:
    """The checksum of each block, in order."""
    view = memoryview(data)
    blocks = (view[start : start + BLOCK] for start in range(0, len(view), BLOCK))
    return b"".join(crc32c(block).to_bytes(4, "little") for block in blocks)


def read_record(
    read: Callable[[int, int], bytes], size: int, digest: bytes, tier: bytes, part: Part
) -> CachedValue | None:
    """Parse a record of this size, of which `read` returns so many bytes from an offset on.

    None if `part` is one that stores answer differently for this value. DamagedRecordError if what is read is
    damaged, or belongs to another tier or key.
    """
    start = HEAD.size + 4 * max(0, -(-(size - HEAD.size) // (BLOCK + 4)))
    head = memoryview(read(size if part is None else start, 0))
    if len(head) < start:
        raise DamagedRecordError
    magic, code, length, stored, stamp, *whose = HEAD.unpack_from(head)
    found = 0 if length == MISSING else length
    if magic != MAGIC or whose != [tier, digest] or start + found != size:
        raise DamagedRecordError
    if crc32c(head[_CHECKED_FROM:start]) != code:
        raise DamagedRecordError
    if length == MISSING:
        return CachedValue(data=None, stored=stored, stamp=stamp)
    if (span := span_of(part, length)) is None:
        return None
    first, last = span[0] // BLOCK, -(-span[1] // BLOCK)
    begin = first * BLOCK
    data = head[start:] if part is None else read(min(last * BLOCK, length) - begin, start + begin)
    if _checksums(data) != head[HEAD.size :][4 * first : 4 * last]:
        raise DamagedRecordError
    # Of a part, a copy: the blocks around it are not kept.
    return CachedValue(data=data[span[0] - begin : span[1] - begin], stored=stored, stamp=stamp)


def part_of(request: ByteRequest) -> Part:
    """Normalise a byte range; ODD if stores answer it differently."""
    if type(request) is RangeByteRequest and 0 <= request.start < request.end:
        return request.start, request.end
    if type(request) is OffsetByteRequest and request.offset >= 0:
        return request.offset, None
    if type(request) is SuffixByteRequest and request.suffix > 0:
        return -request.suffix, None
    return ODD


def slice_value(cached: CachedValue, part: Part) -> CachedValue | None:
    """Cut a part out of a whole value; None if stores answer it differently."""
    if part is None or cached.data is None:
        return cached
    if (span := span_of(part, len(cached.data))) is None:
        return None
    return cached._replace(data=memoryview(cached.data)[slice(*span)])


def span_of(part: Part, length: int) -> tuple[int, int] | None:
    """First byte and end of a part of a value of this length; None if stores answer it differently."""
    if part is None:
        return 0, length
    first, last, _ = slice(*part).indices(length)
    return (first, last) if first < last else None

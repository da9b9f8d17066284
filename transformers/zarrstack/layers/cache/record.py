"""What is cached of a key, and the record format of the disk tier.

Listings are cached like byte ranges: as parts of the key or prefix that was asked for. What validates them
are the slots of `Versions.listing`. A record has a header, an identity, checksums and a value:

    offset  0  b"zsc2"                  4 bytes
            4  crc32c of what follows, without the value
            8  length of the identity   uint32
           12  flags                    uint32   1: the key is missing in the store
           16  length of the value      uint64
           24  stored                   float64  seconds, by the cache's clock, when the fetch began
           32  stamp                    uint64   versions.py
           40  tier                     16 bytes identity of the tier that wrote it
           56  the identity
               crc32c of each block of 64 KiB of the value, uint32
               the value

Little-endian throughout. The layout is version 4 of this project (`folder_control.VERSION`). A record is
accepted only if lengths, checksums, tier and identity all match: a torn or corrupted file reads as missing.
For a part of a value, only the blocks that contain it are read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from ...core.crc32c import crc32c
from .versions import VersionedPath, Versions

HEAD: Final = struct.Struct("<4sIIIQdQ16s")
MAGIC: Final = b"zsc2"
MISSING: Final = 1
BLOCK: Final = 2**16
"""Bytes of a value with a checksum of their own."""
_CHECKED_FROM: Final = 8

Part: TypeAlias = tuple[str, int, int] | None
"""Part of a value: None for all of it, ("r", start, end), ("o", offset, 0) or ("s", length, 0)."""
ODD: Final = ("?", 0, 0)
"""A range that stores answer differently (empty, negative, or of an unknown type): never cached."""
FOLDER: Final[Part] = ("folder", 0, 0)
"""The names directly below a path, each followed by NUL."""
PREFIX: Final[Part] = ("prefix", 0, 0)
"""The keys with a prefix, each followed by NUL."""
EMPTY: Final[Part] = ("empty", 0, 0)
"""Whether nothing exists below a path: YES or NO."""
EXISTS: Final[Part] = ("exists", 0, 0)
"""YES: the key has a value. A missing key is cached as such."""
YES: Final = b"1"
NO: Final = b"0"

_WHOLE: Final = (None,)
_RANGES: Final = frozenset("ros?")


class CachedValue(NamedTuple):
    """A cached value or a cached absence."""

    data: bytes | memoryview | None
    """The bytes, read-only; None if the key is missing in the store."""
    stored: float
    """When its fetch began, in seconds by the cache's clock."""
    stamp: int
    """Stamp of its path before the fetch (versions.py); -1 if a change was in progress."""

    @property
    def size(self) -> int:
        """Length of the value in bytes; 0 if the key is missing."""
        return 0 if self.data is None else len(self.data)


def identity(source: str, key: str, part: Part) -> bytes:
    """Unambiguous identity of a record: neither ranges ("", "r10-20", "o5", "s7") nor keys contain NUL."""
    if part is None:
        span = ""
    else:
        kind, first, second = part
        span = f"{kind}{first}-{second}" if kind == "r" else f"{kind}{first}"
    return f"{source}\0{span}\0{key}".encode("utf-8", "surrogatepass")


def is_below(ident: bytes, source: str, path: str) -> bool:
    """Whether an identity is of this source and of the key `path`, or one below it; "" for all of them."""
    its_source, _, rest = ident.partition(b"\0")
    key = rest.partition(b"\0")[2]
    folder = path.encode("utf-8", "surrogatepass")
    same_source = its_source == source.encode("utf-8", "surrogatepass")
    return same_source and (not path or key == folder or key.startswith(folder + b"/"))


def identity_in(head: bytes) -> bytes | None:
    """The identity in the first bytes of a record; None if they are not one, or too few."""
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        return None
    stop = HEAD.size + HEAD.unpack_from(head)[2]
    return head[HEAD.size : stop] if len(head) >= stop else None


def name(ident: bytes) -> str:
    """File name of a record, 32 hexadecimal digits."""
    return hashlib.blake2b(ident, digest_size=16).hexdigest()


class DamagedRecordError(Exception):
    """A record is damaged, or belongs to another tier or key."""


def record_head(ident: bytes, cached: CachedValue, tier: bytes) -> bytes:
    """Header, identity and checksums of a record; the value follows unchanged."""
    flags = MISSING if cached.data is None else 0
    head = HEAD.pack(MAGIC, 0, len(ident), flags, cached.size, cached.stored, cached.stamp, tier)
    checked = head[_CHECKED_FROM:] + ident + _checksums(b"" if cached.data is None else cached.data)
    return MAGIC + crc32c(checked).to_bytes(4, "little") + checked


def _checksums(data: bytes | memoryview) -> bytes:
    """The checksum of each block, in order."""
    view = memoryview(data)
    blocks = (view[start : start + BLOCK] for start in range(0, len(view), BLOCK))
    return b"".join(crc32c(block).to_bytes(4, "little") for block in blocks)


def read_record(file: BinaryIO, ident: bytes, tier: bytes, part: Part = None) -> CachedValue | None:
    """Read a record, or a part of its value; None for a part that stores answer differently.

    DamagedRecordError if what is read is damaged, or belongs to another tier or key.
    """
    head = file.read(HEAD.size + len(ident))
    if len(head) < HEAD.size:
        raise DamagedRecordError
    magic, code, ident_length, flags, length, stored, stamp, owner = HEAD.unpack_from(head)
    start = HEAD.size + ident_length + 4 * -(-length // BLOCK)
    if magic != MAGIC or owner != tier or os.fstat(file.fileno()).st_size != start + length:
        raise DamagedRecordError
    checksums = file.read(start - HEAD.size - ident_length)
    if head[HEAD.size :] != ident or crc32c(head[_CHECKED_FROM:] + checksums) != code:
        raise DamagedRecordError
    if flags & MISSING:
        return CachedValue(data=None, stored=stored, stamp=stamp)
    if (span := span_of(part, length)) is None:
        return None
    first, last = span
    block, stop = first // BLOCK, -(-last // BLOCK)
    file.seek(start + block * BLOCK)
    data = file.read(min(stop * BLOCK, length) - block * BLOCK)
    if _checksums(data) != checksums[4 * block : 4 * stop]:
        raise DamagedRecordError
    if part is not None:
        data = data[first - block * BLOCK : last - block * BLOCK]
    return CachedValue(data=data, stored=stored, stamp=stamp)


def part_of(request: ByteRequest) -> Part:
    """Normalise a byte range; ODD if stores answer it differently."""
    if type(request) is RangeByteRequest and 0 <= request.start < request.end:
        return ("r", request.start, request.end)
    if type(request) is OffsetByteRequest and request.offset >= 0:
        return ("o", request.offset, 0)
    if type(request) is SuffixByteRequest and request.suffix > 0:
        return ("s", request.suffix, 0)
    return ODD


def candidates(part: Part) -> tuple[Part, ...]:
    """The entries of a key that may answer a request, nearest first: a whole value also answers ranges."""
    if part is None:
        return _WHOLE
    return (None, part) if part[0] in _RANGES else (part,)


def slice_value(cached: CachedValue, part: Part) -> CachedValue | None:
    """Cut a range out of a whole value; None if stores answer it differently."""
    if part is None or cached.data is None:
        return cached
    if (span := span_of(part, len(cached.data))) is None:
        return None
    data = memoryview(cached.data)[slice(*span)]
    return CachedValue(data=data, stored=cached.stored, stamp=cached.stamp)


def span_of(part: Part, length: int) -> tuple[int, int] | None:
    """First byte and end of a part of a value of this length; None if stores answer it differently."""
    if part is None:
        return 0, length
    kind, first, second = part
    if kind == "s":
        return max(0, length - first), length
    if kind == "?" or first >= length:
        return None
    return first, min(second, length) if kind == "r" else length


def folder_place(versions: Versions, path: str) -> VersionedPath | None:
    """What validates a listing of a folder; None if it is not cached, because it may be any folder."""
    folder = path.rstrip("/")
    return versions.listing(folder) if folder or not path else None


def prefix_place(versions: Versions, prefix: str) -> VersionedPath | None:
    """What validates a listing of a prefix; None if it is not cached, because it may name any folder."""
    folder, slash, name = prefix.rpartition("/")
    if name in {".", ".."} or (slash and not folder):
        return None
    return versions.listing(folder)

"""What is cached of a key, and the record format of the disk tier.

Listings are cached like byte ranges: as parts of the key or prefix that was asked for. What validates them
are the slots of `Versions.listing`. A record has a header, an identity, a value, and a checksum over all:

    offset  0  b"zsc1"                  4 bytes
            4  crc32c of what follows   uint32
            8  length of the identity   uint32
           12  flags                    uint32   1: the key is missing in the store
           16  length of the value      uint64
           24  stored                   float64  seconds, by the cache's clock, when the fetch began
           32  stamp                    uint64   versions.py
           40  tier                     16 bytes identity of the tier that wrote it
           56  the identity, then the value

Little-endian throughout. The layout is this project's, version 3 (`folder_control.VERSION`). A record is
accepted only if lengths, checksum, tier and identity all match, so a torn or corrupted file reads as missing.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, NamedTuple, TypeAlias

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from ...core.crc32c import crc32c
from .versions import VersionedPath, Versions

HEAD: Final = struct.Struct("<4sIIIQdQ16s")
MAGIC: Final = b"zsc1"
MISSING: Final = 1
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


def record_head(ident: bytes, cached: CachedValue, tier: bytes) -> bytes:
    """Header and identity of a record; the value follows unchanged."""
    flags = MISSING if cached.data is None else 0
    rest = HEAD.pack(MAGIC, 0, len(ident), flags, cached.size, cached.stored, cached.stamp, tier)[
        _CHECKED_FROM:
    ]
    code = crc32c(rest + ident)
    if cached.data is not None:
        code = crc32c(cached.data, code)
    return MAGIC + code.to_bytes(4, "little") + rest + ident


def parse(raw: bytes, ident: bytes, tier: bytes) -> CachedValue | None:
    """Parse a whole record; None if it is damaged, or belongs to another tier or key."""
    if len(raw) < HEAD.size:
        return None
    magic, code, ident_length, flags, length, stored, stamp, owner = HEAD.unpack_from(raw)
    start = HEAD.size + ident_length
    if magic != MAGIC or owner != tier or len(raw) != start + length:
        return None
    view = memoryview(raw)
    if view[HEAD.size : start] != ident or crc32c(view[_CHECKED_FROM:]) != code:
        return None
    return CachedValue(data=None if flags & MISSING else view[start:], stored=stored, stamp=stamp)


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
    kind, first, second = part
    size = len(cached.data)
    if kind == "s":
        data = memoryview(cached.data)[max(0, size - first) :]
    elif kind == "?" or first >= size:
        return None
    else:
        data = memoryview(cached.data)[first : second if kind == "r" else size]
    return CachedValue(data=data, stored=cached.stored, stamp=cached.stamp)


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

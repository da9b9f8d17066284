"""The record format of the disk tier: header, identity, value, and a checksum over all of them.

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

from crc32c import crc32c

HEAD: Final = struct.Struct("<4sIIIQdQ16s")
MAGIC: Final = b"zsc1"
MISSING: Final = 1
_CHECKED_FROM: Final = 8

Part: TypeAlias = tuple[str, int, int] | None
"""Part of a value: None for all of it, ("r", start, end), ("o", offset, 0) or ("s", length, 0)."""


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
    code = crc32c(ident, crc32c(rest))
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

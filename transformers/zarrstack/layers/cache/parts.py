"""Which parts of a value, and which listings, are cached, and how a whole value answers byte ranges.

Listings are cached like byte ranges: as parts of the key or prefix that was asked for. What validates them
are the slots of `Versions.listing`.
"""

from __future__ import annotations

from typing import Final

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from .record import CachedValue, Part
from .versions import VersionedPath, Versions

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

"""Remembered listings: the names in a folder, the keys below a prefix, and whether a key or folder has any.

They are cached like byte ranges: as parts of the key or prefix that was asked for. What validates them are
the slots of `Versions.listing`.
"""

from __future__ import annotations

from typing import Final

from .record import CachedValue, Part
from .versions import VersionedPath, Versions

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

MOST: Final = 64 * 1024 * 1024
"""Largest listing in bytes that is cached."""


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


class Names:
    """Collects a listing, up to a limit in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data: bytearray | None = bytearray()

    def add(self, name: str) -> None:
        """Add a name. A listing that grows too large, or has a name that contains NUL, is given up."""
        if self._data is None:
            return
        self._data += name.encode("utf-8", "surrogatepass") + b"\0"
        if len(self._data) > self._limit or "\0" in name:
            self._data = None

    def packed(self) -> bytes | None:
        """The listing as a value; None if it was given up."""
        return None if self._data is None else bytes(self._data)


def unpacked(cached: CachedValue) -> list[str]:
    """The names of a cached listing."""
    assert cached.data is not None
    return str(cached.data, "utf-8", "surrogatepass").split("\0")[:-1]

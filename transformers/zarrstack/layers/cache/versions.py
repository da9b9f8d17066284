"""Validity of cached values: a table of counters that every change increments.

All tiers rely on this one rule, and need no locks for it:

- Every key and every folder above it has a slot in the table; several may share one.
- A change to a key or folder increments its slot when it begins and again when it ends.
- A value is cached with the sum of the slots on its path, read *before* the fetch, and is served only while
  that sum is unchanged. Slots never decrease, so equal sums mean that nothing on the path has changed.
- While a change is in progress, nothing on its path is cached.
- A listing of a folder is cached as if it were a key "*" in it. A change also increments that key's slot in
  every folder above it.

A slow read therefore never replaces a new value with an old one, `delete_dir` costs as much as `delete`, and
processes that share the table see each other's writes. Paths that share a slot cause an occasional miss,
never a wrong value. A process that dies during a change leaves its slots marked; they stay uncached until
`FileCounters.repair` (folder_control.py).
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeAlias

Slots: TypeAlias = tuple[int, ...]
"""The slots of a path, from the root of the store to the key."""

_UNKNOWN: Final = -1
"""Of an unreadable slot: treated as a change in progress; no stamp equals it."""
_WRITER: Final = 1
PENDING: Final = 0xFFFF
"""The low 16 bits count changes in progress, the others count their beginnings."""
_BEGIN: Final = 0x10000 + _WRITER
_END: Final = 0x10000 - _WRITER

_MOST_FOLDERS: Final = 1024
"""Folders whose slots are remembered: the keys of an array share few."""

OWN_TABLE: Final = 1 << 17
"""Slots of an unshared table, a dictionary of those that have changed: at most 13 MB."""


_ODD_NAMES: Final = frozenset({"", ".", ".."})
"""Names that give a key several spellings: a local store reads `a//b` and `a/./b` as `a/b`."""


def _spelled(name: str) -> bytes:
    """The same bytes for names which some file system treats as equal: case and accents are folded."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return (name.casefold() + "/").encode("utf-8", "surrogatepass")


class Folder(NamedTuple):
    """What the slots of a folder's keys are computed from."""

    code: int
    slots: Slots
    """The slots of the folder's path."""
    lists: Slots
    """The slots of the listings of the folder and of those above it."""


class Counters(Protocol):
    """Counters by index, 0 until they are set; OSError if they are in a file that fails."""

    def get(self, place: int, default: int, /) -> int:
        """A counter."""

    def add(self, places: Slots, by: int) -> None:
        """Increment counters."""


class OwnCounters(dict[int, int]):
    """Counters of one process."""

    def add(self, places: Slots, by: int) -> None:
        """Increment counters."""
        for place in places:
            self[place] = self.get(place, 0) + by


class Versions:
    """The table: `words` holds one counter per slot, `lock` makes a step atomic across all users.

    `failed` is called when counters can no longer be read or written. From then on, nothing cached with this
    table is served, and nothing is cached.
    """

    def __init__(
        self,
        words: Counters,
        size: int,
        lock: AbstractContextManager[object],
        source: str = "",
        failed: Callable[[OSError], object] = lambda _: None,
    ) -> None:
        self._words = words
        self._lock = lock
        self._failed = failed
        self.source = zlib.crc32(source.encode())
        self._size = size
        self._folders: dict[str, Folder] = {}

    def place(self, key: str) -> VersionedPath | None:
        """Slots of a key: the root, each folder on the way, and the key itself; None if it is not plain."""
        folder, slash, name = key.rpartition("/")
        entry = self._folders.get(folder) or self._folder(folder)
        if entry is None or name in _ODD_NAMES or (slash and not folder):
            return None
        code, slots, _ = entry
        slot = zlib.crc32(_spelled(name), code) % self._size
        return VersionedPath(self, (*slots, slot), (slot,))

    def listing(self, folder: str) -> VersionedPath | None:
        """Slots of what a folder lists, "" for the root: the folder's path, and a key "*" in it.

        Changes made with the slots of `change` increment that key's slot for every folder above them.
        """
        return self.place(f"{folder}/*" if folder else "*")

    def change(self, path: str, *, listings: bool) -> VersionedPath:
        """Slots of a key or folder that changes, with those of the listings of all folders above it.

        A key with several spellings may name any key: its slot is that of the whole source.
        """
        place = self.place(path)
        if place is None:
            root = (self.source % self._size,)
            return VersionedPath(self, root, root)
        if not listings:
            return place
        above = self._folder(path.rpartition("/")[0])
        assert above is not None
        return VersionedPath(self, place.slots, place.changed + above.lists)

    def _folder(self, folder: str) -> Folder | None:
        """What slots in a folder are computed from; None if the folder is not plain."""
        entry = self._folders.get(folder)
        if entry is None:
            code, slots, lists = self.source, [self.source % self._size], []
            for name in folder.split("/") if folder else ():
                if name in _ODD_NAMES:
                    return None
                lists.append(zlib.crc32(b"*/", code) % self._size)
                code = zlib.crc32(_spelled(name), code)
                slots.append(code % self._size)
            lists.append(zlib.crc32(b"*/", code) % self._size)
            entry = Folder(code, tuple(slots), tuple(lists))
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            self._folders[folder] = entry
        return entry

    def stamp(self, slots: Slots) -> int:
        """Sum of the slots; an unreadable one counts as a change in progress."""
        get, total = self._words.get, 0
        try:
            for slot in slots:
                total += get(slot, 0)
        except OSError as error:
            self._failed(error)
            return _UNKNOWN
        return total

    def stable_stamp(self, slots: Slots) -> int | None:
        """Sum of the slots; None while a change is in progress, or if one is unreadable."""
        get, total = self._words.get, 0
        try:
            for slot in slots:
                word = get(slot, 0)
                if word & PENDING:
                    return None
                total += word
        except OSError as error:
            self._failed(error)
            return None
        return total

    def begin(self, place: VersionedPath) -> int:
        """Begin a change of this key or folder; nothing cached below it is served from now on.

        Returns the value to pass to `end`.
        """
        self._step(place.changed, _BEGIN)
        return self.stamp(place.slots)

    def end(self, place: VersionedPath, begun: int) -> int | None:
        """End a change; return the stamp for the written value, or None if another change intervened."""
        self._step(place.changed, _END)
        stamp = self.stable_stamp(place.slots)
        return stamp if stamp == begun + _END else None

    def _step(self, slots: Slots, by: int) -> None:
        try:
            with self._lock:
                self._words.add(slots, by)
        except OSError as error:
            self._failed(error)


class VersionedPath(NamedTuple):
    """A path, and the table that tracks its changes."""

    table: Versions
    slots: Slots
    changed: Slots
    """The slots that a change of the path increments: its own, and those of listings."""

    def stamp(self) -> int:
        """Sum that changes whenever something on the path does."""
        return self.table.stamp(self.slots)

    def stable_stamp(self) -> int | None:
        """The stamp, or None while a change is in progress: then nothing may be cached."""
        return self.table.stable_stamp(self.slots)

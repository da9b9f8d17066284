"""Validity of cached values: a table of counters that every change increments.

All tiers rely on this one rule, and need no locks for it:

- Every key and every folder above it has a slot in the table; several may share one.
- A change to a key or folder increments its slot when it begins and again when it ends.
- The stamp of a key is the sum of the slots on its path. A value is cached with the stamp that was read
  *before* the fetch, and is served only while the stamp is the same. Slots never decrease, so equal stamps
  mean that nothing on the path has changed.
- While a change is in progress, nothing on its path is cached.

A slow read therefore never replaces a new value with an old one, `delete_dir` costs as much as `delete`, and
processes that share the table see each other's writes. Paths that share a slot cause an occasional miss,
never a wrong value. A process that dies during a change leaves its slots marked; they stay uncached until
`Control.repair` (folder_control.py).
"""

from __future__ import annotations

import unicodedata
import zlib
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeAlias

Slots: TypeAlias = tuple[int, ...]
"""The slots of a path, from the root of the store to the key."""

_UNKNOWN: Final = -1
"""Of an unreadable slot: treated as a change in progress; no stored stamp equals it."""
PENDING: Final = 0xFFFF
"""The low 16 bits count changes in progress, the others count their beginnings."""
_BEGIN: Final = 0x10000 + 1
_END: Final = 0x10000 - 1

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


def is_stable(stamp: int) -> bool:
    """Whether a stamp was read while no change was in progress: only then a value is cached with it."""
    return not stamp & PENDING


class OwnCounters(dict[int, int]):
    """Counters of one process by index, 0 until they are set."""

    def add(self, place: int, by: int) -> None:
        """Increment a counter."""
        self[place] = self.get(place, 0) + by


class Versions:
    """The table: `words` holds one counter per slot: `OwnCounters`, or a file whose failure is an OSError.

    `lock` makes a step atomic across all users.
    """

    def __init__(self, words: Any, size: int, lock: AbstractContextManager[object], source: str = "") -> None:
        self.words = words
        self.lock = lock
        self._size = size
        self._source = zlib.crc32(source.encode())
        self._root = VersionedPath(self, (self._source % size,))
        self._folders: dict[str, tuple[int, Slots]] = {}
        self.failure: OSError | None = None
        """Why counters could not be read or written; then nothing cached with this table is served."""

    def place(self, key: str) -> VersionedPath | None:
        """Slots of a key: the root, each folder on the way, and the key itself; None if it is not plain."""
        folder, slash, name = key.rpartition("/")
        entry = self._folders.get(folder) or self._folder(folder)
        if entry is None or name in _ODD_NAMES or (slash and not folder):
            return None
        code, slots = entry
        return VersionedPath(self, (*slots, zlib.crc32(_spelled(name), code) % self._size))

    def change(self, path: str) -> VersionedPath:
        """Slots of a key or folder that changes.

        A key with several spellings may name any key: its slot is that of the whole source.
        """
        return self.place(path) or self._root

    def _folder(self, folder: str) -> tuple[int, Slots] | None:
        """Code and slots of a folder; None if it is not plain."""
        code, slots = self._source, self._root.slots
        for name in folder.split("/") if folder else ():
            if name in _ODD_NAMES:
                return None
            code = zlib.crc32(_spelled(name), code)
            slots = (*slots, code % self._size)
        if len(self._folders) >= _MOST_FOLDERS:
            self._folders.clear()
        self._folders[folder] = code, slots
        return code, slots


class VersionedPath(NamedTuple):
    """A path, and the table that tracks its changes."""

    table: Versions
    slots: Slots

    def stamp(self) -> int:
        """Sum that differs after every change of something on the path."""
        get, total = self.table.words.get, 0
        if self.table.failure is not None:
            return _UNKNOWN
        try:
            for slot in self.slots:
                total += get(slot, 0)
        except OSError as error:
            self.table.failure = error
            return _UNKNOWN
        return total

    def begin(self) -> int:
        """Begin a change of this key or folder; nothing cached below it is served from now on.

        Returns the value to pass to `end`.
        """
        self._step(_BEGIN)
        return self.stamp()

    def end(self, begun: int) -> int:
        """End a change; return the stamp for the written value, not stable if another change intervened."""
        self._step(_END)
        stamp = self.stamp()
        return stamp if stamp == begun + _END else _UNKNOWN

    def _step(self, by: int) -> None:
        try:
            with self.table.lock:
                self.table.words.add(self.slots[-1], by)
        except OSError as error:
            self.table.failure = error

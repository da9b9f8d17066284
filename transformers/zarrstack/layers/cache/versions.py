"""Whether a cached value is still that of the store: counters that every change moves on.

The rule of the cache is here, in one table of counters, and the tiers need no locks for it:

- every key and every folder above it has a slot in the table (several may share one);
- a change to a key or a folder moves its slot on when it begins and again when it ends;
- a value is cached with the sum of the slots on its path, seen *before* it was fetched, and is
  served only while that sum is the same. Slots never go back, so equal sums mean that nothing on
  the path has changed since;
- while a change is under way, nothing on its path is cached.

So a slow read can never put an old value over a new one, `delete_dir` costs as much as `delete`,
and where processes share the table, a write by one is seen by all. Paths that share a slot cost a
miss now and then, never a wrong value. A process that dies during a change leaves its slots
marked: those stay uncached until `heal`.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...core.codecs.base import memory

Slots: TypeAlias = tuple[int, ...]
"""The slots of a path, from the root of the store to the key."""

_UNKNOWN: Final = -1
"""Of a slot that cannot be read: a change is under way, for all one knows, and no stamp is like it."""
_WRITER: Final = 1
_PENDING: Final = 0xFFFF
"""The low 16 bits count changes under way; the rest counts beginnings."""
_BEGIN: Final = 0x10000 + _WRITER
_END: Final = 0x10000 - _WRITER

OWN_TABLE: Final = 1 << 18
"""Slots of a table that no other process shares: 2 MB of address space, used page by page."""


def is_plain(key: str) -> bool:
    """Whether a key has only one spelling: a local store reads `a//b` and `a/./b` as `a/b`."""
    return bool(key) and not any(part in {"", ".", ".."} for part in key.split("/"))


def fold(key: str) -> str:
    """One text for all keys that some file system takes for the same name (case, accents)."""
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key)
    return key.casefold()


class Words(Protocol):
    """Counters by their places; OSError where they are those of a file."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> int: ...
    def __setitem__(self, place: int, word: int, /) -> None: ...
    def tobytes(self) -> bytes:
        """All of them."""


class Versions:
    """The table: `words` holds one counter per slot, `lock` makes a step atomic for all who share it.

    `failed` hears of counters that cannot be read or written any more. Then nothing that was cached by
    them is served, and nothing is cached.
    """

    def __init__(
        self,
        words: Words,
        lock: Callable[[], AbstractContextManager[object]],
        failed: Callable[[OSError], object] = lambda _: None,
    ) -> None:
        self._words = words
        self._lock = lock
        self._failed = failed
        self._size = len(words)

    def place(self, source: str, key: str) -> Place:
        """Where changes to a key of a source are seen: the root, each folder on the way, the key itself.

        "" stands for the whole source.
        """
        code, size = zlib.crc32(source.encode()), self._size
        found = [code % size]
        if key:
            for part in fold(key).split("/"):
                code = zlib.crc32(part.encode("utf-8", "surrogatepass") + b"/", code)
                found.append(code % size)
        return Place(self, tuple(found))

    def read(self, slots: Slots) -> list[int]:
        """What the slots hold."""
        words = self._words
        try:
            return [words[slot] for slot in slots]
        except OSError as error:
            self._failed(error)
            return [_UNKNOWN]

    def step(self, slot: int, by: int) -> None:
        """Move a slot on."""
        try:
            with self._lock():
                self._words[slot] = (self._words[slot] + by) & 0xFFFF_FFFF_FFFF_FFFF
        except OSError as error:
            self._failed(error)

    def heal(self) -> None:
        """Forget the changes of processes that died; for those who know that no one else uses the table."""
        words = np.frombuffer(self._words.tobytes(), dtype="<u8")
        broken = np.flatnonzero(words & np.uint64(_PENDING))
        for slot in broken.tolist():
            self._words[slot] = ((self._words[slot] | _PENDING) + 1) & 0xFFFF_FFFF_FFFF_FFFF


class Place(NamedTuple):
    """A path and the table that knows of its changes."""

    table: Versions
    slots: Slots

    def stamp(self) -> int:
        """The sum that changes whenever something on the path does."""
        return sum(self.table.read(self.slots))

    def quiet(self) -> int | None:
        """The stamp, or None while a change is under way: then nothing may be cached."""
        words = self.table.read(self.slots)
        return None if any(word & _PENDING for word in words) else sum(words)

    def begin(self) -> int:
        """A change of this key or folder begins: nothing cached below it is served from now on.

        What `end` wants to be told.
        """
        self.table.step(self.slots[-1], _BEGIN)
        return self.stamp()

    def end(self, begun: int) -> int | None:
        """A change is done; the stamp for what it wrote, or None if another one came between."""
        self.table.step(self.slots[-1], _END)
        stamp = self.quiet()
        return stamp if stamp == begun + _END else None


def own_versions(lock: Callable[[], AbstractContextManager[object]]) -> Versions:
    """A table for this process alone."""
    return Versions(memory(np.zeros(OWN_TABLE, dtype="u8")), lock)

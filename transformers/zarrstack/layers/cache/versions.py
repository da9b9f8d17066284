"""Validity of cached values: a table of counters that every change increments.

All tiers rely on this one rule, and need no locks for it:

- Every key and every folder above it has a slot in the table; several may share one.
- A change to a key or folder increments its slot when it begins and again when it ends.
- A value is cached with the sum of the slots on its path, read *before* the fetch, and is served only while
  that sum is unchanged. Slots never decrease, so equal sums mean that nothing on the path has changed.
- While a change is in progress, nothing on its path is cached.

A slow read therefore never replaces a new value with an old one, `delete_dir` costs as much as `delete`, and
processes that share the table see each other's writes. Paths that share a slot cause an occasional miss,
never a wrong value. A process that dies during a change leaves its slots marked; they stay uncached until
`heal`.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

Slots: TypeAlias = tuple[int, ...]
"""The slots of a path, from the root of the store to the key."""

_UNKNOWN: Final = -1
"""Of an unreadable slot: treated as a change in progress; no stamp equals it."""
_WRITER: Final = 1
_PENDING: Final = 0xFFFF
"""The low 16 bits count changes in progress, the others count their beginnings."""
_BEGIN: Final = 0x10000 + _WRITER
_END: Final = 0x10000 - _WRITER

OWN_TABLE: Final = 1 << 18
"""Slots of an unshared table: 2 MB of address space, allocated page by page."""


def is_plain(key: str) -> bool:
    """Whether a key has only one spelling: a local store reads `a//b` and `a/./b` as `a/b`."""
    return bool(key) and not any(part in {"", ".", ".."} for part in key.split("/"))


def fold(key: str) -> str:
    """Fold case and accents, so that names which some file system treats as equal are equal."""
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key)
    return key.casefold()


class Counters(Protocol):
    """Counters by index; OSError if they are in a file that fails."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> int: ...
    def __setitem__(self, place: int, word: int, /) -> None: ...
    def tobytes(self) -> bytes:
        """All counters."""


class Versions:
    """The table: `words` holds one counter per slot, `lock` makes a step atomic across all users.

    `failed` is called when counters can no longer be read or written. From then on, nothing cached with this
    table is served, and nothing is cached.
    """

    def __init__(
        self,
        words: Counters,
        lock: Callable[[], AbstractContextManager[object]],
        failed: Callable[[OSError], object] = lambda _: None,
    ) -> None:
        self._words = words
        self._lock = lock
        self._failed = failed
        self._size = len(words)

    def place(self, source: str, key: str) -> VersionedPath:
        """Slots of a key: the root, each folder on the way, and the key itself.

        "" stands for the whole source.
        """
        code, size = zlib.crc32(source.encode()), self._size
        found = [code % size]
        if key:
            for part in fold(key).split("/"):
                code = zlib.crc32(part.encode("utf-8", "surrogatepass") + b"/", code)
                found.append(code % size)
        return VersionedPath(self, tuple(found))

    def read(self, slots: Slots) -> list[int]:
        """Read the slots; an unreadable one counts as a change in progress."""
        words = self._words
        try:
            return [words[slot] for slot in slots]
        except OSError as error:
            self._failed(error)
            return [_UNKNOWN]

    def step(self, slot: int, by: int) -> None:
        """Increment a slot."""
        try:
            with self._lock():
                self._words[slot] = (self._words[slot] + by) & 0xFFFF_FFFF_FFFF_FFFF
        except OSError as error:
            self._failed(error)

    def heal(self) -> None:
        """Clear pending changes of dead processes; call it only when no other process uses the table."""
        words = np.frombuffer(self._words.tobytes(), dtype="<u8")
        broken = np.flatnonzero(words & np.uint64(_PENDING))
        for slot in broken.tolist():
            self._words[slot] = ((self._words[slot] | _PENDING) + 1) & 0xFFFF_FFFF_FFFF_FFFF


class VersionedPath(NamedTuple):
    """A path, and the table that tracks its changes."""

    table: Versions
    slots: Slots

    def stamp(self) -> int:
        """Sum that changes whenever something on the path does."""
        return sum(self.table.read(self.slots))

    def quiet(self) -> int | None:
        """The stamp, or None while a change is in progress: then nothing may be cached."""
        words = self.table.read(self.slots)
        return None if any(word & _PENDING for word in words) else sum(words)

    def begin(self) -> int:
        """Begin a change of this key or folder; nothing cached below it is served from now on.

        Returns the value to pass to `end`.
        """
        self.table.step(self.slots[-1], _BEGIN)
        return self.stamp()

    def end(self, begun: int) -> int | None:
        """End a change; return the stamp for the written value, or None if another change intervened."""
        self.table.step(self.slots[-1], _END)
        stamp = self.quiet()
        return stamp if stamp == begun + _END else None

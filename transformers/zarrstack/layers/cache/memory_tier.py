"""The memory tier: the last values used, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from .record import Found, Part
from .versions import Place

OVERHEAD: Final = 600
"""Bytes an entry counts beside its value and key, so that ranges and missing keys cannot grow without bound.

Measured with tracemalloc: 578 bytes for the entry of a missing key (CPython 3.11 and 3.13).
"""

Where: TypeAlias = str | tuple[str, Part]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and what is needed to say whether it may still be served."""

    found: Found
    place: Place
    cost: int


class MemoryTier:
    """Least recently used goes first; every method may be called from any thread."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self.evictions = 0
        self._entries: OrderedDict[Where, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, where: Where) -> Entry | None:
        """The entry, which is the most recently used one from now on."""
        with self._lock:
            entry = self._entries.get(where)
            if entry is not None:
                self._entries.move_to_end(where)
            return entry

    def put(self, where: Where, found: Found, place: Place) -> None:
        """Keep a value, and let older ones go; one that is larger than the budget is not kept."""
        key = where if isinstance(where, str) else where[0]
        cost = OVERHEAD + len(key) + (0 if found.data is None else len(found.data))
        with self._lock:
            self._remove(where)
            if cost > self.budget:
                return
            while self.used + cost > self.budget:
                self._remove(next(iter(self._entries)))
                self.evictions += 1
            self._entries[where] = Entry(found, place, cost)
            self.used += cost

    def drop(self, where: Where) -> None:
        """Give the bytes of an entry back, if it is there."""
        with self._lock:
            self._remove(where)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.used = 0

    def _remove(self, where: Where) -> None:
        entry = self._entries.pop(where, None)
        if entry is not None:
            self.used -= entry.cost

"""The memory tier: least recently used values within a byte budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from .record import CachedValue, Part
from .versions import VersionedPath

OVERHEAD: Final = 600
"""Bytes counted per entry besides value and key, so that ranges and missing keys stay bounded.

Measured with tracemalloc: 578 bytes for the entry of a missing key (CPython 3.11 and 3.13).
"""

Where: TypeAlias = str | tuple[str, Part]


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A cached value, and the place that validates it."""

    found: CachedValue
    place: VersionedPath
    cost: int


class MemoryTier:
    """A thread-safe LRU cache."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self.evictions = 0
        self._entries: OrderedDict[Where, MemoryEntry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, where: Where) -> MemoryEntry | None:
        """Return an entry and mark it as most recently used."""
        with self._lock:
            entry = self._entries.get(where)
            if entry is not None:
                self._entries.move_to_end(where)
            return entry

    def put(self, where: Where, found: CachedValue, place: VersionedPath) -> None:
        """Add a value, evicting older ones; a value larger than the budget is not kept."""
        key = where if isinstance(where, str) else where[0]
        cost = OVERHEAD + len(key) + found.size
        with self._lock:
            self._remove(where)
            if cost > self.budget:
                return
            while self.used + cost > self.budget:
                self._remove(next(iter(self._entries)))
                self.evictions += 1
            self._entries[where] = MemoryEntry(found, place, cost)
            self.used += cost

    def drop(self, where: Where) -> None:
        """Remove an entry if present."""
        with self._lock:
            self._remove(where)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self.used = 0

    def _remove(self, where: Where) -> None:
        entry = self._entries.pop(where, None)
        if entry is not None:
            self.used -= entry.cost

"""The memory tier: values within a byte budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from .record import CachedValue
from .versions import VersionedPath

OVERHEAD: Final = 600
"""Bytes counted per entry besides value and key, so that ranges and missing keys stay bounded.

Measured with tracemalloc: 578 bytes for the entry of a missing key (CPython 3.11 and 3.13).
"""

Where: TypeAlias = str | tuple[str, Hashable]
"""A key, or a key and which part or which meaning of its value."""
Check: TypeAlias = Callable[[CachedValue, VersionedPath], bool]
MemoryEntry: TypeAlias = tuple[CachedValue, VersionedPath, int]
"""A cached value, the place that validates it, and its cost in bytes."""


class MemoryTier:
    """A thread-safe cache. When it is full, it evicts the least recently used value, or refuses new ones.

    A tier that `keeps` its values examines two of them for each that it refuses, in turn, and removes those
    that are no longer valid: otherwise they would occupy it for ever.
    """

    def __init__(self, budget: int, *, keeps: bool) -> None:
        self.budget = budget
        self.used = 0
        self.evictions = 0
        self.refusals = 0
        self._keeps = keeps
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

    def put(self, where: Where, cached: CachedValue, place: VersionedPath, is_valid: Check) -> None:
        """Add a value; one larger than the budget is not kept. `is_valid` applies to older values."""
        key = where if isinstance(where, str) else where[0]
        cost = OVERHEAD + len(key) + (0 if cached.data is None else len(cached.data))
        with self._lock:
            self._remove(where)
            if cost > self.budget:
                return
            if self._keeps and self.used + cost > self.budget:
                self._remove_invalid(is_valid)
                if self.used + cost > self.budget:
                    self.refusals += 1
                    return
            while self.used + cost > self.budget:
                self.used -= self._entries.popitem(last=False)[1][2]
                self.evictions += 1
            self._entries[where] = (cached, place, cost)
            self.used += cost

    def drop(self, where: Where) -> None:
        with self._lock:
            self._remove(where)

    def drop_below(self, path: str) -> None:
        """Remove the entries of a key, or of a folder; "" for all."""
        with self._lock:
            for where in list(self._entries):
                key = where if isinstance(where, str) else where[0]
                if not path or key == path or key.startswith(f"{path}/"):
                    self._remove(where)

    def _remove(self, where: Where) -> None:
        entry = self._entries.pop(where, None)
        if entry is not None:
            self.used -= entry[2]

    def _remove_invalid(self, is_valid: Check) -> None:
        for _ in range(min(2, len(self._entries))):
            where, entry = next(iter(self._entries.items()))
            if is_valid(entry[0], entry[1]):
                self._entries.move_to_end(where)
            else:
                self._remove(where)

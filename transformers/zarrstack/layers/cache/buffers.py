"""Values between zarr's buffers and the cache's own bytes."""

from __future__ import annotations

from typing import Any

from zarr.core.buffer import Buffer

from .record import Found


def found_in(value: Buffer | None, started: float, stamp: int | None) -> Found:
    """What a store gave, as an entry; the stamp is -1 where a change was under way."""
    data = None if value is None else memoryview(value.to_bytes())
    return Found(data=data, stored=started, stamp=-1 if stamp is None else stamp)


def copied(value: Any) -> memoryview | None:
    """The bytes as they are now: the caller may change its array while they are written."""
    return memoryview(value.to_bytes()) if isinstance(value, Buffer) else None


def size_of(found: Found) -> int:
    """Bytes of the value; 0 for a missing one."""
    return 0 if found.data is None else len(found.data)

"""Conversion between zarr's buffers and cached bytes."""

from __future__ import annotations

from typing import Any

from zarr.core.buffer import Buffer

from .record import Found


def found_in(value: Buffer | None, started: float, stamp: int | None) -> Found:
    """Return a store's answer as an entry; its stamp is -1 if a change was in progress."""
    data = None if value is None else memoryview(value.to_bytes())
    return Found(data=data, stored=started, stamp=-1 if stamp is None else stamp)


def copied(value: Any) -> memoryview | None:
    """Copy the bytes, because the caller may change its array during the write."""
    return memoryview(value.to_bytes()) if isinstance(value, Buffer) else None


def size_of(found: Found) -> int:
    """Length of the value in bytes; 0 if the key is missing."""
    return 0 if found.data is None else len(found.data)

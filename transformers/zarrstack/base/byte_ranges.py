"""Byte ranges of values whose length is known, for layers that read more than the range."""

from __future__ import annotations

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer


def bounds(byte_range: ByteRequest | None, length: int) -> tuple[int, int]:
    """Start and stop of a request within a value of this length, clipped to the value.

    Like zarr 3.4.2's MemoryStore, as a Python slice: ranges past the end are empty, not an error, and
    negative positions count from the end of the value, never beyond it. (MemoryStore of 3.1.6 misreads a
    suffix longer than the value.) ValueError for an unknown kind of range.
    """
    match byte_range:
        case None:
            part = slice(None)
        case RangeByteRequest(start, end):
            part = slice(start, end)
        case OffsetByteRequest(offset):
            part = slice(offset, None)
        case SuffixByteRequest(suffix):
            part = slice(max(0, length - suffix), None)
        case _:
            raise ValueError(f"Unexpected byte_range, got {byte_range}.")
    first, last, _ = part.indices(length)
    return first, max(first, last)


def cut(value: Buffer, byte_range: ByteRequest | None) -> Buffer:
    """Cut a byte range out of a value; ranges as in `bounds`."""
    return value if byte_range is None else value[slice(*bounds(byte_range, len(value)))]

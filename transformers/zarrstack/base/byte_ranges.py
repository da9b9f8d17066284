"""Byte ranges as bounds within a value: the only place that knows zarr's kinds of requests for a layer."""

from __future__ import annotations

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer


def slice_of(byte_range: ByteRequest | None) -> slice:
    """A request as a slice of the value, whose length may be unknown.

    Like zarr 3.4.2's MemoryStore: ranges past the end are empty, not an error, and negative positions count
    from the end of the value, never beyond it. (MemoryStore of 3.1.6 misreads a suffix longer than the
    value.) ValueError for an unknown kind of range.
    """
    match byte_range:
        case None:
            return slice(None)
        case RangeByteRequest(start, end):
            return slice(start, end)
        case OffsetByteRequest(offset):
            return slice(offset, None)
        case SuffixByteRequest(suffix):
            return slice(-suffix, None) if suffix > 0 else slice(0, 0)
    raise ValueError(f"Unexpected byte_range, got {byte_range}.")


def bounds(byte_range: ByteRequest | None, length: int) -> tuple[int, int]:
    """Start and stop of a request within a value of this length, clipped to the value; see `slice_of`."""
    first, last, _ = slice_of(byte_range).indices(length)
    return first, max(first, last)


def cut(value: Buffer, byte_range: ByteRequest | None) -> Buffer:
    """Cut a byte range out of a value; ranges as in `slice_of`."""
    return value if byte_range is None else value[slice(*bounds(byte_range, len(value)))]

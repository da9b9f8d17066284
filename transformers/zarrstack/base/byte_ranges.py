"""Byte ranges of whole values, for layers that must read values whole."""

from __future__ import annotations

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer


def cut(value: Buffer, byte_range: ByteRequest | None) -> Buffer:
    """Cut a byte range out of a value; bytes past its end are omitted.

    Like zarr 3.4.2's MemoryStore; that of 3.1.6 misreads a suffix longer than the value. ValueError for an
    unknown kind of range.
    """
    match byte_range:
        case None:
            return value
        case RangeByteRequest(start, end):
            return value[start:end]
        case OffsetByteRequest(offset):
            return value[offset:]
        case SuffixByteRequest(size):
            return value[max(0, len(value) - size) :]
    raise ValueError(f"Unexpected byte_range, got {byte_range}.")

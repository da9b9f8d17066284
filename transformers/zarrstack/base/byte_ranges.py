"""A byte range, taken from a whole value: for layers whose values have to be read whole."""

from __future__ import annotations

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer


def cut(value: Buffer, byte_range: ByteRequest | None) -> Buffer:
    """The part of a value that a request names; what lies past its end is left out.

    As zarr 3.4.2's MemoryStore does it; that of 3.1.6 misreads a suffix longer than the value.
    ValueError for what is no byte range.
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

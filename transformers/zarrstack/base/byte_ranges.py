"""Values as bytes, and byte ranges as bounds within them: the only place that knows zarr's requests."""

from __future__ import annotations

from typing import Any

import numpy as np
from zarr.abc.buffer import Buffer
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from ..core.errors import UsageError


def slice_of(byte_range: ByteRequest | None) -> slice:
    """A request as a slice of the value, whose length may be unknown.

    Like zarr 3.4.2's MemoryStore: ranges past the end are empty, not an error, and negative positions count
    from the end of the value, never beyond it. (MemoryStore of 3.1.6 misreads a suffix longer than the
    value.) UsageError for an unknown kind of range.
    """
    if byte_range is None:
        return slice(None)
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, None)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(-byte_range.suffix, None) if byte_range.suffix > 0 else slice(0, 0)
    raise UsageError(f"Unexpected byte_range, got {byte_range}.")


def bounds(byte_range: ByteRequest | None, length: int) -> tuple[int, int]:
    """Start and stop of `byte_range` within a value of this `length`, clipped to the value.

    Positions past the end are not an error, and None is the whole value.

    Raises
    ------
    UsageError
        For an unknown kind of range.

    Examples
    --------
    >>> from zarr.abc.store import SuffixByteRequest
    >>> zarrstack.bounds(SuffixByteRequest(3), 10)
    (7, 10)
    """
    first, last, _ = slice_of(byte_range).indices(length)
    return first, max(first, last)


def cut(value: Buffer, byte_range: ByteRequest | None) -> Buffer:
    """Cut `byte_range` out of `value`, as `bounds` understands it.

    Raises
    ------
    UsageError
        For an unknown kind of range.

    Examples
    --------
    >>> from zarr.abc.store import RangeByteRequest
    >>> from zarr.buffer import cpu
    >>> zarrstack.cut(cpu.Buffer.from_bytes(b"12345"), RangeByteRequest(1, 3)).to_bytes()
    b'23'
    """
    return value if byte_range is None else value[slice(*bounds(byte_range, len(value)))]


def content(value: Buffer) -> memoryview:
    """The bytes of a buffer, without a copy for host memory; TypeError for anything else."""
    if not isinstance(value, Buffer):
        raise TypeError(f"a store holds zarr's buffers, not values of type {type(value).__name__}")
    return memoryview(value.as_numpy_array())  # type: ignore[arg-type]


def immutable(value: Buffer) -> bytes:
    """The bytes of a value, copied unless it is one whole `bytes` object, as stores and codecs return it."""
    array = value.as_numpy_array()
    owner: Any = array.base
    while type(owner) is np.ndarray:
        owner = owner.base
    if type(owner) is bytes and len(owner) == array.nbytes and array.flags.c_contiguous:
        return owner
    return array.tobytes()

"""Byte ranges are cut as zarr 3.4.2's MemoryStore cuts them."""

from __future__ import annotations

import pytest
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu

from zarrstack.base.byte_ranges import bounds, cut, slice_of

VALUE = b"0123456789"

RANGES = [
    (None, VALUE),
    (RangeByteRequest(2, 5), b"234"),
    (RangeByteRequest(0, 0), b""),
    (RangeByteRequest(8, 20), b"89"),
    (RangeByteRequest(12, 20), b""),
    (RangeByteRequest(5, 2), b""),
    (RangeByteRequest(-3, -1), b"78"),
    (OffsetByteRequest(7), b"789"),
    (OffsetByteRequest(10), b""),
    (SuffixByteRequest(3), b"789"),
    (SuffixByteRequest(10), VALUE),
    (SuffixByteRequest(11), VALUE),
    (SuffixByteRequest(0), b""),
]


@pytest.mark.parametrize(("request_", "part"), RANGES, ids=str)
def test_a_range_is_a_slice_of_the_value(request_: ByteRequest | None, part: bytes) -> None:
    assert VALUE[slice_of(request_)] == part
    start, stop = bounds(request_, len(VALUE))
    assert 0 <= start <= stop <= len(VALUE)
    assert VALUE[start:stop] == part
    assert cut(cpu.Buffer.from_bytes(VALUE), request_).to_bytes() == part


def test_an_unknown_kind_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="Unexpected byte_range"):
        slice_of((0, 3))

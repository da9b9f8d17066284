"""Any array comes into C order and a byte order bit by bit, in one cast or in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.codecs import layout
from zarrlift.core.codecs.layout import in_c_order

# Shape, and whether F order is turned in blocks: only where a cast's strides miss the caches.
SHAPES = {
    (64, 64, 64): True,
    (128, 70, 128): True,
    (1, 96, 1, 128, 128): True,
    (2048, 1030): True,
    (100, 100, 100): False,
    (1000, 800): False,
    (2, 2, 128, 256, 3): False,
    (30, 20, 10): False,
    (1, 1, 900_000): False,
}
TYPES = ("u1", "<i2", ">u2", "<f4", ">f4", ">f8", "<c16")


def turned(shape, dtype):
    """Any bits, with signalling NaNs among them, in F order."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(4).integers(0, 256, count, dtype="u1")
    return np.ndarray(shape, dtype, buffer=raw, order="F")


@pytest.mark.slow(one_in=12)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", "<>")
def test_every_bit_arrives(shape, dtype, order):
    array = turned(shape, dtype)
    target = np.dtype(dtype).newbyteorder(order)
    result = in_c_order(array, target)
    assert result.dtype == target
    assert result.shape == shape
    assert result.flags.c_contiguous
    swapped = array.byteswap().view(target) if array.dtype != target else array
    assert result.tobytes() == swapped.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_are_used_where_they_are_faster(shape, monkeypatch):
    used = []
    in_blocks = layout._cast_in_blocks
    monkeypatch.setattr(layout, "_cast_in_blocks", lambda *words: (used.append(1), in_blocks(*words)))
    in_c_order(turned(shape, ">f4"), np.dtype("<f4"))
    assert bool(used) is SHAPES[shape]


@given(data=st.data())
def test_any_order_of_axes_and_any_step_arrives(data):
    shape = data.draw(st.sampled_from([(64, 64, 128), (16, 8, 64, 64), (512, 1024), (32, 1, 128, 128)]))
    base = np.arange(np.prod(shape), dtype=">u4").reshape(shape)
    steps = data.draw(st.tuples(*(st.sampled_from([1, 1, -1, 2]) for _ in shape)))
    array = base[tuple(slice(None, None, step) for step in steps)]
    array = array.transpose(data.draw(st.permutations(range(len(shape)))))
    assert np.array_equal(in_c_order(array, np.dtype("<u4")), array)


def test_what_lies_right_is_not_copied():
    array = np.zeros((300, 300), "<f8")
    assert in_c_order(array, np.dtype("<f8")) is array

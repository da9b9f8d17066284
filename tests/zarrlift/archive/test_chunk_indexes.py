"""A page of keys gives the indexes that each key gives alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.archive.chunk_indexes import NO_CHUNK, chunk_indexes
from zarrlift.core.grid.chunk_keys_draft import DraftKeys
from zarrlift.core.grid.chunk_keys_n5 import N5Keys
from zarrlift.core.grid.grid import Grid
from zarrstack.core.chunk_keys_v3 import KeyEncoding

KEYS = [
    KeyEncoding("v2", "."),
    KeyEncoding("v2", "/"),
    KeyEncoding("default", "."),
    KeyEncoding("default", "/"),
    N5Keys("reversed"),
    N5Keys("kept"),
    DraftKeys("/"),
]
NAMES = st.one_of(
    st.from_regex(r"\A(c[./])?[0-9]{1,3}([./][0-9]{1,3}){0,3}\Z"),
    st.sampled_from(
        [".zarray", "zarr.json", "", "c", "0", "0.0\n0.0", "\u0660.0", "\ud800", "c0/1/2", "1..2"]
    ),
    st.text(alphabet="0123456789./c\n-+ ", max_size=9),
)


@pytest.mark.parametrize("keys", KEYS, ids=str)
@given(
    shape=st.lists(st.sampled_from([0, 1, 9, 120, 10**17]), max_size=4).map(tuple),
    names=st.lists(NAMES, max_size=8),
)
def test_any_names(keys, shape, names):
    grid = Grid(shape, (1,) * len(shape))
    expected = []
    for name in names:
        place = keys.coordinates(name, len(shape))
        index = None if place is None else grid.index(place)
        expected.append(NO_CHUNK if index is None else index)
    if max(expected, default=0) < 2**63:
        assert chunk_indexes(names, keys, grid).tolist() == expected


@pytest.mark.parametrize("keys", KEYS, ids=str)
@given(indexes=st.lists(st.integers(0, 9 * 120 * 2000 - 1), min_size=1, max_size=50), other=st.booleans())
def test_keys_of_chunks(keys, indexes, other):
    grid = Grid((9, 120, 2000), (1, 1, 1))
    names = [keys.key(grid.coordinates(index)) for index in indexes]
    assert chunk_indexes([".zattrs"] * other + names, keys, grid).tolist() == [NO_CHUNK] * other + indexes

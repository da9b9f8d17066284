"""Grids: each chunk has one number, one place, and its own part of the array."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.grid.grid import Grid
from zarrstack.core.errors import MetadataError, UnsupportedError

axes = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 7)), max_size=4)
grids = axes.map(lambda pairs: Grid(tuple(n for n, _ in pairs), tuple(c for _, c in pairs)))
vast_axes = st.lists(st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1)), min_size=1, max_size=5)
vast_grids = vast_axes.map(lambda pairs: Grid(tuple(n for n, _ in pairs), tuple(c for _, c in pairs)))


@given(grids)
def test_numbers_and_places_are_a_bijection_in_c_order(grid):
    places = list(product(*map(range, grid.counts)))
    assert len(places) == grid.total
    assert [grid.index(place) for place in places] == list(range(grid.total))
    assert [grid.coordinates(index) for index in range(grid.total)] == places


@given(vast_grids, st.data())
def test_numbers_of_grids_without_end_are_python_integers(grid, data):
    index = data.draw(st.integers(0, grid.total - 1))
    assert grid.index(grid.coordinates(index)) == index


@given(grids)
def test_regions_tile_the_array_and_agree_with_numpy(grid):
    array = np.arange(int(np.prod(grid.shape))).reshape(grid.shape)
    seen = np.zeros(grid.shape, int)
    for place in product(*map(range, grid.counts)):
        region, valid = grid.region(place), grid.valid(place)
        seen[region] += 1
        chunk = np.full(grid.chunk_shape, -1)
        chunk[valid] = array[region]  # only equal shapes can be assigned
        assert array[region].shape == chunk[valid].shape
        assert np.array_equal(chunk[valid], array[region])
    assert (seen == 1).all()


@given(grids, st.data())
def test_many_chunks_are_numbered_as_one_by_one(grid, data):
    ndim = len(grid.shape)
    place = st.tuples(*[st.integers(-2, 14)] * ndim)
    places = data.draw(st.lists(place, max_size=6))
    array = (
        np.array(places, dtype=np.int64).reshape(-1, ndim) if ndim else np.empty((len(places), 0), np.int64)
    )
    expected = [-1 if (index := grid.index(place)) is None else index for place in places]
    found = grid.indices_of(array)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    inside = found[found >= 0]
    assert [tuple(row) for row in grid.coordinates_of(inside).tolist()] == list(
        map(grid.coordinates, inside.tolist())
    )


@given(vast_grids.filter(lambda grid: grid.total < 2**63), st.data())
def test_many_chunks_of_large_grids_do_not_wrap_around(grid, data):
    numbers = data.draw(st.lists(st.integers(0, grid.total - 1), min_size=1, max_size=4))
    places = grid.coordinates_of(np.array(numbers))
    assert [tuple(row) for row in places.tolist()] == list(map(grid.coordinates, numbers))
    assert grid.indices_of(places).tolist() == numbers
    assert grid.indices_of(places + np.array(grid.counts)).tolist() == [-1] * len(numbers)


def test_a_grid_of_2_to_the_63_chunks_is_numbered_one_by_one_only():
    grid = Grid((2**32, 2**31), (1, 1))
    assert grid.total == 2**63
    assert grid.index(grid.coordinates(2**63 - 1)) == 2**63 - 1
    with pytest.raises(UnsupportedError, match=str(2**63)):
        grid.indices_of(np.zeros((1, 2), np.int64))
    with pytest.raises(UnsupportedError):
        grid.coordinates_of(np.zeros(1, np.int64))
    smaller = Grid((2**32, 2**31 - 1), (1, 1))
    assert smaller.indices_of(smaller.coordinates_of([smaller.total - 1])).tolist() == [smaller.total - 1]


def test_a_0d_array_has_one_chunk():
    grid = Grid((), ())
    assert (grid.counts, grid.total) == ((), 1)
    assert grid.index(()) == 0
    assert grid.coordinates(0) == ()
    assert grid.region(()) == grid.valid(()) == ()
    assert grid.indices_of(np.empty((2, 0), np.int64)).tolist() == [0, 0]
    assert grid.coordinates_of([0, 0]).shape == (2, 0)


def test_an_empty_array_has_no_chunks():
    grid = Grid((4, 0), (2, 3))
    assert (grid.counts, grid.total) == ((2, 0), 0)
    assert grid.index((0, 0)) is None
    assert grid.coordinates_of([]).shape == (0, 2)


@pytest.mark.parametrize("grid", [Grid((5,), (2,)), Grid((), ()), Grid((4, 0), (2, 3))], ids=str)
@pytest.mark.parametrize("index", [-1, 3, 2**70])
def test_numbers_outside_the_grid_are_errors(grid, index):
    with pytest.raises(IndexError):
        grid.coordinates(index)
    if index < 2**63:
        with pytest.raises(IndexError):
            grid.coordinates_of([index])


@pytest.mark.parametrize(
    ("shape", "chunks"),
    {
        "fewer chunk lengths": ((4, 4), (2,)),
        "chunk length 0": ((4,), (0,)),
        "chunk length 0 of an empty axis": ((0,), (0,)),
        "negative length": ((-1,), (2,)),
        "negative chunk length": ((4,), (-2,)),
        "more than int64": ((2**63,), (1,)),
        "chunks of more than int64": ((4,), (2**63,)),
        "float": ((4.0,), (2,)),
        "bool": ((4,), (True,)),
        "null": ((None,), (2,)),
        "text": (("4",), (2,)),
    }.values(),
    ids=str,
)
def test_absurd_shapes_are_refused_at_the_edge(shape, chunks):
    with pytest.raises(MetadataError) as caught:
        Grid(shape, chunks)
    assert caught.value.problem.found


def test_a_grid_can_be_sent_to_a_worker():
    grid = Grid((5, 7), (2, 3))
    assert pickle.loads(pickle.dumps(grid)) == grid

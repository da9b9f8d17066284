"""Grids: each chunk has one number, one place, one key, and its own part of the array."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples

from zarrlift.core.grid.chunk_keys import chunk_keys_from_json
from zarrlift.core.grid.grid import Grid
from zarrlift.core.grid.overlap import cutting_order, times_read, touched, touches, touching, within
from zarrlift.core.grid.pattern_keys import NamePatterns, PatternKeys
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


# Which chunks touch which, held against looking at every pair; and never more work than chunks.


Region = tuple[slice, ...]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Grid, Grid]:
    """Two grids over one array of up to three axes, some of length 0."""
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    grids = [Grid(shape, tuple(draw(st.integers(1, 11)) for _ in shape)) for _ in range(2)]
    return grids[0], grids[1]


def regions(grid: Grid) -> dict[int, Region]:
    """Every chunk with its part of the array."""
    return {number: grid.region(grid.coordinates(number)) for number in range(grid.total)}


def meet(one: Region, other: Region) -> bool:
    """Whether two regions share an element."""
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other, strict=True))


def some_of(total: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """About half of the chunks."""
    return np.flatnonzero(np.random.default_rng(seed).random(total) < 0.5).astype(np.int64)


@given(pairs(), st.integers(0, 99))
def test_touched_are_the_blocks_that_share_an_element_with_a_chunk(
    grids: tuple[Grid, Grid], seed: int
) -> None:
    source, blocks = grids
    there = some_of(source.total, seed)
    mine = regions(source)
    expected = [
        number
        for number, region in regions(blocks).items()
        if any(meet(mine[index], region) for index in there.tolist())
    ]
    assert touched(there, source, blocks).tolist() == expected


@given(pairs())
def test_touching_are_the_chunks_that_share_an_element_with_a_block(grids: tuple[Grid, Grid]) -> None:
    source, blocks = grids
    mine = regions(source)
    for number, region in regions(blocks).items():
        expected = [index for index, other in mine.items() if meet(region, other)]
        assert touching(blocks.coordinates(number), blocks, source).tolist() == expected
        assert within(region, source).tolist() == expected


@given(pairs(), st.integers(0, 99))
def test_touches_counts_the_blocks_of_each_chunk(grids: tuple[Grid, Grid], seed: int) -> None:
    source, blocks = grids
    there, mine, others = some_of(source.total, seed), regions(source), regions(blocks).values()
    expected = [sum(meet(mine[index], region) for region in others) for index in there.tolist()]
    assert touches(there, source, blocks).tolist() == expected


@given(pairs())
def test_times_read_is_the_mean_of_touches(grids: tuple[Grid, Grid]) -> None:
    source, blocks = grids
    found = times_read(source.shape, source.chunk_shape, blocks.chunk_shape)
    if source.total:
        everything = np.arange(source.total, dtype=np.int64)
        assert found == pytest.approx(touches(everything, source, blocks).mean())
    else:
        assert found >= 1


def test_the_longest_chunks_do_not_wrap_around() -> None:
    source, blocks = Grid((10,), (2**63 - 1,)), Grid((10,), (2**62 + 1,))
    assert touched(np.array([0]), source, blocks).tolist() == [0]
    assert touches(np.array([0]), source, Grid((10,), (3,))).tolist() == [4]


def test_few_chunks_of_a_huge_grid_cost_little() -> None:
    source, blocks = Grid((10**6,) * 3, (10,) * 3), Grid((10**6,) * 3, (64,) * 3)
    there = np.sort(np.random.default_rng(3).integers(0, source.total, 1000))
    found = touched(there, source, blocks)
    assert len(there) <= len(found) <= 8 * len(there)
    assert touches(there, source, blocks).sum() >= len(found)


def test_a_grid_is_walked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    source, blocks = Grid((7, 9), (2, 2)), Grid((7, 9), (3, 4))
    there = np.arange(source.total, dtype=np.int64)
    whole = touched(there, source, blocks), touches(there, source, blocks)
    monkeypatch.setattr("zarrlift.core.grid.overlap._AT_ONCE", 3)
    for before, after in zip(
        whole, (touched(there, source, blocks), touches(there, source, blocks)), strict=True
    ):
        assert before.tolist() == after.tolist()


@pytest.mark.parametrize(("source", "blocks"), [*product([(1, 4), (3, 3), (7, 9)], repeat=2)])
def test_aligned_blocks_read_nothing_twice(source: tuple[int, int], blocks: tuple[int, int]) -> None:
    multiple = tuple(a * b for a, b in zip(source, blocks, strict=True))
    assert times_read((40, 50), source, multiple) == 1


@pytest.mark.parametrize(
    ("source", "inner_chunks", "order"),
    [
        ((64, 64, 64), (64, 64, 64), (0, 1, 2)),
        ((1, 512, 512), (64, 64, 64), (0, 1, 2)),
        ((512, 512, 1), (64, 64, 64), (2, 0, 1)),
        ((4, 64, 64), (4, 4, 64), (0, 2, 1)),
        ((), (), ()),
    ],
)
def test_a_shard_is_cut_first_where_the_chunks_of_the_source_are_short(
    source: tuple[int, ...], inner_chunks: tuple[int, ...], order: tuple[int, ...]
) -> None:
    assert cutting_order(source, inner_chunks) == order


# Keys by patterns: every name that was added has an index of its own, and the index gives the name.


NAMES = st.lists(
    st.text(st.sampled_from("c/.%d0123é-"), min_size=1, max_size=24), min_size=1, max_size=30, unique=True
)


def keys_of(names: list[str]) -> PatternKeys:
    patterns = NamePatterns()
    for name in names:
        patterns.add(name)
    return patterns.keys()


@given(NAMES)
@examples(200)
def test_each_name_has_an_index_of_its_own(names: list[str]) -> None:
    keys = keys_of(names)
    places = [keys.coordinates(name, 1) for name in names]
    assert None not in places
    assert len(set(places)) == len(names)
    assert all(0 <= place[0] < keys.total for place in places if place is not None)
    assert keys.keys(np.array(places, np.int64)) == names
    assert [keys.key(place) for place in places if place is not None] == names


def test_chunks_of_a_grid_have_one_pattern() -> None:
    keys = keys_of([f"c/{i}/{j}" for i in range(3, 9) for j in range(100)])
    assert keys.patterns == (("c/%d/%d", ((3, 8), (0, 99))),)
    assert keys.total == 600
    assert keys.coordinates("c/2/0", 2) is None
    assert keys.coordinates("c/3/00", 2) is None
    assert keys.coordinates("c.3.0", 2) is None


def test_leading_zeros_and_percent_signs_are_kept() -> None:
    keys = keys_of(["007", "7", "0100", "100%", "9" * 30])
    assert {pattern for pattern, _ in keys.patterns} == {"%03d", "%d", "%04d", "%d%%", "9" * 30}
    assert [keys.key((index,)) for index in range(keys.total)] == ["007", "0100", "7", "100%", "9" * 30]


def test_their_json_is_complete() -> None:
    keys = keys_of(["c/0/1", "c/10/0", "note.txt"])
    assert chunk_keys_from_json(keys.to_json()) == keys
    assert pickle.loads(pickle.dumps(keys)) == keys
    with pytest.raises(MetadataError, match="not keys by patterns"):
        PatternKeys.from_json({"name": "patterns"})


def test_names_without_a_pattern_are_refused() -> None:
    patterns = NamePatterns()
    letters = str.maketrans("0123456789", "ghijklmnop")
    names = [f"{number:x}".translate(letters) for number in range(10_001)]
    for name in names[:-1]:
        patterns.add(name)
    with pytest.raises(UnsupportedError, match="no pattern"):
        patterns.add(names[-1])

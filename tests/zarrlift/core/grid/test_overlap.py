"""Which chunks touch which, held against looking at every pair; and never more work than chunks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.grid.grid import Grid
from zarrlift.core.grid.overlap import cutting_order, times_read, touched, touches, touching, within

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

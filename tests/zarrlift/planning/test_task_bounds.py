"""No task reads or writes more than 1 GB, unless a single object or block does."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.documents import layout

from zarrlift.archive.chunk_inventory import TASK_LIMIT, Inventory, task_bounds, task_bytes
from zarrlift.core.grid.grid import Grid
from zarrlift.core.grid.overlap import touching
from zarrlift.planning.blocks import Blocks, block_bounds


def listed(indexes: np.ndarray, sizes: np.ndarray | None) -> Inventory:
    total = None if sizes is None else int(sizes.sum())
    return Inventory(indexes=indexes, sizes=sizes, certain=True, fingerprint="", total_bytes=total)


@st.composite
def inventories(draw: st.DrawFn, total: int, implied: int) -> Inventory:
    """Some chunks of a grid, with sizes from bytes to gigabytes, or none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    there = np.flatnonzero(rng.random(total) < draw(st.sampled_from([0.1, 0.9, 1.0])))
    if draw(st.booleans()):
        return listed(there, None)
    largest = draw(st.sampled_from([10**3, 10**6, 10**8, 3 * 10**9]))
    return listed(there, rng.integers(0, largest, len(there)))


def check(bounds: tuple[int, ...], units: np.ndarray, nbytes: np.ndarray) -> None:
    """Whether tasks cover all units once, and stay below the limit."""
    if not len(units):
        assert bounds == ()
        return
    cuts = np.searchsorted(units, bounds)
    assert cuts[0] == 0
    assert cuts[-1] == len(units)
    assert (np.diff(cuts) > 0).all()
    for start, end in pairwise(cuts):
        assert nbytes[start:end].sum() <= TASK_LIMIT or end - start == 1


@examples(200)
@given(st.data())
def test_chunks(data: st.DataObject) -> None:
    chunk = data.draw(st.sampled_from([10, 10**4, 10**7, 2 * 10**8]))
    total = data.draw(st.integers(1, 3000))
    inventory = data.draw(inventories(total, chunk * 8))
    written = data.draw(st.sampled_from([0, 10**3, 10**8, 2 * 10**9]))
    read = np.full(len(inventory.indexes), chunk * 8) if inventory.sizes is None else inventory.sizes
    bounds = task_bounds(inventory, chunk * 8, written)
    check(bounds, inventory.indexes, np.maximum(read, written))


@examples(200)
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 3))
    scale = data.draw(st.sampled_from([1, 10, 500]))
    sides = st.tuples(*[st.integers(1, 20)] * ndim)
    shape = tuple(side * scale for side in data.draw(sides))
    chunks, block = (
        tuple(min(side * scale // 4 + 1, n) for side, n in zip(data.draw(sides), shape, strict=True))
        for _ in range(2)
    )
    source = layout(shape=shape, chunks=chunks, data_type="float64")
    inventory = data.draw(inventories(source.objects.total, prod(chunks) * 8))
    written = data.draw(st.sampled_from([0, 10**8]))
    bounds = block_bounds(inventory, source, Blocks(shape=block), inventory.total_bytes or 0, written)
    read = np.full(len(inventory.indexes), prod(chunks) * 8) if inventory.sizes is None else inventory.sizes
    size = dict(zip(inventory.indexes.tolist(), read.tolist(), strict=True))
    grid = Grid(shape, block)
    units, nbytes = [], []
    for number in range(grid.total):
        near = [
            size[i] for i in touching(grid.coordinates(number), grid, source.objects).tolist() if i in size
        ]
        if near:
            units.append(number)
            nbytes.append(max(sum(near), written))
    check(bounds, np.array(units), np.array(nbytes))


def test_a_thousand_chunks_of_100_mb_in_a_store_without_sizes_are_not_one_task() -> None:
    bounds = task_bounds(listed(np.arange(1024), None), 10**8)
    assert np.diff(bounds).max() == 10


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (1 << 20, 4 << 20),
        (1 << 30, 16 << 20),
        (1 << 34, 64 << 20),
        (1 << 36, 64 << 20),
        (1 << 50, TASK_LIMIT // 2),
    ],
)
def test_the_size_that_a_task_aims_at(total: int, expected: int) -> None:
    assert task_bytes(total) == expected

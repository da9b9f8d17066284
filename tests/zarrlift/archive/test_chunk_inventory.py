"""How the chunks of an array are cut into tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.archive.chunk_inventory import NOT_LISTED, Inventory, task_bounds


def inventory(indexes: list[int], sizes: list[int] | None) -> Inventory:
    """Chunks that are there, with their sizes in bytes if the listing gave any."""
    known = None if sizes is None else np.array(sizes, np.int64)
    return replace(
        NOT_LISTED,
        indexes=np.array(indexes, np.int64),
        sizes=known,
        total_bytes=None if sizes is None else sum(sizes),
    )


@given(
    indexes=st.lists(st.integers(0, 10**6), min_size=1, max_size=3000, unique=True).map(sorted),
    each=st.none() | st.integers(1, 20 << 20),
)
def test_every_chunk_is_in_one_task(indexes: list[int], each: int | None) -> None:
    bounds = task_bounds(inventory(indexes, None if each is None else [each] * len(indexes)))
    cuts = np.searchsorted(indexes, bounds)
    assert cuts[0] == 0
    assert cuts[-1] == len(indexes)
    assert (np.diff(cuts) > 0).all(), "no task is empty"
    assert (np.diff(cuts) <= 1024).all()
    if each is not None:
        assert (np.diff(cuts) * each <= max(64 << 20, each)).all()


def test_tasks_of_equal_chunks_are_equal() -> None:
    """Of two limits, bytes and chunks, the nearer one counts."""
    for size in (10, 350_000):
        lengths = np.diff(task_bounds(inventory(list(range(20_000)), [size] * 20_000)))[:-33]
        assert lengths.max() - lengths.min() <= 1


def test_the_last_of_many_tasks_are_small_so_that_workers_end_together() -> None:
    lengths = np.diff(task_bounds(inventory(list(range(20_000)), [350_000] * 20_000)))
    assert lengths.sum() == 20_000
    assert lengths[:-32].min() > 3 * lengths[-32:].max()


def test_a_few_tasks_are_left_as_they_are() -> None:
    assert len(task_bounds(inventory(list(range(64)), None))) == 3
    assert task_bounds(inventory([], None)) == ()

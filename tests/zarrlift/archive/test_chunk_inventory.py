"""How the chunks of an array are listed and cut into tasks."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarrlift
from zarrlift.archive import chunk_inventory
from zarrlift.archive.chunk_columns import NO_CHUNK, ChunkColumns, chunk_indexes
from zarrlift.archive.chunk_inventory import NOT_LISTED, Inventory, task_bounds
from zarrlift.core.grid.chunk_keys import DraftKeys, N5Keys
from zarrlift.core.grid.grid import Grid
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import StorageError


def inventory(indexes: list[int], sizes: list[int] | None) -> Inventory:
    """Chunks that are there, with their sizes in bytes if the listing gave any."""
    known = None if sizes is None else np.array(sizes, np.int64)
    return NOT_LISTED._replace(
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


# Listed chunks come back by ascending index, whether they stay in memory or go through a file.


ROWS = st.lists(st.integers(0, 2**63 - 1), max_size=400, unique=True)


@given(ROWS, st.integers(1, 60), st.integers(1, 50))
def test_rows_are_sorted_whatever_is_kept_in_memory(indexes, most, page):
    columns = ChunkColumns(most)
    for start in range(0, len(indexes), page):
        part = np.array(indexes[start : start + page], np.int64)
        columns.extend(part, part % 1000, part % 77)
    assert len(columns) == len(indexes)
    found, sizes, versions = columns.sorted()
    assert found.tolist() == sorted(indexes)
    assert (sizes == found % 1000).all()
    assert (versions == found % 77).all()


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("order", ["ascending", "descending", "interleaved", "as text"])
def test_runs_are_merged_in_parts_of_about_a_run(order, monkeypatch):
    """A part has at most two runs' rows, so memory does not depend on the number of runs."""
    count, most = 8_000, 80
    indexes = {
        "ascending": list(range(count)),
        "descending": list(range(count))[::-1],
        "interleaved": [place * 7919 % count for place in range(count)],
        "as text": sorted(range(count), key=str),
    }[order]
    columns = ChunkColumns(most)
    for index in indexes:
        columns.add(index, index, index)
    parts = []
    concatenate = np.concatenate

    def watched(arrays, axis=0):
        made = concatenate(arrays, axis=axis)
        if axis == 1:
            parts.append(made.shape[1])
        return made

    monkeypatch.setattr(np, "concatenate", watched)
    found, _, _ = columns.sorted()
    assert found.tolist() == list(range(count))
    assert max(parts) <= 2.1 * most


def test_a_temporary_file_without_room_is_an_error_that_names_its_folder(monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    columns, rows = ChunkColumns(10), np.arange(10)
    columns.extend(rows, rows, rows)
    monkeypatch.setattr(np, "memmap", full)
    with pytest.raises(StorageError, match="No space left") as told:
        columns.sorted()
    assert told.value.problem.key == tempfile.gettempdir()
    assert "TMPDIR" in (told.value.problem.advice or "")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match="No space left"):
        ChunkColumns(10).extend(rows, rows, rows)


# A page of keys gives the indexes that each key gives alone.


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


@pytest.mark.slow(one_in=3)
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


# Where times are whole seconds, a file that was just written is listed again later.


SECOND = 1_000_000_000
NOW = 1_700_000_001 * SECOND


class Clock:
    """Time that passes while someone sleeps, and a writer who rewrites the chunk meanwhile."""

    def __init__(self, chunk: Path) -> None:
        self.now = NOW + SECOND // 2
        self.chunk = chunk
        self.slept: list[float] = []

    def time_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * SECOND)
        if len(self.slept) == 1:
            write(self.chunk, 2, NOW)


def write(chunk: Path, value: int, modified_ns: int) -> None:
    chunk.write_bytes(bytes([value] * 4))
    os.utime(chunk, ns=(modified_ns, modified_ns))


@pytest.mark.parametrize(
    ("modified_ns", "sleeps"),
    [
        (NOW, [1.52]),
        (NOW - SECOND, [0.52, 1.0]),
        (NOW - 2 * SECOND, []),
        (NOW + 100, []),
        (NOW + 9 * SECOND, []),
    ],
    ids=["this second", "the second before", "FAT's last step", "a finer time", "the future"],
)
def test_a_chunk_that_may_be_rewritten_at_the_same_time_is_listed_again(
    modified_ns: int, sleeps: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = 1
    chunk = tmp_path / "a.zarr" / "0"
    write(chunk, 1, modified_ns)
    clock = Clock(chunk)
    monkeypatch.setattr(chunk_inventory, "time", clock)
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert clock.slept == pytest.approx(sleeps)
    assert zarr.open_array(tmp_path / "b.zarr")[0] == (2 if sleeps else 1)

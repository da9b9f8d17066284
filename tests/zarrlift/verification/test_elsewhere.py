"""A full comparison on an executor finds what one in threads finds."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.storage.test_processes import Cluster
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.errors import JobError, WorkerError
from zarrlift.verification import elsewhere


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two arrays, one of which is rechunked into shards."""
    group = zarr.open_group(tmp_path / "old.zarr", mode="w", zarr_format=2)
    for name, chunks in (("a", (20, 10)), ("b", (7, 30))):
        array = group.create_array(name, shape=(100, 60), chunks=chunks, dtype="<i4", fill_value=-1)
        array[:50] = np.arange(3000).reshape(50, 60)
    sections = (("b", (("chunks", "10,10"), ("shards", "2x"))),)
    recipe = zarrlift.Recipe(sections=sections)
    assert zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=recipe).ok
    return tmp_path / "old.zarr", tmp_path / "new.zarr"


def damaged(new: Path) -> None:
    """One wrong value, one chunk that cannot be read, and one that the source does not have."""
    array = zarr.open_array(new / "a", zarr_format=3)
    array[3, 4] = 7
    array[99, 59] = 5
    next(path for path in sorted((new / "b" / "c").rglob("*")) if path.is_file()).write_bytes(b"?" * 50)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("portion", [1, 10**9])
def test_the_same_report(wrong: bool, portion: int, places, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "_PORTION", portion)
    if wrong:
        damaged(places[1])
    expected = zarrlift.verify(*places, full=True)
    cluster = Cluster()
    found = zarrlift.verify(*places, full=True, executor=cluster)
    assert expected.ok != wrong
    assert found == expected
    assert cluster.tasks > 10 or portion > 1


def test_before_an_array_is_published(places, tmp_path: Path, monkeypatch) -> None:
    cluster = Cluster()
    outcome = zarrlift.migrate(places[0], tmp_path / "again.zarr", executor=cluster, verify="full")
    assert outcome.ok, outcome.problems
    asked = [function.__name__ for function in cluster.functions]
    assert {"move", "compare_portion"} == set(asked)


class Gone(Executor):
    """A cluster that accepts nothing."""

    def submit(self, function, /, *arguments):
        raise ConnectionError("no scheduler")


def test_an_executor_that_is_gone_or_cannot_reach_a_store_is_an_error(places) -> None:
    with pytest.raises(WorkerError, match="no scheduler"):
        zarrlift.verify(*places, full=True, executor=Gone())
    store = MemoryStore()
    zarr.open_group(store, mode="w", zarr_format=2)
    with pytest.raises(JobError, match="a store that exists only in this one"):
        zarrlift.verify(store, places[1], full=True, executor=Gone())

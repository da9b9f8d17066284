"""Rechunking in two passes: taken where one would read chunks again and again, and not seen in the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from job_archives import tree

import zarrlift
from zarrlift import planning
from zarrlift.job import Job
from zarrlift.planning_blocks import BASE, cores
from zarrlift.planning_passes import ROOT

from .test_regrid import leave

SHAPE = (600, 400)
ROOM = 20_000
COLUMNS = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="-1,2"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Chunks of one row each, some of which are missing, and of a fill value that is not zero."""
    path = tmp_path / "rows.zarr"
    array = zarr.create_array(
        path / "a", shape=SHAPE, chunks=(1, 400), dtype=">i4", compressors=None, zarr_format=2, fill_value=7
    )
    values = np.random.default_rng(1).integers(-999, 999, SHAPE)
    array[:500] = values[:500]
    array[550] = 1
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    return path


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little memory that one pass would read every chunk fifty times."""
    leave(ROOM, monkeypatch)
    monkeypatch.setattr(planning, "memory_budget", lambda _: BASE + 8 * cores() * ROOM)


@pytest.fixture
def ample(rows: Path, tmp_path: Path) -> dict[str, bytes]:
    """What one pass makes of it, with all the memory it wants."""
    result = tmp_path / "ample.zarr"
    assert zarrlift.migrate(rows, result, recipe=COLUMNS).ok
    return tree(result)


def test_the_plan_says_so(rows: Path, tmp_path: Path, tight: None) -> None:
    (array,) = zarrlift.plan(rows, tmp_path / "new", recipe=COLUMNS).arrays
    assert array.between is not None
    assert array.times_read < 5
    (note,) = [problem for problem in array.problems if "two passes" in problem.message]
    assert note.severity == "note"
    assert type(array).from_json(array.to_json()) == array


def test_one_pass_is_enough_where_there_is_memory(rows: Path, tmp_path: Path) -> None:
    (array,) = zarrlift.plan(rows, tmp_path / "new", recipe=COLUMNS).arrays
    assert array.between is None
    assert array.times_read == 1


def test_the_bytes_are_those_of_one_pass(
    rows: Path, ample: dict[str, bytes], tmp_path: Path, tight: None
) -> None:
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert outcome.ok, outcome.problems
    assert tree(tmp_path / "new") == ample
    assert not (tmp_path / "new" / ROOT).exists() or not any((tmp_path / "new" / ROOT).iterdir())


def test_they_are_over_processes_and_in_a_store(
    rows: Path, ample: dict[str, bytes], tmp_path: Path, tight: None
) -> None:
    assert zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS, processes=True, workers=2).ok
    assert tree(tmp_path / "new") == ample
    place = f"memory://{tmp_path.name}/new"
    assert zarrlift.migrate(rows, place, recipe=COLUMNS, job=tmp_path / "job.db").ok
    assert np.array_equal(zarr.open_array(f"{place}/a")[:], zarr.open_array(rows / "a")[:])
    assert zarrlift.verify(rows, place, full=True).ok


@pytest.mark.parametrize("moment", [0, 1, 3, 8, 20])
def test_an_interrupted_run_goes_on(
    moment: int,
    rows: Path,
    ample: dict[str, bytes],
    tmp_path: Path,
    tight: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, seen = Job.record_task, []

    def stop(self: Job, *arguments: object, **more: object) -> None:
        record(self, *arguments, **more)  # type: ignore[arg-type]
        seen.append(arguments)
        if len(seen) > moment:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Job, "record_task", stop)
        try:
            zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
        except zarrlift.Interrupted:
            assert not (tmp_path / "new" / "a" / "zarr.json").exists()
    zarrlift.resume(tmp_path / "new")
    assert tree(tmp_path / "new") == ample


def test_what_fails_in_the_first_pass_is_told_and_nothing_appears(
    rows: Path, tmp_path: Path, tight: None
) -> None:
    (rows / "a" / "3.0").write_bytes(b"short")
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert outcome.state == "incomplete"
    assert {problem.key for problem in outcome.problems} == {"a/3.0"}
    assert not (tmp_path / "new" / "a" / "zarr.json").exists()

"""Rechunking in two passes: taken where one would read chunks again and again, and not seen in the result."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import tree
from tests.support.job_processes import stopping
from tests.zarrlift.transfer.test_regrid import leave

import zarrlift
from zarrlift.jobs.array_states import RunArray
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.run import Run
from zarrlift.planning import planner, two_passes
from zarrlift.planning.blocks import BASE, Blocks, available_cores
from zarrlift.storage.local.files import storage_error
from zarrlift.storage.local.own_names import PASSES
from zarrlift.storage.local.storage import LocalStorage

SHAPE = (120, 80)
ROOM = 2_000
COLUMNS = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="-1,2", shards="none"))


def write_rows(folder: Path, form: str, shape: tuple[int, int], together: int = 4) -> Path:
    """Rows, each a chunk, or one of a few in a shard; some are missing, and the fill value is not zero."""
    path, length = folder / "rows.zarr", shape[0]
    array = zarr.create_array(
        path / "a",
        shape=shape,
        chunks=(1, shape[1]),
        dtype=">i4",
        compressors=None,
        zarr_format=2,
        fill_value=7,
    )
    array[: length * 10 // 12] = np.random.default_rng(1).integers(-999, 999, (length * 10 // 12, shape[1]))
    array[length * 11 // 12] = 1
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    if form == "chunks":
        return path
    sharded = folder / "shards.zarr"
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards=f"{together},1"))
    assert zarrlift.migrate(path, sharded, recipe=recipe).ok
    last = length * 11 // 12 // together
    assert (sharded / f"a/c/{last}/0").exists(), "a shard of which one row is there"
    assert not (sharded / f"a/c/{last - 1}/0").exists()
    return sharded


@pytest.fixture(scope="module", params=["chunks", "shards"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("passes"), request.param, SHAPE)


@pytest.fixture
def rows(made: Path, tmp_path: Path) -> Path:
    """A copy of them, which a test may damage."""
    return Path(shutil.copytree(made, tmp_path / made.name))


class Killed(BaseException):
    """Ends a run as a kill does, which nobody takes for a wish of the user's."""


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little memory that one pass would read every chunk fifty times."""
    leave(ROOM, monkeypatch)
    monkeypatch.setattr(planner, "memory_budget", lambda _: BASE + 8 * available_cores() * ROOM)


@pytest.fixture(scope="module")
def ample(made: Path) -> dict[str, bytes]:
    """What one pass makes of it, with all the memory it wants."""
    result = made.parent / "ample.zarr"
    assert zarrlift.migrate(made, result, recipe=COLUMNS).ok
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


@pytest.mark.slow(one_in=2)
def test_the_bytes_are_those_of_one_pass(
    rows: Path, ample: dict[str, bytes], tmp_path: Path, tight: None
) -> None:
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert outcome.ok, outcome.problems
    assert tree(tmp_path / "new") == ample
    assert not (tmp_path / "new" / PASSES).exists() or not any((tmp_path / "new" / PASSES).iterdir())
    (array,) = zarrlift.status(tmp_path / "new").arrays
    chunks = [file for file in (tmp_path / "new/a/c").rglob("*") if file.is_file()]
    assert array.bytes_after == sum(file.stat().st_size for file in chunks) < array.bytes_written
    assert array.objects_after == len(chunks), "what the second pass has written"


@pytest.mark.parametrize("codecs", ["none", "zstd:3"])
@pytest.mark.slow(one_in=4)
def test_a_second_pass_may_have_the_leaves_of_the_result(
    codecs: str, rows: Path, tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes payloads on into shards; their codecs are those of the intermediate array."""
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="50,4", shards="3,5", codecs=codecs))
    monkeypatch.setattr(two_passes, "_between", lambda *_: [(50, 4)])
    monkeypatch.setattr(two_passes, "_WORTH", 0)
    monkeypatch.setattr(two_passes, "_COST", -1000)
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=recipe)
    assert outcome.ok, outcome.problems
    (array,) = outcome.plan.arrays
    assert array.between is not None
    found, expected = (zarr.open_array(path / "a", mode="r")[...] for path in (tmp_path / "new", rows))
    np.testing.assert_array_equal(found, expected)


def test_what_lies_between_and_cannot_be_removed_fails_its_array(
    rows: Path, ample: dict[str, bytes], tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published above it, it would stay for good: a finished job has nothing to do."""

    with monkeypatch.context() as patched:
        delete_tree = LocalStorage.delete_tree

        def refuse(storage: LocalStorage, key: str) -> None:
            if PASSES in key:
                raise storage_error("cannot delete", key, OSError(errno.EIO, "Input/output error"))
            delete_tree(storage, key)

        patched.setattr(LocalStorage, "delete_tree", refuse)
        (problem,) = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS).problems
    assert (problem.kind, problem.node) == ("storage", "a")
    assert zarrlift.resume(tmp_path / "new").ok
    assert tree(tmp_path / "new") == ample


@pytest.mark.slow
def test_they_are_over_processes_and_in_a_store(
    rows: Path, ample: dict[str, bytes], tmp_path: Path, tight: None
) -> None:
    assert zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS, executor="processes", workers=2).ok
    assert tree(tmp_path / "new") == ample
    place = f"memory://{tmp_path.name}/new"
    assert zarrlift.migrate(rows, place, recipe=COLUMNS, job=tmp_path / "job.db").ok
    assert np.array_equal(zarr.open_array(f"{place}/a")[:], zarr.open_array(rows / "a")[:])
    assert zarrlift.verify(rows, place, full=True).ok


@pytest.mark.slow(one_in=20)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("moment", [0, 3, 20])
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


@pytest.mark.slow(one_in=2)
def test_what_fails_in_the_first_pass_is_told_and_nothing_appears(
    rows: Path, tmp_path: Path, tight: None
) -> None:
    key = "a/3.0" if (rows / "a" / "3.0").exists() else "a/c/3/0"
    (rows / key).write_bytes(b"short")
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert outcome.state == "incomplete"
    assert {problem.key for problem in outcome.problems} == {key}
    assert not (tmp_path / "new" / "a" / "zarr.json").exists()


@pytest.mark.slow(one_in=20)
@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_run_that_was_stopped_while_what_lies_between_is_removed(
    left: int,
    rows: Path,
    ample: dict[str, bytes],
    tmp_path: Path,
    tight: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of the result is made anew out of what is left of it."""
    with monkeypatch.context() as patched:
        delete_tree, close = LocalStorage.delete_tree, Job.close

        def stop(storage: LocalStorage, key: str) -> None:
            if PASSES not in key:
                delete_tree(storage, key)
                return
            files = [path for path in Path(storage.path(key)).rglob("*") if path.is_file()]
            for file in files[left:]:
                file.unlink()
            raise Killed

        patched.setattr(LocalStorage, "delete_tree", stop)

        def lose(job: Job) -> None:
            if job._db.in_transaction:
                job._db.execute("ROLLBACK")  # what is not committed is lost
            close(job)

        patched.setattr(Job, "close", lose)
        patched.setattr(Run, "_commit_at_the_end", lambda run: None)
        with pytest.raises(Killed):
            zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert zarrlift.resume(tmp_path / "new", verify="none").ok
    assert tree(tmp_path / "new") == ample
    assert not (tmp_path / "new" / PASSES).exists()


@pytest.mark.slow(one_in=2)
def test_undo_of_an_interrupted_run_removes_what_lies_between(
    rows: Path, tmp_path: Path, tight: None
) -> None:
    with stopping(Run, "_start_checks"), pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert list((tmp_path / "new" / PASSES).rglob("*"))
    assert zarrlift.undo(tmp_path / "new").problems == ()
    assert not (tmp_path / "new").exists()


@pytest.mark.slow(one_in=2)
def test_a_source_that_was_mended_is_not_mixed_with_what_lay_between(
    rows: Path, tmp_path: Path, tight: None
) -> None:
    """Values of a chunk that has gone since must not come out of an earlier first pass."""
    bad, gone = ("a/3.0", "a/4.0") if rows.name == "rows.zarr" else ("a/c/2/0", "a/c/1/0")
    good = (rows / bad).read_bytes()
    (rows / bad).write_bytes(b"short")
    assert zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS).state == "incomplete"
    (rows / bad).write_bytes(good)
    (rows / gone).unlink()
    outcome = zarrlift.resume(tmp_path / "new")
    assert outcome.ok, outcome.problems
    expected = zarr.open_array(rows / "a")[:]
    assert np.array_equal(zarr.open_array(tmp_path / "new/a")[:], expected)


# Rows that are missing decide what is written


BANDS = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="7,40", shards="none"))


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("form", "length", "room"), [("shards", 300, 5_000), ("shards", 600, 20_000), ("chunks", 600, 20_000)]
)
def test_a_chunk_that_no_row_reaches_stays_missing(
    form: str, length: int, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks between reach further than the rows that they were made of, which decide all the same.

    With 300 rows, a task of the second pass has nothing to move.
    """
    rows = write_rows(tmp_path, form, (length, length * 2 // 3), 16)
    assert zarrlift.migrate(rows, tmp_path / "one", recipe=BANDS).ok
    leave(room, monkeypatch)
    real = two_passes.two_passes

    def always(source: object, destination: object, one: Blocks, *more: object, **most: object) -> object:
        return real(source, destination, replace(one, times_read=99.0), *more, **most)  # type: ignore[arg-type]

    monkeypatch.setattr(two_passes, "two_passes", always)
    monkeypatch.setattr(planner, "memory_budget", lambda _: BASE + 8 * available_cores() * room)
    outcome = zarrlift.migrate(rows, tmp_path / "two", recipe=BANDS)
    assert outcome.ok, outcome.problems
    between = outcome.plan.arrays[0].between
    assert between is not None
    assert between.layout.chunk_shape[0] > 7, "they reach over chunks of the result that stay missing"
    made = tree(tmp_path / "two")
    assert made == tree(tmp_path / "one")
    reached = {row // 7 for row in (*range(length * 10 // 12), length * 11 // 12)}
    assert {int(name.split("/")[2]) for name in made if "/c/" in name} == reached


def test_a_shard_that_goes_away_between_the_passes_is_told(
    rows: Path, tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the source has is looked at again before the second pass."""
    copied = Run._start_checks

    def damage(self: Run, arrays: list[RunArray]) -> None:
        copied(self, arrays)
        for file in (rows / "a/c/3").glob("*") if arrays[0].first_pass else ():
            file.write_bytes(b"short")

    monkeypatch.setattr(Run, "_start_checks", damage)
    outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    if rows.name == "rows.zarr":
        assert outcome.ok, "all of it was read before"
        return
    assert outcome.state == "incomplete"
    assert {problem.key for problem in outcome.problems} == {"a/c/3/0"}
    assert not (tmp_path / "new" / "a" / "zarr.json").exists()


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("share", [0.1, 1])
def test_what_lies_between_and_is_removed_is_no_fill_value(
    share: float, rows: Path, tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the source is in shards, whose inner chunks are counted and not named."""
    copied = Run._start_checks

    def remove(self: Run, arrays: list[RunArray]) -> None:
        copied(self, arrays)
        files = [path for path in (tmp_path / "new" / PASSES).rglob("*") if path.is_file()]
        for file in files[: max(1, int(len(files) * share))] if arrays[0].first_pass else ():
            file.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_start_checks", remove)
        outcome = zarrlift.migrate(rows, tmp_path / "new", recipe=COLUMNS)
    assert outcome.state == "incomplete"
    assert [problem.message for problem in outcome.problems] == [
        "chunks of the intermediate array are missing"
    ]
    assert not (tmp_path / "new/a/zarr.json").exists()
    assert zarrlift.resume(tmp_path / "new").ok
    assert zarrlift.verify(rows, tmp_path / "new", full=True).ok

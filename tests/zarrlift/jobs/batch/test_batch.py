"""A batch does what `migrate` does to each of its archives, and no archive stops another."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.job_archives import tree

import zarrlift
from zarrlift.errors import JobError, UsageError
from zarrlift.jobs.batch.batch_file import BatchFile
from zarrlift.report.batch import progress_line

from .conftest import BROKEN, NOTHING, SOUND

TO = "v3/{relative}.zarr"


def states(batch: zarrlift.Batch) -> dict[str, str]:
    """The state of each archive."""
    return {row.relative: row.state for row in batch.rows}


def alone(old: Path, folder: Path) -> dict[str, bytes]:
    """What `migrate` makes of each archive."""
    for name in (*SOUND, BROKEN):
        stem = name.removesuffix(".zip").removesuffix(".zarr").removesuffix(".n5").removesuffix(".zr3")
        zarrlift.migrate(old / name, folder / f"{stem}.zarr", job=folder.parent / f"{stem}.zarrlift.db")
    return tree(folder)


def test_each_archive_is_migrated_as_if_alone(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    expected = dict.fromkeys(SOUND, "done") | {BROKEN: "failed", NOTHING: "refused"}
    assert states(made) == expected
    assert not made.outcome.ok
    assert made.outcome.state == "incomplete"
    assert tree(Path("v3")) == alone(old, Path("alone"))
    problems = {row.relative: row.problems for row in made.rows if row.problems}
    assert problems[BROKEN][0].node == "bad"
    assert "no" in problems[NOTHING][0].message
    assert BROKEN in made.table()
    assert sorted(name for name in os.listdir() if name.startswith("v3")) == ["v3", "v3.zarrlift.db"]


def test_a_second_call_does_only_what_is_left(old: Path) -> None:
    zarrlift.batch("old", to=TO)
    again = zarrlift.batch("old", to=TO)
    assert again.outcome.ran == 2
    shutil.rmtree(old / BROKEN)
    shutil.copytree(old / "a/v2.zarr", old / NOTHING, dirs_exist_ok=True)
    after = zarrlift.Batch("v3")
    assert after.resume().counts == {"done": 6, "failed": 1}
    assert tree(Path("v3/nothing.zarr")) == tree(Path("v3/a/v2.zarr"))


def test_a_batch_of_another_version_is_refused_and_kept(old: Path) -> None:
    file = Path(zarrlift.batch("old", to=TO, run=False).path)
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE meta SET value = '99' WHERE name = 'batch'")
        database.commit()
    before = file.read_bytes()
    with pytest.raises(JobError, match=r"another version; found 99; expected 1"):
        zarrlift.Batch(file)
    assert file.read_bytes() == before


def test_nothing_to_do_and_archives_that_are_new(old: Path) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    assert zarrlift.batch("old", to=TO).outcome.state == "done"
    before = tree(Path("v3"))
    again = zarrlift.batch("old", to=TO).outcome
    assert (again.state, again.ran, again.ok) == ("nothing to do", 0, True)
    shutil.copytree(old / "a/v2.zarr", old / "c/new.zarr")
    named = zarrlift.batch("old", to=TO).outcome
    assert named.added == (str(old / "c/new.zarr"),)
    assert not named.ok
    assert tree(Path("v3")) == before
    taken = zarrlift.batch("old", to=TO, update=True)
    assert taken.outcome.ran == 1
    assert states(taken)["c/new.zarr"] == "done"
    assert len(taken.rows) == len(SOUND) + 1


def test_other_options_are_another_batch(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    with pytest.raises(JobError, match="other options"):
        zarrlift.batch("old", to=TO, recipe=zarrlift.Recipe(consolidate=True))
    with pytest.raises(JobError, match="other options"):
        zarrlift.batch("old", to="v3/{relative}")


def test_a_plan_moves_nothing_and_names_what_is_refused(old: Path) -> None:
    planned = zarrlift.batch("old", to=TO, run=False)
    assert planned.outcome.state == "planned"
    assert not Path("v3").exists()
    rows = {row.relative: row for row in planned.rows}
    assert rows[NOTHING].state == "refused"
    assert rows["a/v2.zarr"].state == "pending"
    assert rows["a/v2.zarr"].bytes_in > 0
    planned.run()
    assert tree(Path("v3")) == alone(old, Path("alone"))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_byte(old: Path, workers: int) -> None:
    zarrlift.batch("old", to=TO, workers=workers)
    zarrlift.batch("old", to="other/{relative}.zarr")
    assert tree(Path("v3")) == tree(Path("other"))


def test_parts_are_gathered_into_the_same_trees(old: Path) -> None:
    planned = zarrlift.batch("old", to=TO, parts=4)
    assert planned.outcome.state == "planned"
    before = Path("v3.zarrlift.db").read_bytes()
    for part in (1, 3, 0, 2):
        planned.run_part(part)
        assert Path("v3.zarrlift.db").read_bytes() == before
    assert planned.status().counts == {"done": 5, "failed": 1, "refused": 1}
    assert planned.gather().counts == {"done": 5, "failed": 1, "refused": 1}
    assert not Path("v3.zarrlift.db.d").exists()
    assert tree(Path("v3")) == alone(old, Path("alone"))
    assert {row.part for row in planned.rows} == {0, 1, 2, 3}
    with pytest.raises(UsageError, match="no such part"):
        planned.run_part(4)


def test_the_life_of_a_batch_in_place(old: Path) -> None:
    for name in ("zip.zarr.zip", "b/draft.zr3", NOTHING, BROKEN):
        shutil.rmtree(old / name) if (old / name).is_dir() else (old / name).unlink()
    before = tree(old)
    made = zarrlift.batch("old", in_place=True)
    assert made.path == old.parent / "old.zarrlift.db"
    assert made.outcome.state == "done"
    unverified = made.finish()
    assert unverified.state == "incomplete"
    assert "not been verified" in unverified.rows[0].problems[0].message
    assert made.verify(full=True).state == "done"
    assert {row.verified for row in made.rows} == {"full"}
    finished = made.finish()
    assert finished.state == "finished"
    assert not (old / "a/v2.zarr/.zgroup").exists()
    assert made.undo().state == "undone"
    assert tree(old) == before


def test_a_result_that_differs_is_named_and_not_finished(old: Path) -> None:
    made = zarrlift.batch("old/a", to=TO)
    assert made.verify().ok
    chunk = next(path for path in Path("v3/v2.zarr").rglob("c/*") if path.is_file())
    chunk.unlink()
    told = made.verify(full=True)
    assert not told.ok
    rows = {row.relative: row for row in told.rows}
    assert rows["v2.zarr"].problems
    assert rows["v2.zarr"].verified is None
    assert rows["v1.zarr"].verified == "full"
    with pytest.raises(JobError, match="copies keep their sources"):
        made.finish()


def test_undo_removes_what_a_run_left_that_was_killed_before_it_had_a_job(old: Path) -> None:
    made = zarrlift.batch("old", to=TO, run=False)
    number = made.rows[0].number
    with BatchFile.open(made.path) as file:
        file.ledgers.prepare(number)
        ledger = file.ledgers.path(number)
    ledger.with_name(f"{ledger.name}.0-0-1-1.partial").touch()
    outcome = made.undo()
    assert outcome.state == "undone"
    assert not Path(f"{made.path}.d").exists()
    assert made.run().counts["done"] == 5


def test_undo_takes_back_all_archives(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    assert made.undo().state == "undone"
    assert not any(path.is_file() for path in Path("v3").rglob("*"))
    assert made.resume().ran == 0
    assert made.run().counts == {"done": 5, "failed": 1, "refused": 1}


def test_the_ledger_of_an_archive_is_a_job_file(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    rows = {row.relative: row.number for row in made.rows}
    with made.ledger(rows["a/v2.zarr"]) as path:
        assert path is not None
        assert zarrlift.status(path).state == "done"
        assert zarrlift.status(path).destination == str(Path("v3/a/v2.zarr").absolute())
    with made.ledger(rows[NOTHING]) as none:
        assert none is None
    with made.ledger(rows["a/v2.zarr"], write=True) as path:
        assert path is not None
        zarrlift.verify(path, full=True)
    assert {row.relative: row.verified for row in made.rows}["a/v2.zarr"] == "full"
    assert not Path("v3.zarrlift.db.d").exists()


def test_the_commands_for_one_archive_say_that_this_is_a_batch(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    with pytest.raises(JobError, match="zarrlift status"):
        zarrlift.status("v3.zarrlift.db")
    zarrlift.migrate("old/a/v2.zarr", "one.zarr")
    with pytest.raises(JobError, match="not of a batch"):
        zarrlift.Batch("one.zarr")


def test_an_update_follows_what_has_changed(old: Path) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    made = zarrlift.batch("old", to=TO)
    made.verify()
    chunk, other = (old / "a/v2.zarr/top" / name for name in ("0.0", "1.1"))
    chunk.write_bytes(other.read_bytes())
    (old / "a/v2.zarr/.zattrs").write_text('{"said": "later"}')
    shutil.rmtree(old / "a/v2.zarr/group/text")
    outcome = made.update()
    assert outcome.ok
    (problem,) = (problem for row in outcome.rows for problem in row.problems)
    assert (problem.kind, problem.node) == ("removed", "group/text")  # only named, unless asked to delete
    assert made.update(delete=True).ok
    assert {row.relative for row in made.rows if row.verified is None} == {"a/v2.zarr"}
    for name in SOUND:
        stem = name.removesuffix(".zip").rpartition(".")[0]
        zarrlift.migrate(old / name, f"alone/{stem}.zarr", job=f"{Path(stem).name}.zarrlift.db")
    assert tree(Path("v3")) == tree(Path("alone"))


def test_what_is_left_of_a_batch_is_told_in_bytes(old: Path) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    batch = zarrlift.batch("old", to=TO, run=False)
    planned = batch.status()
    assert planned.bytes_done == 0
    assert planned.bytes_total == sum(row.bytes_in for row in planned.rows) > 0
    running = replace(
        planned, running=True, bytes_done=planned.bytes_total // 4, rate=planned.bytes_total / 8
    )
    assert running.seconds_left == pytest.approx(6, rel=0.01)
    line = progress_line(running)
    assert line.startswith("5 pending, ")
    assert "(25 %)" in line or "(24 %)" in line
    assert line.endswith("/s, about 6.00 s left")
    batch.run()
    done = batch.status()
    assert (done.bytes_done, done.rate, done.seconds_left) == (done.bytes_total, None, None)

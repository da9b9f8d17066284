"""A batch does what `migrate` does to each of its archives, and no archive and no kill stops the others."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr
from tests.support.job_archives import results, tree
from tests.support.job_processes import pasted

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import Interrupted, JobError, UsageError
from zarrlift.jobs.archive_run import migrate_archive
from zarrlift.jobs.batch import acts
from zarrlift.jobs.batch.rows import BatchRow
from zarrlift.jobs.batch.state import reason_path
from zarrlift.jobs.ledger.database import stable_notes
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.report.batch import progress_line
from zarrlift.report.html.pages import write_batch_page
from zarrlift.transfer.events import Ended, Event

from .conftest import BROKEN, NOTHING, SOUND

TO = "v3/{relative}.zarr"
LIST = "v3.zarrlift.jsonl"


def states(batch: zarrlift.Batch) -> dict[str, str]:
    """The state of each archive."""
    return {short(row): row.state for row in batch.rows}


def short(row: BatchRow) -> str:
    """The path of an archive below `old`."""
    return Path(row.name).as_posix().removeprefix("old/")


def begun(batch: zarrlift.Batch) -> list[BatchRow]:
    """The archives that have a job."""
    return [row for row in batch.rows if row.begun()]


def alone(old: Path, folder: Path) -> dict[str, bytes]:
    """What `migrate` makes of each archive."""
    return alone_of((*SOUND, BROKEN), old, folder)


def alone_of(names: Iterable[str], old: Path, folder: Path) -> dict[str, bytes]:
    """What `migrate` makes of some archives."""
    for name in names:
        stem = name.removesuffix(".zip").removesuffix(".zarr").removesuffix(".n5").removesuffix(".zr3")
        zarrlift.migrate(old / name, folder / f"{stem}.zarr", job=folder.parent / f"{stem}.zarrlift.db")
    return results(folder)


def keep(old: Path, *names: str) -> None:
    """Remove the other archives."""
    for name in {*SOUND, BROKEN, NOTHING} - {*names}:
        shutil.rmtree(old / name) if (old / name).is_dir() else (old / name).unlink()


def test_each_archive_is_migrated_as_if_alone(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    expected = dict.fromkeys(SOUND, "done") | {BROKEN: "failed", NOTHING: "refused"}
    assert states(made) == expected
    assert not made.outcome.ok
    assert made.outcome.state == "incomplete"
    assert results(Path("v3")) == alone(old, Path("alone"))
    problems = {short(row): row.problems for row in made.rows if row.problems}
    assert problems[BROKEN][0].node == "bad"
    assert "no" in problems[NOTHING][0].message
    assert sorted(name for name in os.listdir() if name.startswith("v3")) == ["v3", LIST]


def test_nothing_to_do_and_archives_that_are_new(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr")
    assert zarrlift.batch("old", to=TO).outcome.state == "done"
    before = tree(Path("v3"))
    again = zarrlift.batch("old", to=TO).outcome
    assert (again.state, again.ran, again.ok) == ("nothing to do", 0, True)
    shutil.copytree(old / "a/v2.zarr", old / "c/new.zarr")
    with pytest.raises(JobError, match=r"new\.zarr to .*, which is not in it.*batch list --output replaces"):
        zarrlift.batch("old", to=TO)
    assert tree(Path("v3")) == before
    assert zarrlift.batch("old", to=TO, run=False).path == Path(LIST).absolute()
    taken = zarrlift.Batch(LIST)
    assert taken.run().ran == 1
    assert states(taken)["c/new.zarr"] == "done"
    assert len(taken.rows) == 3


def test_other_options_are_another_batch(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    with pytest.raises(JobError, match="with other options"):
        zarrlift.batch("old", to=TO, recipe=zarrlift.Recipe(consolidate=True))
    with pytest.raises(JobError, match="with other options"):
        zarrlift.batch("old", to="v3/{relative}")


def test_a_dry_run_writes_nothing_and_names_what_is_refused(old: Path) -> None:
    planned = zarrlift.batch("old", to=TO, dry_run=True)
    assert (planned.outcome.state, planned.outcome.ok) == ("planned", False)
    assert [path.name for path in Path().iterdir()] == ["old"]
    rows = {short(row): row for row in planned.outcome.rows}
    assert rows[NOTHING].state == "refused"
    assert rows["a/v2.zarr"].state == "pending"
    assert rows["a/v2.zarr"].bytes_in > 0
    made = zarrlift.batch("old", to=TO)
    before = tree(Path())
    assert made.plan().counts == {"done": 5, "failed": 1, "refused": 1}
    assert tree(Path()) == before


def test_processes_that_run_one_list_divide_its_archives(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr", BROKEN, NOTHING)
    planned = zarrlift.batch("old", to=TO, run=False)
    words = [sys.executable, "-m", "zarrlift", "batch", "run", str(planned.path), "--workers", "1", "--json"]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    ended = [json.loads(process.communicate()[0])["result"] for process in processes]
    assert planned.status().counts == {"done": 2, "failed": 1, "refused": 1}
    assert 4 <= sum(one["ran"] for one in ended) <= 2 + 2 * 2  # refused and failed ones are tried again
    assert results(Path("v3")) == alone_of(("a/v1.zarr", "a/v2.zarr", BROKEN), old, Path("alone"))


def test_the_life_of_a_batch_in_place(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr", "b/n5.n5")
    before = tree(old)
    made = zarrlift.batch("old", in_place=True)
    assert made.path == old.parent / "old.zarrlift.jsonl"
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
    assert results(old) == before


def test_a_result_that_differs_is_named_and_not_finished(old: Path) -> None:
    made = zarrlift.batch("old/a", to=TO)
    assert made.verify().ok
    chunk = next(path for path in Path("v3/v2.zarr").rglob("c/*") if path.is_file())
    chunk.unlink()
    told = made.verify(full=True)
    assert not told.ok
    rows = {short(row): row for row in told.rows}
    assert rows["a/v2.zarr"].problems
    assert rows["a/v2.zarr"].verified is None
    assert rows["a/v1.zarr"].verified == "full"
    with pytest.raises(JobError, match="copies keep their sources"):
        made.finish()


def test_undo_removes_what_a_run_left_that_was_killed_before_it_had_a_job(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr")
    made = zarrlift.batch("old", to=TO, run=False)
    job = Path(made.rows[0].job)
    script = "import sys; from zarrlift.storage.local.partial_files import partial_name as name"
    script += "; open(name(sys.argv[1]), 'w').close()"
    job.parent.mkdir(parents=True)
    subprocess.run((sys.executable, "-c", script, job), check=True)
    assert len(list(job.parent.glob("*.partial"))) == 1
    assert made.undo().state == "nothing to do"
    assert list(job.parent.iterdir()) == []
    assert made.run().counts == {"done": 2}


def test_a_damaged_reason_is_ignored(old: Path) -> None:
    made = zarrlift.batch(f"old/{NOTHING}", "old/a/v1.zarr", to="v3/{name}.zarr")
    (row,) = (row for row in made.rows if row.state == "refused")
    for damage in ("", "{", '{"state": 1}', '{"state": "refused", "problems": [{}]}', "\0\0"):
        Path(reason_path(row)).write_text(damage)
        assert made.status().counts == {"done": 1, "pending": 1}, damage
    assert made.run().counts == {"done": 1, "refused": 1}


def test_the_reason_of_a_refused_archive_is_in_the_place_of_its_job(old: Path) -> None:
    keep(old, "a/v2.zarr", BROKEN, NOTHING)
    made = zarrlift.batch("old", to=TO)
    (row,) = (row for row in made.outcome.rows if row.state == "refused")
    reason = Path("v3/nothing.zarr.zarrlift.refused")
    assert reason.absolute() == Path(reason_path(row))
    assert [path.name for path in Path("v3").rglob("*.refused")] == [reason.name]
    (told,) = (row for row in zarrlift.Batch(LIST).rows if row.state == "refused")
    assert told.problems == row.problems != ()
    assert zarrlift.batch("old", to=TO).outcome.ran == 2
    assert made.undo().ok
    assert not reason.exists()
    made.run()
    assert reason.exists()
    shutil.copytree(old / "a/v2.zarr", old / NOTHING, dirs_exist_ok=True)
    assert made.resume().counts == {"done": 2, "failed": 1}
    assert not reason.exists()
    assert tree(Path("v3/nothing.zarr")) == tree(Path("v3/a/v2.zarr"))


def test_only_a_refused_archive_has_a_reason_wherever_its_job_would_be(old: Path) -> None:
    keep(old, "a/v2.zarr", NOTHING)
    zarrlift.batch("old", in_place=True)
    assert (old / "nothing.zarr.zarrlift.refused").exists()
    zarrlift.batch(old / NOTHING, to="memory://refused/{name}.zarr", list_file="lists/l.jsonl")
    (reason,) = Path("lists").glob("nothing.zarr-*.zarrlift.refused")
    assert zarrlift.Batch("lists/l.jsonl").status().counts == {"refused": 1}
    assert zarrlift.Batch("lists/l.jsonl").undo().ok
    assert not reason.exists()


def test_what_the_notes_of_a_job_say_is_what_it_says_when_it_is_opened(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr", BROKEN, NOTHING)
    made = zarrlift.batch("old", to=TO)
    for act in (lambda: made.verify(full=True), made.update, made.undo, made.run):
        act()
        rows = made.rows
        with monkeypatch.context() as patch:
            patch.setattr("zarrlift.jobs.batch.state.stable_notes", lambda _: None)
            assert [replace(row, large=False) for row in made.rows] == [
                replace(row, large=False) for row in rows
            ]
    monkeypatch.setattr("zarrlift.jobs.batch.state.Job.open", None)
    assert zarrlift.Batch(LIST, only="old/a/*").status().counts == {"done": 2}, "without opening any job"


@pytest.mark.parametrize("note", ["figures", "run"])
def test_a_job_without_a_note_is_opened(note: str, old: Path) -> None:
    made = zarrlift.batch("old/a", to="v3/a/{relative}.zarr")
    (row, _) = made.rows
    with Job.open(Path(row.job)) as job:
        job.note(**{note: None})
    opened, _ = made.rows
    assert replace(opened, seconds=0.0) == replace(row, seconds=0.0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: zarrlift.verify("v3/v2.zarr", full=True), "done"),
        (lambda: zarrlift.undo("v3/v2.zarr"), "undone"),
        (lambda: Path("v3/v2.zarr.zarrlift.db").write_bytes(b"SQLite format 3\0"), "failed"),
        (lambda: Path("v3/v2.zarr.zarrlift.db").unlink(), "pending"),
        (lambda: shutil.copy("v3/v1.zarr.zarrlift.db", "v3/v2.zarr.zarrlift.db"), "failed"),
    ],
    ids=["verified", "undone", "damaged", "gone", "that of another archive"],
)
def test_the_state_is_that_of_the_job(change: Callable[[], object], expected: str, old: Path) -> None:
    made = zarrlift.batch("old/a", to=TO)
    change()
    assert states(made)["a/v2.zarr"] == expected


def test_the_notes_of_a_job_in_a_commit_are_not_read_past_its_journal(old: Path) -> None:
    made = zarrlift.batch("old/a/v2.zarr", to="v3/{name}.zarr")
    (row,) = made.rows
    Path(f"{row.job}-journal").touch()
    assert stable_notes(row.job) is None
    assert [row.state for row in made.rows] == ["done"]


def test_the_job_of_an_archive_is_where_migrate_puts_it(old: Path) -> None:
    keep(old, "a/v2.zarr", NOTHING)
    made = zarrlift.batch("old", to=TO)
    rows = {short(row): row for row in made.rows}
    job = Path(rows["a/v2.zarr"].job)
    assert job == Path("v3/a/v2.zarr.zarrlift.db").absolute()
    assert zarrlift.status("v3/a/v2.zarr").state == "done"
    assert zarrlift.status(job).destination == str(Path("v3/a/v2.zarr").absolute())
    assert not rows[NOTHING].begun()
    zarrlift.verify("v3/a/v2.zarr", full=True)
    assert {short(row): row.verified for row in made.rows}["a/v2.zarr"] == "full"
    assert zarrlift.migrate("old/a/v2.zarr", "v3/a/v2.zarr").state == "nothing to do"


def test_a_destination_of_another_job_is_named_and_left_alone(old: Path) -> None:
    zarrlift.migrate("old/a/v1.zarr", "v3/a/v2.zarr")
    before = results(Path("v3"))
    made = zarrlift.batch("old/a/v2.zarr", to="v3/a/{name}.zarr")
    (row,) = made.rows
    assert row.state == "failed"
    assert "belongs to a different job" in row.problems[0].message
    assert not made.update().ok
    assert results(Path("v3")) == before


def test_only_some_archives_are_worked_on(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    some = zarrlift.Batch(LIST, only="old/a/*")
    assert some.run().counts == {"done": 2}
    assert zarrlift.Batch(LIST).status().counts == {"done": 2, "pending": 5}
    assert zarrlift.Batch(LIST, only="v3/a/v1.zarr").undo().counts == {"undone": 1}
    with pytest.raises(UsageError, match="no archive of the list matches"):
        zarrlift.Batch(LIST, only="old/c/*")


def test_an_archive_that_was_restored_is_migrated_again(old: Path) -> None:
    before = tree(old / "a")
    shutil.copytree(old / "a/v2.zarr", "backup")
    made = zarrlift.batch("old/a", in_place=True)
    made.verify()
    assert made.finish().state == "finished"
    shutil.rmtree(old / "a/v2.zarr")
    shutil.copytree("backup", old / "a/v2.zarr")
    again = zarrlift.batch("old/a", in_place=True).outcome
    assert again.ran == 1
    assert again.counts == {"done": 1, "finished": 1}
    assert zarrlift.Batch("old/a.zarrlift.jsonl").undo().state == "undone"
    assert results(old / "a") == before


def test_the_commands_for_one_archive_say_that_this_is_a_batch(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    with pytest.raises(JobError, match=r"zarrlift\.Batch"):
        zarrlift.status("v3.zarrlift.jsonl")
    zarrlift.migrate("old/a/v2.zarr", "one.zarr")
    with pytest.raises(JobError, match="cannot read the list"):
        zarrlift.Batch("one.zarr")


def test_an_update_follows_what_has_changed(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr")
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
    assert {short(row) for row in made.rows if row.verified is None} == {"a/v2.zarr"}
    assert results(Path("v3")) == alone_of(("a/v1.zarr", "a/v2.zarr"), old, Path("alone"))


def test_a_line_says_how_much_of_a_running_batch_is_done(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr", NOTHING)
    outcome = zarrlift.batch("old", to=TO).outcome
    first, *others = outcome.rows
    line = progress_line(replace(outcome, running=True, rows=(replace(first, state="pending"), *others)))
    assert line.startswith("1 done, 1 pending, 1 refused")
    assert re.search(r"\(\d\d %\)", line)


def test_a_batch_that_a_process_runs_is_running(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr")
    made = zarrlift.batch("old", to=TO, run=False)
    seen = []
    made.run(progress=lambda _: seen.append(zarrlift.Batch(LIST).status().running))
    assert seen
    assert all(seen)
    assert not made.status().running


def test_large_archives_are_run_alone_after_the_others(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    sizes = {short(row): row.bytes_in for row in zarrlift.batch("old", to=TO, dry_run=True).outcome.rows}
    monkeypatch.setattr(acts, "LARGE", max(sizes.values()))
    large = {str(old / name) for name, size in sizes.items() if size == max(sizes.values())}
    ran = []
    monkeypatch.setattr(
        acts,
        "migrate_archive",
        lambda request, *more: (
            ran.append((str(request.source), request.beside)) or migrate_archive(request, *more)
        ),
    )
    made = zarrlift.batch("old", to=TO, workers=3)
    assert made.outcome.counts == {"done": 5}
    assert {source for source, beside in ran[-len(large) :] if beside == 1} == large
    assert {source for source, beside in ran if beside == 1} == large


# The commands of `zarrlift batch`: what they print, and their exit codes.

TO_RELATIVE = ("--to", "v3/{relative}.zarr")
IN_PLACE = "old/a.zarrlift.jsonl"


def batch(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints."""
    assert main([*(["batch"] if words[0] in ("run", "list") else []), *words]) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The result of a command with --json."""
    document: dict[str, Any] = json.loads(batch(capsys, *words, "--json", code=code))
    assert document["exit_code"] == code
    found: dict[str, Any] = document.get("result") or document["error"]
    return found


def test_a_plan_shows_formats_and_sizes_and_groups_refusals_by_their_reason(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (old / f"more/{name}.zarr").mkdir(parents=True)
        (old / f"more/{name}.zarr/.zarray").write_text("{")
    text = batch(capsys, "run", "--dry-run", "old", *TO_RELATIVE, code=1)
    rows = as_json(capsys, "run", "--dry-run", "old", *TO_RELATIVE, code=1)["archives"]
    formats = Counter(row["format"] or "unknown" for row in rows)
    assert f"\n  formats  {', '.join(f'{formats[name]} {name}' for name in sorted(formats))}\n" in text
    assert f"\n  objects  {sum(row['objects'] for row in rows)}\n" in text
    assert "(2 times)" in text
    assert "old/more/one.zarr, /, key '.zarray'" in text
    refusals = [problem for row in rows for problem in row["problems"] if problem["severity"] == "refusal"]
    assert len(refusals) == sum(row["state"] == "refused" for row in rows) == 3


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("names", [("a.zarr", "b.n5"), ("a.n5", "b.n5"), ("x/a.zarr", "y/b.zarr")], ids=str)
def test_a_folder_given_to_migrate_suggests_a_batch_that_can_be_pasted(
    names: tuple[str, str], old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in names:
        shutil.copytree(old / ("b/n5.n5" if name.endswith("n5") else "a/v2.zarr"), old.parent / "two" / name)
    assert main(["migrate", "two", "v3"]) == 2
    line = re.search(r"zarrlift (batch run .*?\.zarr['\"]?)", capsys.readouterr().err)
    assert line is not None
    assert main([*pasted(line[1]), "--quiet"]) == 0
    assert {path.parent.stem for path in Path("v3").rglob("zarr.json")} >= {"a", "b"}


@pytest.mark.parametrize("template", ["v3/all.zarr", "v3/{other}", "old/{parent}.zarr", "s3:/b/{name}"])
def test_a_wrong_template_is_one_error(template: str, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "run", "old/a", "--to", template]) == 2
    error = capsys.readouterr().err
    assert error.count("; found") + error.count("; expected") <= 2, error
    assert "problems" not in error
    assert sorted(path.name for path in Path().iterdir()) == ["old"]


@pytest.mark.parametrize(("damage", "others"), [("image/0.0", 0), ("image/.zarray", 2)])
def test_a_failed_archive_whose_source_was_replaced_is_migrated_by_the_command_that_the_report_names(
    others: int,
    damage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What an earlier run has published of the damaged source is brought up to date too."""
    monkeypatch.chdir(tmp_path)
    names = ["scan [1].zarr", *(f"{number}.zarr" for number in range(others))]
    for name in names:
        write_scan(Path("old", name), 1)
    damaged = Path("old", names[0])
    (damaged / damage).write_bytes(b"damaged")
    text = batch(capsys, "run", "old", "--to", "v3/{relative}.zarr", code=1)
    command = re.search("After the cause is fixed:\\s+zarrlift (resume .*)", text)
    assert command is not None
    assert ("--only" in command[1]) is bool(others)
    assert zarr.open_array("v3/scan [1].zarr/time", mode="r")[0] == 1
    shutil.rmtree(damaged)
    write_scan(damaged, 2)
    zarr.open_group(damaged, mode="r+", zarr_format=2).create_array("new", data=np.arange(4))
    assert "1 done" in batch(capsys, *pasted(command[1]))
    assert zarrlift.verify(damaged, "v3/scan [1].zarr", full=True).ok
    assert zarrlift.Batch(LIST).status().counts == {"done": 1 + others}


def write_scan(folder: Path, value: int) -> None:
    group = zarr.open_group(folder, mode="w", zarr_format=2)
    group.create_array("image", data=np.full((4, 4), value), chunks=(2, 2))
    group.create_array("time", data=np.full(4, value))


def test_from_a_list_to_the_end(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = batch(capsys, "run", "--dry-run", "old", *TO_RELATIVE, code=1)
    assert "Nothing has been migrated. Without --dry-run, it is." in text
    Path("all.jsonl").write_text(batch(capsys, "list", "old", *TO_RELATIVE))
    assert sorted(path.name for path in Path().iterdir()) == ["all.jsonl", "old"]
    assert as_json(capsys, "status", "all.jsonl", "--watch", code=1)["counts"] == {"pending": 7}
    text = batch(capsys, "run", "all.jsonl", code=1)
    assert "7 archives: 5 done, 1 failed, 1 refused" in text
    assert f"zarrlift resume {old.parent / 'all.jsonl'}" in text
    assert as_json(capsys, "resume", "all.jsonl", code=1)["ran"] == 2
    told = as_json(capsys, "verify", "all.jsonl", "--full", code=1)
    assert {row["verified"] for row in told["archives"]} == {"full", None}
    assert as_json(capsys, "finish", "all.jsonl", "--yes", code=1)["message"].startswith(
        "there is nothing to finish"
    )
    assert "undone" in batch(capsys, "undo", "all.jsonl", "--yes")


def test_a_list_is_printed_or_written_and_changes_nothing_else(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("list", "old", *TO_RELATIVE, "--codecs", "zstd:5")
    printed = batch(capsys, *words)
    rows = [json.loads(line) for line in printed.splitlines()]
    assert len(rows) == 7
    assert rows[0] == {"source": "old/a/v1.zarr", "destination": "v3/a/v1.zarr", "codecs": "zstd:5"}
    assert [path.name for path in Path().iterdir()] == ["old"]
    assert f"zarrlift batch run {old.parent / 'all.jsonl'}" in batch(capsys, *words, "-o", "all.jsonl")
    assert Path("all.jsonl").read_text() == printed
    assert sorted(path.name for path in Path().iterdir()) == ["all.jsonl", "old"]
    batch(capsys, *words, "-o", "lists/all.jsonl")
    first = json.loads(Path("lists/all.jsonl").read_text().splitlines()[0])
    assert first["source"] == str(old / "a/v1.zarr")
    absolute = batch(capsys, "list", str(old), *TO_RELATIVE)
    assert json.loads(absolute.splitlines()[0])["source"] == str(old / "a/v1.zarr")


def test_what_is_refused_or_fails_is_on_standard_error_once(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(old, "a/v1.zarr", BROKEN, NOTHING)
    for words, lead in ((("old", *TO_RELATIVE), "  "), ((LIST, "--json"), "zarrlift: ")):
        assert main(["batch", "run", *words]) == 1
        out, err = capsys.readouterr()
        lines = err.splitlines()
        assert ("zarrlift: incomplete: 1 done, 1 failed, 1 refused" in lines) is ("--json" in words)
        assert sum(": failed: " in line or line.startswith(f"{lead}failed: ") for line in lines) == 1
        assert sum(line.startswith(f"{lead}refused: ") for line in lines) == 1
        assert "  refused: " not in out
        assert "  failed: " not in out
    main(["status", LIST])
    assert not capsys.readouterr().err


def test_finish_asks_once(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old/a", "--in-place")
    batch(capsys, "verify", IN_PLACE)
    assert as_json(capsys, "finish", IN_PLACE, code=2)["expected"] == "--yes, or a terminal"
    batch(capsys, "finish", IN_PLACE, "--yes")
    assert not (old / "a/v2.zarr/.zgroup").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "batch run needs LIST..."),
        (("run", "old"), "a destination is needed"),
        (("run", "gone", "--to", "x/{name}"), "gone"),
        (("run", "old", "--to", "x/{other}"), "the template has an unknown field"),
        (("run", "old", "--to", "x/{name}", "--in-place"), "no destination"),
        (("run", "old", *TO_RELATIVE, "-o", "v3.txt"), "suffix of JSON lines"),
        (("list", "old", *TO_RELATIVE, "-o", "v3.csv"), "suffix of JSON lines"),
        (("list", "old", "--to", "s3://user:hunter2@bucket/{name}"), "does not store users"),
    ],
)
def test_what_is_wrong_with_a_request(
    old: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in json.dumps(as_json(capsys, *words, code=2))
    assert sorted(path.name for path in Path().iterdir()) == ["old"]


def test_no_secret_is_stored_or_shown(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "hunter2-planted"
    memory = fsspec.filesystem("memory")
    for name in ("a/v2.zarr", BROKEN):
        memory.put(str(old / name), f"/secret/{name}", recursive=True)
    try:
        watched = {"log": "log.jsonl"}
        options = {"token": secret}
        made = zarrlift.batch("memory://secret", to="v3/{relative}.zarr", storage_options=options, **watched)
        write_batch_page(made.outcome, "page.html")
    finally:
        memory.rm("/secret", recursive=True)
    assert made.outcome.counts == {"done": 1, "failed": 1}
    jobs = [Path(row.job) for row in made.rows if row.begun()]
    assert len(jobs) == 2
    shown = (str(made.outcome), json.dumps(made.outcome.to_json()), caplog.text)
    files = (
        made.path,
        *jobs,
        *map(Path, (*watched.values(), "page.html")),
    )
    written = [path.read_bytes() for path in files]
    assert all(written)
    for content in (*written, *(text.encode() for text in shown)):
        assert secret.encode() not in content


def test_a_hostile_name_is_shown_as_text(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(old / "a/v2.zarr", old / "c/\x1b[31mred\n.zarr")
    text = batch(capsys, "run", "old/c", *TO_RELATIVE)
    assert "\x1b" not in text
    assert tree(Path("v3"))


def test_one_report_has_all_archives(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(old, "a/v2.zarr", BROKEN, NOTHING)
    batch(capsys, "run", "old", *TO_RELATIVE, code=1)
    assert main(["status", "--check", "--verbose", LIST, "--json", "--html", "all.html"]) == 1
    page = Path("all.html").read_text()
    assert all(row in page for row in ("a/v2.zarr", BROKEN, NOTHING))
    archives = json.loads(capsys.readouterr().out)["result"]["archives"]
    statuses = {row["name"].removeprefix("old/"): row["status"] for row in archives}
    assert len(statuses) == 3
    assert statuses[NOTHING] is None
    assert statuses["a/v2.zarr"]["state"] == "done"


def test_what_is_for_one_archive_is_no_option_of_a_batch(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(capsys, "run", "old/a", *TO_RELATIVE)
    assert main(["verify", LIST, "--from", "n5"]) == 2
    assert "options of one archive or of its job are given for a batch" in capsys.readouterr().err


# A batch that is killed, or interrupted, goes on as if nothing had been.

KILLED_RUN = Path(__file__).parents[1] / "faults" / "killed_run.py"
WORDS = ("batch", "run", "old", "--to", "v3/{relative}.zarr", "--workers", "1", "-q")


def changes(at: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the batch, killed before a change to the folder; 0 counts the changes."""
    words = (sys.executable, str(KILLED_RUN), str(at), str(folder), *WORDS)
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_killed_batch_goes_on_to_the_same_trees(old: Path) -> None:
    here = Path().absolute()
    total = int(changes(0, here).stderr.split()[-1])
    calm = results(Path("v3"))
    Path("v3").rename("calm")
    for path in Path().glob("v3.zarrlift.*"):
        path.unlink()
    for share in (10, 25, 50, 75, 95):  # the last ones are resumed runs that are killed again
        ended = changes(max(total * share // 100 // 4, 1), here)
        assert ended.returncode in (-signal.SIGKILL, 1)
        assert ended.returncode == -signal.SIGKILL or share > 10
    made = zarrlift.batch("old", to="v3/{relative}.zarr")
    assert made.outcome.counts == {"done": 5, "failed": 1, "refused": 1}
    assert results(Path("v3")) == calm
    left = [path.name for path in Path("v3").rglob("*.zarrlift*") if not path.name.endswith(".zarrlift.db")]
    assert [name for name in left if not name.endswith(".inventory")] == ["nothing.zarr.zarrlift.refused"]


def stop_after(event: Event) -> None:
    """Ctrl-C when the first archive has ended."""
    if isinstance(event, Ended) and event.archive is not None:
        raise KeyboardInterrupt


def test_an_interrupted_batch_can_be_resumed(old: Path) -> None:
    keep(old, "a/v1.zarr", "a/v2.zarr", "b/n5.n5", BROKEN, NOTHING)
    with pytest.raises(Interrupted) as raised:
        zarrlift.batch("old", to="v3/{relative}.zarr", workers=2, progress=stop_after)
    made = zarrlift.Batch(raised.value.job)
    assert 0 < made.status().counts["pending"] < 5
    made.resume()
    assert made.outcome.counts == {"done": 3, "failed": 1, "refused": 1}
    zarrlift.batch("old", to="calm/{relative}.zarr")
    assert results(Path("v3")) == results(Path("calm"))

"""A batch does what `migrate` does to each of its archives, and no archive and no kill stops the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
import zarr
from tests.support.job_archives import results, tree

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import Interrupted, JobError, UsageError
from zarrlift.jobs.batch.rows import BatchRow
from zarrlift.report.batch import progress_line
from zarrlift.report.html.pages import write_batch_page
from zarrlift.transfer.events import Ended, Event

from .conftest import BROKEN, NOTHING, SOUND

TO = "v3/{relative}.zarr"


def states(batch: zarrlift.Batch) -> dict[str, str]:
    """The state of each archive."""
    return {row.relative: row.state for row in batch.rows}


def begun(batch: zarrlift.Batch) -> list[BatchRow]:
    """The archives that have a job."""
    return [row for row in batch.rows if row.begun()]


def alone(old: Path, folder: Path) -> dict[str, bytes]:
    """What `migrate` makes of each archive."""
    for name in (*SOUND, BROKEN):
        stem = name.removesuffix(".zip").removesuffix(".zarr").removesuffix(".n5").removesuffix(".zr3")
        zarrlift.migrate(old / name, folder / f"{stem}.zarr", job=folder.parent / f"{stem}.zarrlift.db")
    return results(folder)


def test_each_archive_is_migrated_as_if_alone(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    expected = dict.fromkeys(SOUND, "done") | {BROKEN: "failed", NOTHING: "refused"}
    assert states(made) == expected
    assert not made.outcome.ok
    assert made.outcome.state == "incomplete"
    assert results(Path("v3")) == alone(old, Path("alone"))
    problems = {row.relative: row.problems for row in made.rows if row.problems}
    assert problems[BROKEN][0].node == "bad"
    assert "no" in problems[NOTHING][0].message
    assert BROKEN in made.table()
    names = sorted(name for name in os.listdir() if name.startswith("v3"))
    assert names == ["v3", "v3.zarrlift.events.jsonl", "v3.zarrlift.jsonl"]


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
    file.write_text(file.read_text().replace('"version": 1', '"version": 99', 1))
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
    assert results(Path("v3")) == alone(old, Path("alone"))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_byte(old: Path, workers: int) -> None:
    zarrlift.batch("old", to=TO, workers=workers)
    zarrlift.batch("old", to="other/{relative}.zarr")
    assert results(Path("v3")) == results(Path("other"))


def test_processes_that_run_one_list_divide_its_archives(old: Path) -> None:
    planned = zarrlift.batch("old", to=TO, run=False)
    words = [sys.executable, "-m", "zarrlift", "batch", "run", str(planned.path), "--workers", "1", "--json"]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(3)]
    ended = [json.loads(process.communicate()[0])["result"] for process in processes]
    assert planned.status().counts == {"done": 5, "failed": 1, "refused": 1}
    assert 7 <= sum(one["ran"] for one in ended) <= 5 + 3 * 2  # refused and failed ones are tried again
    assert results(Path("v3")) == alone(old, Path("alone"))


def test_the_life_of_a_batch_in_place(old: Path) -> None:
    for name in ("zip.zarr.zip", "b/draft.zr3", NOTHING, BROKEN):
        shutil.rmtree(old / name) if (old / name).is_dir() else (old / name).unlink()
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
    rows = {row.relative: row for row in told.rows}
    assert rows["v2.zarr"].problems
    assert rows["v2.zarr"].verified is None
    assert rows["v1.zarr"].verified == "full"
    with pytest.raises(JobError, match="copies keep their sources"):
        made.finish()


def test_undo_removes_what_a_run_left_that_was_killed_before_it_had_a_job(old: Path) -> None:
    made = zarrlift.batch("old", to=TO, run=False)
    job = Path(made.rows[0].job)
    script = "import sys; from zarrlift.storage.local.partial_files import partial_name as name"
    script += "; open(name(sys.argv[1]), 'w').close()"
    job.parent.mkdir(parents=True)
    subprocess.run((sys.executable, "-c", script, job), check=True)
    assert len(list(job.parent.glob("*.partial"))) == 1
    assert made.undo().state == "undone"
    assert list(job.parent.iterdir()) == []
    assert made.run().counts["done"] == 5


def test_undo_takes_no_notice_of_a_source_that_is_gone(old: Path) -> None:
    Path("list.csv").write_text("source,destination\nold/gone.zarr,v3/g.zarr\nold/a/v1.zarr,v3/n.zarr\n")
    made = zarrlift.batch("list.csv")
    assert made.outcome.counts == {"done": 1, "refused": 1}
    assert made.undo().state == "undone"


@pytest.mark.parametrize(
    "torn", ['{"destination": "v3/a/v2.zarr", "state": "ref', "\0\0\0\n", '{"destination": 1}\n']
)
def test_a_torn_event_is_ignored(torn: str, old: Path) -> None:
    made = zarrlift.batch("old", to=TO, run=False)
    before = made.status()
    with open("v3.zarrlift.events.jsonl", "a") as file:
        file.write(torn)
    assert made.status() == before
    assert made.run().counts == {"done": 5, "failed": 1, "refused": 1}
    Path("v3.zarrlift.events.jsonl").unlink()
    assert made.status().counts == {"done": 5, "failed": 1, "pending": 1}


def test_what_is_noted_of_archives_that_are_done_is_what_their_jobs_say(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = zarrlift.batch("old", to=TO)
    noted = Path("v3.zarrlift.events.jsonl")
    for act in (lambda: made.verify(full=True), made.update, made.undo, made.run):
        act()
        rows = begun(made)
        moved = noted.rename("elsewhere")
        assert begun(made) == rows
        moved.rename(noted)
    done = zarrlift.Batch(made.path, only="a/*")
    monkeypatch.setattr("zarrlift.jobs.batch.list_file.of_job", None)
    assert done.status().counts == {"done": 2}, "without a look into any job"


@pytest.mark.parametrize(
    "change",
    [
        lambda: zarrlift.verify("v3/a/v2.zarr", full=True),
        lambda: zarrlift.undo("v3/a/v2.zarr"),
        lambda: Path("v3/a/v2.zarr.zarrlift.db").write_bytes(b"SQLite format 3\0"),
        lambda: Path("v3/a/v2.zarr.zarrlift.db").unlink(),
        lambda: shutil.copy("v3/a/v1.zarr.zarrlift.db", "v3/a/v2.zarr.zarrlift.db"),
    ],
    ids=["verified", "undone", "damaged", "gone", "that of another archive"],
)
def test_what_is_noted_does_not_count_where_a_job_has_changed(
    change: Callable[[], object], old: Path
) -> None:
    made = zarrlift.batch("old", to=TO)
    change()
    rows = begun(made)
    Path("v3.zarrlift.events.jsonl").unlink()
    assert begun(made) == rows


def test_undo_takes_back_all_archives(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    assert made.undo().state == "undone"
    assert results(Path("v3")) == {}
    assert made.resume().ran == 0
    assert made.run().counts == {"done": 5, "failed": 1, "refused": 1}


def test_the_job_of_an_archive_is_where_migrate_puts_it(old: Path) -> None:
    made = zarrlift.batch("old", to=TO)
    rows = {row.relative: row for row in made.rows}
    job = Path(rows["a/v2.zarr"].job)
    assert job == Path("v3/a/v2.zarr.zarrlift.db").absolute()
    assert zarrlift.status("v3/a/v2.zarr").state == "done"
    assert zarrlift.status(job).destination == str(Path("v3/a/v2.zarr").absolute())
    assert not rows[NOTHING].begun()
    zarrlift.verify("v3/a/v2.zarr", full=True)
    assert {row.relative: row.verified for row in made.rows}["a/v2.zarr"] == "full"
    assert zarrlift.migrate("old/a/v2.zarr", "v3/a/v2.zarr").state == "nothing to do"


def test_an_archive_that_was_migrated_before_is_done(old: Path) -> None:
    zarrlift.migrate("old/a/v2.zarr", "v3/a/v2.zarr")
    made = zarrlift.batch("old/a", to="v3/a/{relative}.zarr")
    assert made.outcome.ran == 1
    assert made.outcome.state == "done"


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
    some = zarrlift.Batch("v3", only="a/*")
    assert some.run().counts == {"done": 2}
    assert zarrlift.Batch("v3").status().counts == {"done": 2, "pending": 4, "refused": 1}
    assert zarrlift.Batch("v3", only="v3/a/v1.zarr").undo().counts == {"undone": 1}
    with pytest.raises(UsageError, match="no archive of the list matches"):
        zarrlift.Batch("v3", only="c/*")


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
    assert zarrlift.Batch("old/a").undo().state == "undone"
    assert results(old / "a") == before


def test_an_archive_that_was_refused_as_a_whole_is_planned_anew(old: Path) -> None:
    archive = old / "c/one.zarr"
    archive.mkdir(parents=True)
    (archive / ".zarray").write_text("{")
    made = zarrlift.batch("old/c", to="v3/c/{relative}.zarr")
    assert made.outcome.counts == {"refused": 1}
    shutil.rmtree(archive)
    shutil.copytree(old / "a/v2.zarr", archive)
    zarr.consolidate_metadata(archive, zarr_format=2)
    assert made.resume().state == "done"
    assert zarr.open_group("v3/c/one.zarr", mode="r").metadata.consolidated_metadata is not None


def test_an_archive_whose_document_is_gone_is_named_and_left_alone(old: Path) -> None:
    made = zarrlift.batch("old/a", in_place=True)
    (old / "a/v2.zarr/zarr.json").unlink()
    again = made.run()
    assert not again.ok
    told = {row.relative: row.problems for row in again.rows}
    assert "what this job wrote is gone" in told["v2.zarr"][0].message


def test_the_commands_for_one_archive_say_that_this_is_a_batch(old: Path) -> None:
    zarrlift.batch("old", to=TO, run=False)
    with pytest.raises(JobError, match=r"zarrlift\.Batch"):
        zarrlift.status("v3.zarrlift.jsonl")
    zarrlift.migrate("old/a/v2.zarr", "one.zarr")
    with pytest.raises(JobError, match="no such list"):
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
    assert results(Path("v3")) == results(Path("alone"))


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


# The commands of `zarrlift batch`: what they print, and their exit codes.

TO_RELATIVE = ("--to", "v3/{relative}.zarr")


def batch(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints."""
    assert main([*(["batch"] if words[0] == "run" else []), *words]) == code
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
    rows = as_json(capsys, "run", "--dry-run", "v3.zarrlift.jsonl", code=1)["archives"]
    formats = Counter(row["format"] or "unknown" for row in rows)
    assert f"\n  formats  {', '.join(f'{formats[name]} {name}' for name in sorted(formats))}\n" in text
    assert f"\n  objects  {sum(row['objects'] for row in rows)}\n" in text
    assert "(2 times)" in text
    assert "more/one.zarr, /, key '.zarray'" in text
    refusals = [problem for row in rows for problem in row["problems"] if problem["severity"] == "refusal"]
    assert len(refusals) == sum(row["state"] == "refused" for row in rows) == 3


def test_a_folder_of_archives_is_not_inspected_as_one(old: Path) -> None:
    with pytest.raises(UsageError, match="a folder of several archives") as refused:
        zarrlift.inspect(write_two(old.parent / "two"))
    assert "zarrlift batch run" in str(refused.value)


def write_two(folder: Path) -> Path:
    for name in ("a.zarr", "b.zarr"):
        zarr.create_group(folder / name, zarr_format=2).create_array("x", shape=(2,), dtype="i4")
    return folder


def test_from_a_plan_to_the_end(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  zarrlift batch run /" in batch(capsys, "run", "--dry-run", "old", *TO_RELATIVE, code=1)
    assert as_json(capsys, "status", "v3", "--watch", code=1)["counts"] == {"pending": 6, "refused": 1}
    text = batch(capsys, "run", "v3.zarrlift.jsonl", code=1)
    assert "7 archives: 5 done, 1 failed, 1 refused" in text
    assert "zarrlift resume /" in text
    assert as_json(capsys, "resume", "v3", code=1)["ran"] == 2
    told = as_json(capsys, "verify", "v3", "--full", code=1)
    assert {row["verified"] for row in told["archives"]} == {"full", None}
    assert as_json(capsys, "finish", "v3", "--yes", code=1)["message"].startswith(
        "there is nothing to finish"
    )
    assert "undone" in batch(capsys, "undo", "v3", "--yes")


def test_what_is_refused_or_fails_is_on_standard_error_once(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("old", *TO_RELATIVE), ("v3.zarrlift.jsonl", "--json")):
        assert main(["batch", "run", *words]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert "zarrlift: incomplete: 5 done, 1 failed, 1 refused" in lines
        assert sum(": failed: " in line or line.startswith("zarrlift: failed: ") for line in lines) == 1
        assert sum(line.startswith("zarrlift: refused: ") for line in lines) == 1
    main(["status", "v3"])
    assert not capsys.readouterr().err


def test_a_finished_batch_has_nothing_to_do(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    batch(capsys, "run", "old", *TO_RELATIVE)
    assert "Nothing to do: every archive is done." in batch(capsys, "run", "old", *TO_RELATIVE)
    shutil.copytree(old / "a/v2.zarr", old / "new.zarr")
    text = batch(capsys, "run", "old", *TO_RELATIVE, code=1)
    assert f"not in the list: {old / 'new.zarr'}" in text
    assert "6 done" in batch(capsys, "run", "old", *TO_RELATIVE, "--update")


def test_finish_asks_once(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old/a", "--in-place")
    batch(capsys, "verify", "old/a")
    assert as_json(capsys, "finish", "old/a", code=2)["expected"] == "--yes, or a terminal"
    batch(capsys, "finish", "old/a", "--yes")
    assert not (old / "a/v2.zarr/.zgroup").exists()


def test_commands_take_only_some_archives(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old", *TO_RELATIVE, "--only", "a/*")
    assert as_json(capsys, "status", "v3", code=1)["counts"] == {"done": 2, "pending": 4, "refused": 1}
    assert as_json(capsys, "verify", "v3", "--only", "a/v1*", "--full")["ran"] == 1
    assert as_json(capsys, "undo", "v3", "--only", "v3/a/v1.zarr", "--yes")["counts"] == {"undone": 1}
    assert as_json(capsys, "status", "v3", "--only", "a/*", code=1)["counts"] == {"done": 1, "undone": 1}
    told = as_json(capsys, "status", "v3/a/v2.zarr", "--only", "a/*", code=2)
    assert told["message"] == "--only is for a list of archives"


@pytest.mark.parametrize("verb", ["status", "resume", "verify", "update", "undo"])
def test_an_archive_of_a_batch_is_that_of_any_job(
    verb: str, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(capsys, "run", "old/a", "--to", "v3/a/{relative}.zarr")
    words = [verb, "v3/a/v2.zarr", *(["--yes"] if verb == "undo" else []), "--json"]
    assert main(words) == 0
    assert "archives" not in json.loads(capsys.readouterr().out)["result"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "batch run needs LIST..."),
        (("run", "old"), "a destination is needed"),
        (("run", "gone", "--to", "x/{name}"), "gone"),
        (("run", "old", "--to", "x/{other}"), "the template has an unknown field"),
        (("run", "old", "--to", "x/{name}", "--in-place"), "no destination"),
        (("run", "old", *TO_RELATIVE, "--list", "v3.jsonl"), "a list needs the usual suffix"),
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
    shown = (made.table(), str(made.outcome), json.dumps(made.outcome.to_json()), caplog.text)
    files = (
        made.path,
        made.path.with_name("v3.zarrlift.events.jsonl"),
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
    batch(capsys, "run", "old", *TO_RELATIVE, code=1)
    assert main(["status", "--check", "--verbose", "v3", "--json", "--html", "all.html"]) == 1
    page = Path("all.html").read_text()
    assert all(row in page for row in ("a/v2.zarr", BROKEN, NOTHING))
    archives = json.loads(capsys.readouterr().out)["result"]["archives"]
    statuses = {row["relative"]: row["status"] for row in archives}
    assert len(statuses) == 7
    assert statuses[NOTHING] is None
    assert statuses["a/v2.zarr"]["state"] == "done"


def test_what_is_for_one_archive_is_no_option_of_a_batch(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(capsys, "run", "old", *TO_RELATIVE, code=1)
    assert main(["verify", "v3", "--from", "n5"]) == 2
    assert "options of one archive or of its job are given for a batch" in capsys.readouterr().err


# A batch that is killed, or interrupted, goes on as if nothing had been; `claims.py` does it more often.

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
    assert [name for name in left if not name.endswith(".inventory")] == []


def stop_after(event: Event) -> None:
    """Ctrl-C when the first archive has ended."""
    if isinstance(event, Ended) and event.archive is not None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_batch_can_be_resumed(old: Path, workers: int) -> None:
    with pytest.raises(Interrupted) as raised:
        zarrlift.batch("old", to="v3/{relative}.zarr", workers=workers, progress=stop_after)
    made = zarrlift.Batch(raised.value.job)
    assert 0 < made.status().counts["pending"] < 7
    made.resume()
    assert made.outcome.counts == {"done": 5, "failed": 1, "refused": 1}
    zarrlift.batch("old", to="calm/{relative}.zarr")
    assert results(Path("v3")) == results(Path("calm"))

"""Which job a command means, and what is said where there is none, another, or one that cannot be read."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zarr
from tests.support.job_archives import tree
from tests.support.job_processes import stopping
from tests.zarrlift.jobs.test_status import alike

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.errors import JobError, UsageError
from zarrlift.jobs.ledger import database
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.run import Run
from zarrlift.storage.local import open_directories
from zarrlift.transfer.events import Event, Planned, TaskDone

OTHER = Recipe(base=ArrayRecipe(codecs="zstd:3"))


def test_a_job_with_other_options_is_called_that(source: Path, destination: Path) -> None:
    zarrlift.migrate(source, destination)
    with pytest.raises(JobError, match="belongs to a different job") as told:
        zarrlift.migrate(source, destination, recipe=OTHER, include="**", shard_index="bytes")
    found = "a job of the same source and destination with another codecs, include, shard-index"
    assert told.value.problem.found == found
    assert told.value.problem.advice == "Undo it, use --overwrite, or give another --job."


def test_a_job_of_another_source_is_named_with_it(source: Path, destination: Path) -> None:
    zarrlift.migrate(source, destination)
    with pytest.raises(JobError, match=re.escape(f"found {source} to {destination}")):
        zarrlift.migrate(source / "g", destination)


def test_in_place_no_overwriting_is_advised(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    with pytest.raises(JobError, match="belongs to a different job") as told:
        zarrlift.migrate(source, in_place=True, recipe=Recipe(consolidate=True))
    assert told.value.problem.advice == "Undo it, or give another --job."


def test_the_source_of_a_copy_elsewhere_leads_to_no_job(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    zarrlift.migrate(source, tmp_path / "results/out.zarr")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JobError, match="is next to its destination: name"):
        zarrlift.status(source)
    assert zarrlift.status("results/out.zarr").state == "done"


class Told:
    """Progress that is only written down."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.total = event.bytes
        elif isinstance(event, TaskDone):
            self.done += event.bytes_in


def test_two_urls_with_one_last_name_have_two_job_files(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    urls = [f"memory://{tmp_path.name}/{run}/data.zarr" for run in ("r1", "r2")]
    outcomes = [zarrlift.migrate(source, url) for url in urls]
    assert [outcome.state for outcome in outcomes] == ["done", "done"]
    files = [Path(outcome.job) for outcome in outcomes]
    assert {file.parent for file in files} == {tmp_path}
    assert all(re.fullmatch(r"data\.zarr-[0-9a-f]{8}\.zarrlift\.db", file.name) for file in files)
    for url, file in zip(urls, files, strict=True):
        assert zarrlift.status(f"{url}/").job == str(file)
        assert zarrlift.resume(url).state == "nothing to do"
        assert zarrlift.undo(url).job == str(file)


def test_inside_a_folder_that_has_a_job_that_job_is_named(source: Path, tmp_path: Path) -> None:
    zarrlift.migrate(source, tmp_path / "out.zarr")
    with pytest.raises(JobError, match="no job was found") as told:
        zarrlift.status(tmp_path / "out.zarr" / "g")
    place = tmp_path / "out.zarr"
    assert told.value.problem.advice == (
        f"There is a job for {place}, which contains it. Name that folder: zarrlift status {place}"
    )


def test_an_archive_of_a_batch_without_a_job_leads_to_the_list(source: Path, tmp_path: Path) -> None:
    zarrlift.batch(source, to=str(tmp_path / "results/{relative}.zarr"), run=False)
    with pytest.raises(JobError, match="no job was found") as told:
        zarrlift.status(tmp_path / "results/ocean.zarr")
    place = tmp_path / "results"
    assert told.value.problem.advice == (
        f"There is a list of archives for {place}. Name the list: zarrlift status {place}.zarrlift.jsonl"
    )


# A destination in its source, or the other way round, under whatever path.


REAL_STAT = os.stat


def archive(path):
    zarr.create_array(path, shape=(8,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 7
    return path


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def show_twice(monkeypatch, directory, second):
    """Make the file system say that a path is another directory, as for a bind mount."""

    def stat(path, *args, **options):
        shown = directory if os.fspath(path) == os.fspath(second) else path
        return REAL_STAT(shown, *args, **options)

    monkeypatch.setattr(os, "stat", stat)


@pytest.mark.parametrize(
    ("source", "destination", "again", "message"),
    [
        ("r/s.zarr", "q/s.zarr", "q/s.zarr", "source and destination are the same place"),
        ("r/s.zarr", "q/deep/out.zarr", "q", "the destination is inside the source"),
    ],
)
def test_device_and_number_tell_the_same_directory(
    source, destination, again, message, tmp_path, monkeypatch
):
    old = archive(tmp_path / source)
    (tmp_path / again).mkdir(parents=True)
    before = files(tmp_path)
    show_twice(monkeypatch, old, tmp_path / again)
    with pytest.raises(UsageError, match=message):
        zarrlift.migrate(old, tmp_path / destination, overwrite=True)
    assert files(tmp_path) == before


def test_device_and_number_tell_a_directory_above_the_source(tmp_path, monkeypatch):
    old = archive(tmp_path / "r" / "s.zarr")
    (tmp_path / "q").mkdir()
    before = files(tmp_path)
    show_twice(monkeypatch, tmp_path / "r", tmp_path / "q")
    with pytest.raises(UsageError, match="the source is inside the destination"):
        zarrlift.migrate(old, tmp_path / "q", overwrite=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("below", ["", "deep/"])
def test_a_claim_that_appears_in_the_source_tells_where_no_number_does(below, tmp_path, monkeypatch):
    """One directory of a server that is mounted twice has two devices and two sets of numbers."""
    old = archive(tmp_path / "r" / "s.zarr")
    (old / below).mkdir(exist_ok=True)
    (tmp_path / "q").symlink_to(old)
    before = files(tmp_path)
    real = os.path.realpath
    # Links that are not resolved are directories to everything else.
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: os.path.abspath(path))
    monkeypatch.setattr(open_directories, "NO_LINK", 0)
    monkeypatch.setattr(open_directories.OpenDirectories, "require_same", lambda _: None)

    def stat(path, *args, **options):
        facts = REAL_STAT(path, *args, **options)
        return facts if not str(path).startswith(str(tmp_path / "q")) else Facts(facts)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(UsageError, match="the destination is inside the source"):
        zarrlift.migrate(old, tmp_path / "q" / below / "out.zarr")
    monkeypatch.setattr(os.path, "realpath", real)
    assert files(tmp_path) == before


class Facts:
    """What another mount says of a file: its own device."""

    def __init__(self, facts):
        self._facts = facts
        self.st_dev = facts.st_dev + 1

    def __getattr__(self, name):
        return getattr(self._facts, name)


def test_places_that_are_apart_are_not_refused(tmp_path):
    old = archive(tmp_path / "x.zarr")
    (tmp_path / "x").mkdir()
    assert zarrlift.migrate(old, tmp_path / "x" / "x.zarr").ok
    assert zarrlift.migrate(old, tmp_path / "x" / "x.zarr", overwrite=True).ok


@pytest.mark.slow(one_in=3)
@pytest.mark.needs_reader("mount")
@pytest.mark.parametrize(
    ("shown", "point", "source", "destination", "message"),
    [
        ("p", "q", "p/s.zarr", "q/s.zarr", "source and destination are the same place"),
        ("p/s.zarr", "q", "p/s.zarr", "q/out.zarr", "the destination is inside the source"),
        ("p/s.zarr/g", "q", "p/s.zarr", "q/out.zarr", "the destination is inside the source"),
        ("p/s.zarr/g", "q", "q/a", "p/s.zarr/g/a", "source and destination are the same place"),
        ("p", "a folder", "a folder/s.zarr/g", "p/s.zarr", "the source is inside the destination"),
    ],
)
def test_bind_mounts(shown, point, source, destination, message, tmp_path):
    zarr.open_group(tmp_path / "p" / "s.zarr", mode="w", zarr_format=2).create_group("g")
    archive(tmp_path / "p" / "s.zarr" / "g" / "a")
    (tmp_path / point).mkdir()
    before = files(tmp_path)
    line = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = [sys.executable, "-m", "zarrlift", "migrate", source, destination, "--overwrite"]
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", line, "sh", shown, point, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"zarrlift: {message}")
    assert files(tmp_path) == before


def test_no_folder_is_searched_for_a_job(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder may have thousands of jobs; that of a place has a name of its own."""
    monkeypatch.chdir(tmp_path)
    job = tmp_path / "other.zarrlift.db"
    zarrlift.migrate(source, tmp_path / "out.zarr", job=job)
    with monkeypatch.context() as patch:
        patch.setattr(Job, "open", lambda *_, **__: pytest.fail("a job of another place was opened"))
        for place in (source, tmp_path / "out.zarr", "memory://out.zarr"):
            with pytest.raises(JobError, match="no job was found for this location"):
                zarrlift.status(place)
    assert zarrlift.status(tmp_path / "out.zarr", job=job).state == "done"


def test_a_job_file_in_a_store_is_refused(source: Path, tmp_path: Path) -> None:
    url, refused = "s3://me:secret@bucket/x.zarrlift.db", "a job file is a file, not an object of a store"
    with pytest.raises(UsageError, match=f"{refused}; found s3://bucket/x"):
        zarrlift.migrate(source, tmp_path / "out.zarr", job=url)
    for call in (zarrlift.status, zarrlift.resume, zarrlift.undo):
        with pytest.raises(UsageError, match=refused):
            call(source, job=url)
    assert not list(tmp_path.glob("out*"))


# Job files of another version, and damaged ones, are refused by name and stay as they are.


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The file of a job, of which nothing is done."""
    path = tmp_path / "job.db"
    with stopping(Run, "__call__"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(alike(tmp_path / "a.zarr"), tmp_path / "out.zarr", job=path)
    return path


def change(job: Path, statement: str) -> None:
    with closing(sqlite3.connect(job)) as database:
        database.execute(statement)
        database.commit()


def in_doubt(job: Path) -> None:
    """Make a job file of another version that a process was killed over: with a journal to roll back."""
    copies = {}
    with closing(sqlite3.connect(job, isolation_level=None)) as db:
        db.execute("UPDATE meta SET value = '0' WHERE name = 'version'")
        db.execute("BEGIN")
        db.execute("UPDATE meta SET value = 'later' WHERE name = 'updated'")
        for name in (job.name, f"{job.name}-journal"):
            copies[name] = job.with_name(name).read_bytes()
        db.execute("ROLLBACK")
    for name, content in copies.items():
        job.with_name(name).write_bytes(content)


LEAVE_CLAIM = """
import os, sys
from pathlib import Path
from zarrlift.jobs.claim import claimed
from zarrlift.storage.open_storage import open_storage
claim = claimed(open_storage(sys.argv[1], mode="w"), Path(sys.argv[2]))
claim.__enter__()
os._exit(0)
"""
VERBS: dict[str, Callable[[Path, Path], object]] = {
    "migrate": zarrlift.migrate,
    "overwrite": lambda source, result: zarrlift.migrate(source, result, overwrite=True),
    "plan": zarrlift.plan,
    "resume": lambda _, result: zarrlift.resume(result),
    "update": lambda _, result: zarrlift.update(result),
    "plan_update": lambda _, result: zarrlift.plan_update(result),
    "finish": lambda _, result: zarrlift.finish(result),
    "undo": lambda _, result: zarrlift.undo(result),
    "status": lambda _, result: zarrlift.status(result),
}


def test_a_job_of_another_version_is_refused_before_anything_is_touched(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "out.zarr"
    job = Path(zarrlift.migrate(source, result).job)
    subprocess.run([sys.executable, "-c", LEAVE_CLAIM, str(result), str(job)], check=True)
    in_doubt(job)
    before = tree(tmp_path)
    assert {path.name for path in tmp_path.glob("out.zarr.*")} == {
        *(job.name, f"{job.name}-journal", "out.zarr.zarrlift.claim")
    }
    for verb, call in VERBS.items():
        with pytest.raises(JobError, match=f"another version; found 0; expected {database.VERSION}"):
            call(source, result)
        assert tree(tmp_path) == before, verb


@pytest.mark.parametrize("ends", [True, False], ids=["a reader that ends", "a reader that stays"])
def test_a_commit_waits_for_a_program_that_reads_the_job(
    ends: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0)
    monkeypatch.setattr(database, "_COMMITS", 3)
    path = Path(zarrlift.migrate(source, tmp_path / "out.zarr").job)
    warnings: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as reader, Job.open(path) as job:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchone()

        def warn(message: str, *_: object) -> None:
            warnings.append(message)
            if ends:
                reader.execute("ROLLBACK")

        monkeypatch.setattr(database.log, "warning", warn)
        job.note(verified="full")
        if ends:
            job.commit()
        else:
            with pytest.raises(JobError, match="End the other program that has it open"):
                job.commit()
    assert len(warnings) == 1
    assert zarrlift.status(path).verified == ("full" if ends else None)

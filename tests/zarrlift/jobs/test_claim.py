"""A job has its destination to itself, from before its first object to its end."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zarr
from obstore.store import MemoryStore as ObstoreMemory
from tests.support.job_archives import tree
from tests.support.job_processes import BEATEN, start_together, stopping
from zarr.storage import LocalStore, MemoryStore, ObjectStore, WrapperStore

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs import claim as claiming
from zarrlift.jobs.claim import Attempt, ClaimHolder, claimed
from zarrlift.jobs.ledger import database
from zarrlift.jobs.ledger.last_run import last_run
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.run import Run
from zarrlift.storage.base import CLAIM
from zarrlift.storage.local import partial_files
from zarrlift.storage.local.open_directories import OpenDirectory
from zarrlift.storage.local.owner_process import OwnerProcess
from zarrlift.storage.local.partial_files import partial_name
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.transformer_stack import without_layers
from zarrstack import Retry, stack
from zarrstack.core.errors import StorageError, UsageError
from zarrstack.system.this import system

HERE = OwnerProcess.of_this_process()
ELSEWHERE = replace(HERE, host="node7", machine="another", pid=4711)


@pytest.fixture(scope="module")
def owner_ended() -> int:
    """The id of a process that has ended, which no other one has yet."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.fixture
def ended(owner_ended: int) -> OwnerProcess:
    """A process that has ended."""
    return replace(HERE, pid=owner_ended)


def hold(destination: Path, owner: OwnerProcess, job: Path, **changes: Any) -> Path:
    """The claim of another process on a directory."""
    holder = ClaimHolder(token="1", job="0" * 8, file=str(job), owner=owner, since=0.0, **changes)
    file = destination.with_name(f"{destination.name}{claiming.BESIDE}")
    file.write_bytes(holder.to_bytes())
    return file


def left_of(tmp_path: Path) -> set[str]:
    """Names beside the source."""
    return {path.name for path in tmp_path.iterdir()} - {"source.zarr"}


# Who wins


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("before", ["nothing", "the claim of a dead process", "a take-over that was killed"])
def test_of_sixteen_that_start_together_one_wins(
    before: str, tmp_path: Path, destination: Path, ended: OwnerProcess
) -> None:
    if before != "nothing":
        claim = hold(destination, ended, tmp_path / "gone.db")
        if before == "a take-over that was killed":
            behind = claim.with_name(f"{claim.name}-{claiming._digest(claim.read_bytes())}")
            behind.write_bytes(claim.read_bytes().replace(b'"1"', b'"2"'))
    won, others = start_together(str(destination), tmp_path)
    assert won == 1
    assert others <= BEATEN
    assert left_of(tmp_path) == set()


@contextmanager
def running(source: Path, destination: Any, **options: Any) -> Iterator[None]:
    """While a migration on another thread is about to publish its first array."""
    here, there = threading.Event(), threading.Event()
    outcomes: list[zarrlift.Outcome] = []
    publish = Run._write_documents

    def wait(self: Run, arrays: list[Any]) -> None:
        here.set()
        there.wait()
        publish(self, arrays)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "_write_documents", wait)
        thread = threading.Thread(
            target=lambda: outcomes.append(zarrlift.migrate(source, destination, **options))
        )
        thread.start()
        here.wait()
        patched.undo()
        try:
            yield
        finally:
            there.set()
            thread.join()
    assert [outcome.ok for outcome in outcomes] == [True]


PLACES: dict[str, Callable[[Path], Any]] = {
    "a directory": lambda path: path / "out.zarr",
    "a directory under layers": lambda path: stack(LocalStore(path / "out.zarr"), Retry()),
    "memory": lambda _: MemoryStore(),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_second_job_into_the_same_destination_is_refused(place: str, source: Path, tmp_path: Path) -> None:
    destination = PLACES[place](tmp_path)
    with running(source, destination, job=tmp_path / "one.db"):
        for again in ("two.db", "one.db"):
            with pytest.raises(JobError, match=r"another (job is writing|process is running)") as told:
                zarrlift.migrate(source, destination, job=tmp_path / again, overwrite=True, take_over=True)
            assert f"process {os.getpid()} on {HERE.host}, since 20" in str(told.value.problem.found)
    storage = without_layers(open_storage(destination, mode="w"))
    assert storage.get(CLAIM) is None
    assert left_of(tmp_path) <= {"out.zarr", "one.db"}


def test_in_place_the_archive_is_claimed_by_whatever_name_it_has(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link.zarr").symlink_to(source)
    before = tree(source)
    with (
        claimed(LocalStorage(source), tmp_path / "one.db"),
        pytest.raises(JobError, match="another job is writing"),
    ):
        zarrlift.migrate(tmp_path / "link.zarr", in_place=True)
    assert tree(source) == before


def test_undo_and_finish_wait_for_no_one_either(source: Path, tmp_path: Path) -> None:
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok
    job = tmp_path / "source.zarr.zarrlift.db"
    claim = hold(source, ELSEWHERE, job)
    for work in (zarrlift.finish, zarrlift.undo):
        with pytest.raises(JobError, match="claimed by a process that cannot be checked"):
            work(source)
    assert zarrlift.finish(source, take_over=True).state == "finished"
    assert not claim.exists()
    assert zarrlift.undo(source).restored > 0


# What is left behind


def test_of_a_killed_job_the_job_itself_takes_the_claim_over(
    source: Path, tmp_path: Path, destination: Path, ended: OwnerProcess
) -> None:
    chunk = source / "g/relink/0.0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination).ok
    chunk.write_bytes(good)
    hold(destination, ended, tmp_path / "out.zarr.zarrlift.db")
    assert zarrlift.migrate(source, destination).ok
    assert left_of(tmp_path) == {"out.zarr", "out.zarr.zarrlift.db"}


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("command", ["resume", "finish", "undo"])
def test_a_claim_goes_also_where_nothing_else_is_left_to_do(
    command: str, source: Path, tmp_path: Path, ended: OwnerProcess
) -> None:
    """The process was killed right before it gave the place back."""
    run = {"resume": zarrlift.resume, "finish": zarrlift.finish, "undo": zarrlift.undo}[command]
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok
    run(source)
    claim = hold(source, ended, tmp_path / "source.zarr.zarrlift.db")
    assert run(source).state == "nothing to do"
    assert not claim.exists()


def test_an_undo_of_a_list_gives_back_what_a_killed_one_had_claimed(
    source: Path, tmp_path: Path, ended: OwnerProcess
) -> None:
    made = zarrlift.batch(
        str(source.parent / "*.zarr"), in_place=True, list_file=tmp_path / "all.zarrlift.jsonl"
    )
    assert made.undo().state == "undone"
    claim = hold(source, ended, tmp_path / "source.zarr.zarrlift.db")
    assert made.undo().state == "undone"
    assert not claim.exists()
    assert made.undo().state == "nothing to do"


def test_where_another_job_was_killed_that_one_is_named(
    source: Path, tmp_path: Path, ended: OwnerProcess
) -> None:
    """It may have written anything; without its job file nothing is known of it but what is there."""
    destination, other = tmp_path / "out.zarr", tmp_path / "other.db"
    assert zarrlift.migrate(source, tmp_path / "elsewhere.zarr", job=other).ok
    hold(destination, ended, other)
    with pytest.raises(JobError, match="another job was stopped while it wrote") as told:
        zarrlift.migrate(source, destination)
    assert told.value.problem.advice is not None
    assert f"zarrlift resume {other}" in told.value.problem.advice
    other.unlink()
    assert zarrlift.migrate(source, destination).ok


def test_a_claim_of_another_host_is_refused_with_what_is_known_of_it(source: Path, destination: Path) -> None:
    job = Path("/work/out.zarr.zarrlift.db")
    claim = hold(destination, ELSEWHERE, job)
    with pytest.raises(JobError, match="claimed by a process that cannot be checked from this host") as told:
        zarrlift.migrate(source, destination)
    assert told.value.problem.found == (
        f"process 4711 on node7, since 1970-01-01 00:00:00 UTC, job file {job}"
    )
    assert "--take-over" in str(told.value.problem.advice)
    assert not destination.exists()
    assert zarrlift.migrate(source, destination, take_over=True).ok
    assert not claim.exists()


SLURM = {"SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": "2"}
AWS = {"AWS_BATCH_JOB_ID": "ae1:3", "AWS_BATCH_JOB_ATTEMPT": "2"}


@pytest.mark.parametrize(
    ("environment", "taken"),
    [
        (SLURM, True),
        ({**SLURM, "SLURM_RESTART_COUNT": "1"}, False),  # the same attempt: another process of the element
        ({**SLURM, "SLURM_JOB_ID": "18"}, False),
        ({**SLURM, "SLURM_CLUSTER_NAME": "other"}, False),
        ({"SLURM_JOB_ID": "17"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_an_element_that_is_started_again_takes_its_own_claim_over(
    environment: dict[str, str], taken: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = Attempt.of_this_process({**SLURM, "SLURM_RESTART_COUNT": "1"})
    job = tmp_path / "out.zarr.zarrlift.db"
    hold(tmp_path / "out.zarr", ELSEWHERE, job, attempt=before)
    if taken:
        assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    else:
        with pytest.raises(JobError, match="cannot be checked from this host"):
            zarrlift.migrate(source, tmp_path / "out.zarr")


def test_the_attempts_of_schedulers_are_counted() -> None:
    first, second = (Attempt.of_this_process({**AWS, "AWS_BATCH_JOB_ATTEMPT": count}) for count in "12")
    assert first is not None
    assert second is not None
    assert first.element == second.element
    assert first.number < second.number
    assert Attempt.of_this_process({"JOB_COMPLETION_INDEX": "1"}) is None  # its pods are not counted
    holder = ClaimHolder(token="1", job="2", file="3", owner=HERE, since=0.0, attempt=second)
    assert ClaimHolder.from_bytes(holder.to_bytes()) == holder


def test_a_job_on_a_cloned_host_is_not_taken_over_in_silence(
    source: Path, tmp_path: Path, destination: Path, ended: OwnerProcess
) -> None:
    """Clones of a virtual machine share name and machine id; each has a boot of its own."""
    job = tmp_path / "out.zarr.zarrlift.db"
    with stopping(Run, "__call__"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(source, destination)
    with Job.open(job) as opened:
        clone = replace(ended, boot="another")
        run = last_run(opened)
        assert run is not None
        opened.note(run=replace(run, owner=clone, ended=None).to_text())
        claim = hold(destination, clone, job)
        claim.write_bytes(claim.read_bytes().replace(b'"00000000"', f'"{opened.id}"'.encode()))
        opened.commit()
    assert zarrlift.status(destination).activity == "unknown"
    for call in (zarrlift.resume, zarrlift.undo):
        with pytest.raises(JobError, match="cannot be checked from this host") as told:
            call(destination)
        assert "before it was restarted, or on another host of this name" in str(told.value.problem.found)
    assert zarrlift.resume(destination, take_over=True).ok
    assert not claim.exists()


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(("content", "taken"), [(b"", True), (b"\0" * 300, True), (b"something", False)])
def test_a_claim_that_a_power_failure_emptied_is_taken_over(
    content: bytes, taken: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming.time, "sleep", lambda _: None)
    (tmp_path / f"out.zarr{claiming.BESIDE}").write_bytes(content)
    if taken:
        assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    else:
        with pytest.raises(JobError, match=r"cannot be checked from this host.*cannot be read: b'something'"):
            zarrlift.migrate(source, tmp_path / "out.zarr")


def test_what_this_process_could_not_give_back_it_may_take_again(
    source: Path, tmp_path: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", _refuse_to_delete)
        outcome = zarrlift.migrate(source, destination)
    assert [problem.kind for problem in outcome.problems] == ["claim"]
    assert outcome.ok
    assert zarrlift.resume(destination).state == "nothing to do"
    assert not (tmp_path / f"out.zarr{claiming.BESIDE}").exists()


def _refuse_to_delete(*_: object) -> None:
    raise StorageError("cannot delete")


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_refused_migration_leaves_no_directory(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to migrate"):
        zarrlift.migrate(source, tmp_path / "a/b/out.zarr", recipe=zarrlift.Recipe(include=("none/**",)))
    assert left_of(tmp_path) == set()


# Where the claim is


def test_where_no_file_may_be_made_beside_it_the_archive_holds_its_claim(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an archive whose directory belongs to another user, say; whoever may write there sees it too."""
    link = os.link

    def only_inside(before: str, after: str, **directories: int | None) -> None:
        if after.endswith(claiming.BESIDE):
            _refuse()
        link(before, after, **directories)

    with monkeypatch.context() as patched:
        patched.setattr(partial_files.os, "link", only_inside)
        with claimed(LocalStorage(source), tmp_path / "one.db"):
            patched.undo()
            assert (source / CLAIM).exists()
            assert not [problem for problem in zarrlift.inspect(source).problems if problem.kind == "stray"]
            with pytest.raises(JobError, match="another job is writing"):
                zarrlift.migrate(source, in_place=True)
    assert not (source / CLAIM).exists()
    assert left_of(tmp_path) == set()


def test_without_hard_links_a_claim_is_exclusive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(partial_files.os, "link", no_links)
    file, at = tmp_path / "claim", OpenDirectory(str(tmp_path), None)
    assert [partial_files.create_file(at, file.name, data) for data in (b"one", b"two")] == [True, False]
    assert file.read_bytes() == b"one"


def test_a_claim_in_a_store_is_seen_by_no_reader(source: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    with running(source, store, job=tmp_path / "one.db"):
        storage = open_storage(store)
        assert storage.get(CLAIM) is not None
        assert CLAIM not in {entry.name for entry in storage.list_dir("")}
        assert CLAIM not in set(storage.list_prefix(""))
    assert zarrlift.verify(source, store, full=True).ok
    assert sorted(zarr.open_group(store, mode="r").members())


class Plain(WrapperStore[Any]):
    """A store of somebody else's, which asks first and writes then."""


def test_a_store_that_cannot_be_claimed_is_named_in_the_plan(source: Path, tmp_path: Path) -> None:
    store = Plain(LocalStore(tmp_path / "out.zarr"))
    noted = [problem for problem in zarrlift.plan(source, store).problems if problem.kind == "claim"]
    assert [problem.severity for problem in noted] == ["note"]
    for certain in (tmp_path / "out.zarr", MemoryStore()):
        assert "claim" not in {problem.kind for problem in zarrlift.plan(source, certain).problems}
    with running(source, store, job=tmp_path / "one.db"), pytest.raises(JobError, match="another job is"):
        zarrlift.migrate(source, store, job=tmp_path / "two.db")


REFUSALS: dict[str, tuple[Exception, bool | None]] = {
    "a library without it": (NotImplementedError("mode"), True),
    "a store without it, in obstore's words": (OSError("status code: 501 Not Implemented"), True),
    "a store without it, in s3fs's words": (OSError(errno.ENOSYS, "A header you provided"), True),
    "another one under way": (OSError("status code: 409 Conflict"), False),
    "no permission": (PermissionError(errno.EACCES, "Access Denied"), None),
}
"""What a store says of `create` -> whether the object is written all the same; None where it is an error."""


@pytest.mark.parametrize("said", REFUSALS)
def test_what_a_store_says_of_an_exclusive_creation_is_understood(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, created = REFUSALS[said]
    storage = open_storage(ObjectStore(ObstoreMemory()), mode="w")

    async def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(storage, "create_new", refuse)
    if created is None:
        with pytest.raises(StorageError, match="Access Denied"):
            storage.create(CLAIM, b"claim")
    else:
        assert storage.create(CLAIM, b"claim") is created
    assert storage.exclusive is (created is not True)
    assert (storage.get(CLAIM) is not None) is bool(created)


def test_a_claim_that_another_took_over_is_left_to_it(tmp_path: Path, destination: Path) -> None:
    destination.mkdir()
    for token in ("0" * 16, "f" * 16):
        with claimed(LocalStorage(destination), tmp_path / "job.db") as claim:
            assert claim.path is not None
            theirs = replace(claim.holder, token=token).to_bytes()
            claim.path.write_bytes(theirs)
            path = claim.path
        assert path.read_bytes() == theirs
        path.unlink()


def test_a_claim_in_whose_place_another_is_found_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignores the condition has taken both."""
    read = claiming._Place.read

    def theirs(self: claiming._Place) -> bytes | None:
        holder = ClaimHolder.from_bytes(read(self) or b"")
        return holder and replace(holder, token="1").to_bytes()

    monkeypatch.setattr(claiming._Place, "read", theirs)
    with (
        pytest.raises(JobError, match="claims this destination at the same time"),
        claimed(open_storage(MemoryStore(), mode="w"), tmp_path / "job.db"),
    ):
        raise AssertionError


# Whether the process that made something still runs, and what is left of files that it was making.


def test_a_process_runs_has_ended_or_cannot_be_seen(owner_ended: int) -> None:
    """A cloned virtual machine has the same name and machine id; its boot is another one."""
    gone = replace(HERE, pid=owner_ended)
    given_again = replace(HERE, started=str(int(HERE.started) - 1))
    clone = replace(gone, boot="another")
    assert HERE.state() == "running"
    assert (gone.state(), given_again.state()) == ("ended", "ended")
    elsewhere = [replace(gone, **{field: "another"}) for field in ("host", "machine", "namespace")]
    for unseen in (clone, replace(HERE, pid=1 << 40), *elsewhere):
        assert unseen.state() == "unknown", unseen
    assert str(clone).endswith("(before it was restarted, or on another host of this name)")


def test_a_process_that_is_dead_and_not_waited_for_has_ended() -> None:
    """In a container whose first process waits for no other, such a process stays for ever."""
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    started = system.started(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert replace(HERE, pid=child.pid, started=started).state() == "ended"
    child.communicate()


def test_an_owner_is_read_as_it_was_written() -> None:
    assert OwnerProcess.from_json(HERE.to_json()) == HERE
    with pytest.raises(ValueError, match="not an owner"):
        OwnerProcess.from_json({"pid": 1})


def names(left: int, path: Path, monkeypatch: pytest.MonkeyPatch, **changes: str) -> list[Path]:
    """What a process that was killed while it made a job file leaves: the file and SQLite's journal."""
    made = replace(HERE, pid=left, **changes)
    with monkeypatch.context() as patched:
        patched.setattr(OwnerProcess, "of_this_process", lambda: made)
        partial = Path(partial_name(str(path)))
    found = [partial, partial.with_name(f"{partial.name}-journal")]
    for file in found:
        file.write_bytes(b"half")
    return found


def test_the_next_start_sweeps_what_dead_processes_of_this_host_left(
    owner_ended: int,
    another_process: OwnerProcess,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = tmp_path / "out.zarr.zarrlift.db"
    old = names(os.getpid(), job, monkeypatch, boot="0123")
    for file in old:
        os.utime(file, (0, 0))  # what it made was complete long ago
    dead = [*names(owner_ended, job, monkeypatch), *old]
    others = [
        *names(owner_ended, job, monkeypatch, boot="4567"),
        *names(another_process.pid, job, monkeypatch, started=another_process.started),
        *names(owner_ended, job, monkeypatch, host="another"),
        *names(owner_ended, tmp_path / "out2.zarr.zarrlift.db", monkeypatch),
        *names(owner_ended, tmp_path / "out.zarr", monkeypatch),
    ]
    assert all(file.exists() for file in (*dead, *others))
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert [file for file in dead if file.exists()] == []
    assert [file for file in others if not file.exists()] == []


def test_the_next_trial_of_a_file_system_removes_what_a_killed_one_has_left(
    owner_ended: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(OwnerProcess, "of_this_process", lambda: replace(HERE, pid=owner_ended))
        with partial_files.trial_folder(tmp_path) as folder:
            shutil.copytree(folder, left := Path(f"{folder[:-8]}12345678"))
            (left / "1").touch()
    assert [*tmp_path.iterdir()] == [left]
    with partial_files.trial_folder(tmp_path) as folder:
        assert [str(path) for path in tmp_path.iterdir()] == [folder]


# File systems whose locks a job cannot use: refused by name, and nothing is written.


def without_locks(*_: object) -> NoReturn:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


class Busy(sqlite3.Connection):
    """SQLite over SMB, where a lock stops other handles of the same process."""

    def execute(self, *_: Any) -> NoReturn:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error


@pytest.mark.parametrize(
    ("message", "found"),
    [("cannot create the job file", "mount option nobrl"), ("cannot lock the job file", "locks")],
)
def test_a_file_system_without_the_locks_of_a_job_is_refused(
    message: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="u1", zarr_format=2)
    array[:] = 1
    before = {*tmp_path.iterdir()}
    if message == "cannot create the job file":
        monkeypatch.setattr(database.sqlite3, "connect", lambda *_, **__: Busy(":memory:"))
    else:
        monkeypatch.setattr(system, "lock_beside_sqlite", without_locks)
    with pytest.raises(JobError, match=message) as refused:
        zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert found in str(refused.value)
    assert {*tmp_path.iterdir()} - {tmp_path / "b.zarr.zarrlift.db"} == before


# Locks of files, on systems that have them.


def test_a_locked_file_is_locked_once_and_leaves_sqlite_its_bytes(tmp_path: Path) -> None:
    """On NFS, `flock` and the locks of SQLite are of the same bytes: a job could not open its own file."""
    path = tmp_path / "job.db"
    path.touch()
    with path.open("r+b") as holder, path.open("r+b") as other:
        assert not system.is_locked_beside_sqlite(other.fileno())
        system.lock_beside_sqlite(holder.fileno())
        assert system.is_locked_beside_sqlite(other.fileno())
        with pytest.raises(BlockingIOError):
            system.lock_beside_sqlite(other.fileno())
        if sys.platform == "linux":
            import fcntl

            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 0x4000_0000 + 512)  # all that SQLite locks

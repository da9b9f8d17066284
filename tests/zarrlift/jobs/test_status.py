"""What `status` says of a job that runs, was stopped, was killed, or runs where it cannot be seen."""

from __future__ import annotations

import os
import platform
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import zarrlift
from zarrlift.jobs.ledger.last_run import last_run
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.status import Status
from zarrlift.transfer.events import Event, TaskDone
from zarrstack.system import file_locks

KILLED = """
import os, signal, sys
import zarrlift
from zarrlift.transfer.events import TaskDone
def kills(event):
    if isinstance(event, TaskDone):
        os.kill(os.getpid(), signal.SIGKILL)
zarrlift.migrate(*sys.argv[1:], progress=kills)
"""


class Asks:
    """Asks for the status from within the run, when a task has ended and is recorded."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.told: list[Status] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            self.told.append(zarrlift.status(self.target))


@pytest.fixture
def result(source: Path, tmp_path: Path) -> Path:
    """Where a migration of the archive was killed."""
    place = tmp_path / "out.zarr"
    done = subprocess.run([sys.executable, "-c", KILLED, source, place], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    return place


def rewritten(place: Path, **facts: str | None) -> Path:
    """The job file, with other notes about its last run."""
    file = place.with_name(place.name + ".zarrlift.db")
    db = sqlite3.connect(file)
    for name, value in facts.items():
        db.execute("DELETE FROM meta WHERE name = ?", (name,))
        if value is not None:
            db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
    db.commit()
    db.close()
    return file


def test_a_job_that_runs_says_where_and_how_fast(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarrlift.jobs.branch.NoBranch.seconds", 0)
    asks = Asks(tmp_path / "out.zarr")
    assert zarrlift.migrate(source, tmp_path / "out.zarr", workers=1, progress=asks).ok
    first, *_, last = asks.told
    assert (first.activity, first.process, first.host) == ("running", os.getpid(), platform.node())
    assert first.began is not None
    assert (first.bytes_done, first.rate, first.seconds_left) == (0, None, None), "nothing is recorded yet"
    assert 0 < last.bytes_done < last.bytes_total
    assert last.rate is not None
    assert last.seconds_left is not None
    assert last.seconds_left > 0
    after = zarrlift.status(tmp_path / "out.zarr")
    assert (after.state, after.activity, after.rate) == ("done", None, None)
    assert after.bytes_done == after.bytes_total


def test_a_run_that_ends_by_itself_is_stopped(source: Path, tmp_path: Path) -> None:
    next(source.glob("**/0.0")).write_bytes(b"")
    assert not zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert zarrlift.status(tmp_path / "out.zarr").activity == "stopped"


def test_a_run_that_was_killed_is_stale(result: Path) -> None:
    status = zarrlift.status(result)
    assert (status.state, status.activity) == ("incomplete", "stale")
    assert zarrlift.resume(result).ok
    assert zarrlift.status(result).activity is None


@pytest.mark.slow
def test_a_run_on_another_host_is_known_by_its_lock_alone(result: Path) -> None:
    with Job.open(result.with_name("out.zarr.zarrlift.db"), write=False) as job:
        run = last_run(job)
    assert run is not None
    file = rewritten(result, run=replace(run, owner=replace(run.owner, host="elsewhere")).to_text())
    status = zarrlift.status(result)
    assert (status.activity, status.host) == ("unknown", "elsewhere")
    if file_locks.HERE:
        with file.open("rb") as held:
            file_locks.lock_exclusive(held.fileno())
            assert zarrlift.status(result).activity == "running"


@pytest.mark.parametrize("run", [None, "{}", '{"owner": {}}', "no JSON"])
@pytest.mark.slow(one_in=3)
def test_a_job_whose_runs_are_not_known_is_stopped_unless_it_is_locked(run: str | None, result: Path) -> None:
    file = rewritten(result, run=run)
    assert zarrlift.status(result).activity == "stopped"
    if file_locks.HERE:
        with Job.open(file):
            assert zarrlift.status(result).activity == "running"

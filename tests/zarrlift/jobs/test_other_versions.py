"""Job files of another version, and damaged ones, are refused by name and stay as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.zarrlift.jobs.test_job_report import alike

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The file of a job, of which nothing is done."""
    path = tmp_path / "job.db"
    zarrlift.plan_parts(alike(tmp_path / "a.zarr"), tmp_path / "out.zarr", job=path, parts=1)
    return path


def change(job: Path, statement: str) -> None:
    with closing(sqlite3.connect(job)) as database:
        database.execute(statement)
        database.commit()


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize(
    "command", [zarrlift.status, zarrlift.resume, zarrlift.update, zarrlift.finish, zarrlift.undo]
)
def test_another_version_is_refused_by_name(version: str, command: Callable[[Path], Any], job: Path) -> None:
    change(job, f"UPDATE meta SET value = '{version}' WHERE name = 'version'")
    before = job.read_bytes()
    with pytest.raises(JobError, match=f"another version; found {version}; expected 4"):
        command(job)
    assert job.read_bytes() == before


def test_a_damaged_plan_is_named(job: Path) -> None:
    change(job, "UPDATE node SET plan = '{}' WHERE path = 'a3'")
    with Job.open(job) as opened, pytest.raises(JobError, match="damaged"):
        opened.plan()


def test_a_refusal_that_cannot_be_read_is_named_by_status(job: Path) -> None:
    change(job, "UPDATE node SET plan = '{}' WHERE kind = 'refusal'")
    with pytest.raises(JobError, match="damaged"):
        zarrlift.status(job)

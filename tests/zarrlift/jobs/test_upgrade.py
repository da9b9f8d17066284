"""Job files of version 1 go on; `data/job-version-1.sql` is the dump of one from an earlier zarrlift."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.jobs.test_plan_rows import alike

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job

DUMP = Path(__file__).parent / "data" / "job-version-1.sql"


@pytest.fixture
def old_job(tmp_path: Path) -> Path:
    """A job of version 1 of which nothing is done, with its source."""
    source, destination = alike(tmp_path / "a.zarr"), tmp_path / "out.zarr"
    for number in range(6):
        for chunk in ("0.0", "0.1", "1.0", "1.1"):
            (source / f"a{number}" / chunk).write_bytes(bytes([number + 1]) + bytes(23))
    dump = DUMP.read_text().replace("SOURCE", str(source)).replace("DESTINATION", str(destination))
    job = tmp_path / "out.zarr.zarrlift.db"
    with closing(sqlite3.connect(job)) as database:
        database.executescript(dump)
    return job


def test_status_does_not_change_the_file(old_job):
    before = old_job.read_bytes()
    status = zarrlift.status(old_job)
    arrays = [node for node in status.nodes if node.kind == "array"]
    assert [(node.route, node.tasks_total, node.bytes_total) for node in arrays] == [("relink", 1, 96)] * 6
    assert [node.error for node in status.nodes if node.kind == "refusal"] != [None]
    assert old_job.read_bytes() == before


def test_its_plan_is_the_one_that_is_made_now(old_job, tmp_path):
    """But for the fingerprints, which tell times of the files."""
    made = zarrlift.plan(tmp_path / "a.zarr", tmp_path / "out.zarr")
    for write in (False, True):
        with Job.open(old_job, write=write) as job:
            stored = job.plan()
        assert [replace(array, fingerprint="") for array in stored.arrays] == [
            replace(array, fingerprint="") for array in made.arrays
        ]
        assert (stored.groups, stored.refusals) == (made.groups, made.refusals)


def test_it_is_resumed(old_job, tmp_path):
    outcome = zarrlift.resume(old_job)
    assert [problem.kind for problem in outcome.plan.all_problems() if problem.severity == "refusal"]
    for number in range(6):
        values = np.asarray(zarr.open_array(tmp_path / "out.zarr" / f"a{number}", mode="r")[...])
        assert values[0, 0] == number + 1
    with Job.open(old_job, write=False) as job:
        assert job.fact("version") == "2"


def test_a_damaged_plan_is_named(old_job):
    with closing(sqlite3.connect(old_job)) as database:
        database.execute("UPDATE node SET plan = '{}' WHERE path = 'a3'")
        database.commit()
    with pytest.raises(JobError, match="damaged"):
        Job.open(old_job)


def test_a_refusal_that_cannot_be_read_is_named_by_status(old_job):
    Job.open(old_job).close()  # brings it to the current version
    with closing(sqlite3.connect(old_job)) as database:
        database.execute("UPDATE node SET plan = '{}' WHERE kind = 'refusal'")
        database.commit()
    with pytest.raises(JobError, match="damaged"):
        zarrlift.status(old_job)

"""File systems whose locks a job cannot use: refused by name, and nothing is written."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zarr

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger import database
from zarrlift.storage.local import byte_locks


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
    elif not byte_locks.HERE:
        return
    else:
        monkeypatch.setattr(byte_locks, "lock_byte", without_locks)
    with pytest.raises(JobError, match=message) as refused:
        zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert found in str(refused.value)
    assert {*tmp_path.iterdir()} - {tmp_path / "b.zarr.zarrlift.db"} == before

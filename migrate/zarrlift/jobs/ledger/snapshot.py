"""Copies the job file of another process into memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zarrstack.core.errors import JobError

from .database import BROKEN, require_file
from .ledger import Job
from .read_only import read_only


def snapshot(path: Path) -> Job:
    """A copy of a job in memory, in one consistent state; its writer waits for no reader. JobError."""
    require_file(path)
    try:
        with read_only(path) as db:
            db.execute("SELECT 1 FROM meta").fetchone()  # a backup does not name its errors
            copied = sqlite3.connect(":memory:", isolation_level=None)
            try:
                db.backup(copied)
                return Job(path, copied, None)
            except BaseException:
                copied.close()
                raise
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise JobError(
                "this is not a job file", key=str(path), found=str(error), advice=BROKEN
            ) from error
        raise JobError(
            "cannot read the job file", key=str(path), found=str(error), advice="Try again."
        ) from error
    except sqlite3.DatabaseError as error:
        raise JobError("the job file is damaged", key=str(path), found=str(error), advice=BROKEN) from error

"""Reads the job file of another process, perhaps on another machine, and never writes to it.

SQLite repairs a file that a killed process left in the middle of a commit, which is a write. It is therefore
opened read-only, and in that case a copy is repaired.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import quote

from zarrstack.core.errors import JobError

from .database import BROKEN, require_file
from .ledger import Job

_WAIT_MS: Final = 10_000
"""Maximum time to wait for a commit in milliseconds."""
_JOURNAL: Final = "-journal"


def snapshot(path: Path) -> Job:
    """A copy of a job in memory, in one consistent state; JobError."""
    require_file(path)
    try:
        try:
            return _copied(path, path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_CANTOPEN):
                raise
            if not os.path.lexists(f"{path}{_JOURNAL}"):
                raise
        return _repaired(path)
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


def _copied(file: Path, path: Path) -> Job:
    """The job in a file, known by `path`, copied into memory so that its writer waits for no reader."""
    uri = f"file:{quote(os.fsencode(file))}?mode=ro"
    copied = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
            db.execute(f"PRAGMA busy_timeout={_WAIT_MS}")
            db.execute("SELECT 1 FROM meta").fetchone()  # a backup does not name its errors
            db.backup(copied)
        return Job(path, copied, None)
    except BaseException:
        copied.close()
        raise


def _repaired(path: Path) -> Job:
    """The job in a copy, in memory."""
    folder = tempfile.mkdtemp(prefix="zarrlift-")
    try:
        copied = Path(folder) / "job"
        shutil.copyfile(path, copied)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{_JOURNAL}", f"{copied}{_JOURNAL}")
        with contextlib.closing(sqlite3.connect(copied)) as db:
            ((found,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        return _copied(copied, path)
    except OSError as error:
        raise JobError("cannot copy the job file", key=str(path), found=error.strerror) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)

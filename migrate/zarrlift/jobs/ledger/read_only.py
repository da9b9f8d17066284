"""Reads the file of another process or of another job, perhaps on another machine, and never writes to it.

SQLite repairs a file that a killed process left in the middle of a commit, which is a write. It is therefore
opened read-only, and in that case a copy is repaired.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ...errors import JobError

_WAIT_MS: Final = 10_000
"""Maximum time to wait for a commit in milliseconds."""
_JOURNAL: Final = "-journal"


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file, or to a copy where SQLite would repair the file; sqlite3.Error or JobError."""
    try:
        db = _connected(path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_CANTOPEN):
            raise
        if not os.path.lexists(f"{path}{_JOURNAL}"):
            raise
    else:
        with contextlib.closing(db):
            yield db
        return
    with _repaired(path) as copy, contextlib.closing(_connected(copy)) as db:
        yield db


def _connected(path: Path) -> sqlite3.Connection:
    """A read-only connection whose file could be read."""
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        db.execute(f"PRAGMA busy_timeout={_WAIT_MS}")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


@contextlib.contextmanager
def _repaired(path: Path) -> Iterator[Path]:
    """A copy of a file, repaired by SQLite."""
    folder = tempfile.mkdtemp(prefix="zarrlift-")
    try:
        copied = Path(folder) / "job"
        try:
            shutil.copyfile(path, copied)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{_JOURNAL}", f"{copied}{_JOURNAL}")
        except OSError as error:
            raise JobError("cannot copy the job file", key=str(path), found=error.strerror) from error
        with contextlib.closing(sqlite3.connect(copied)) as db:
            ((verdict,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        yield copied
    finally:
        shutil.rmtree(folder, ignore_errors=True)

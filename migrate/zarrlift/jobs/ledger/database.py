"""The file of a ledger: an SQLite database, written by one process; its tables are in `schema`.

A file of another process or of another job, perhaps on another machine, is only read. SQLite would repair one
that a killed process left in the middle of a commit, which is a write: in that case a copy is repaired.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from zarrstack.core.json_text import excerpt
from zarrstack.system.this import system

from ...errors import JobError
from ...storage.local.files import file_limit_text, kind_of
from ...storage.local.partial_files import partial_name

log: Final = logging.getLogger("zarrlift")
_reading: Final = threading.Lock()
"""Held while the database of this process in memory is read."""


class HeldError(JobError):
    """Another process has the job or its destination, or may have it."""


VERSION: Final = "7"
SQLITE: Final = b"SQLite format 3\0"
"""First bytes of an SQLite database (https://www.sqlite.org/fileformat.html, 1.3.1)."""
_WHOLE: Final = 1 << 18
"""Bytes from which a job file is not read as a whole."""

_BUSY_SECONDS: Final = 10
"""Seconds that SQLite waits for another program, which cannot be interrupted."""
_COMMITS: Final = 60
"""Maximum number of times that a commit waits so long."""

BROKEN: Final = "Restore it, or move it away and migrate with --overwrite."


class Database:
    """An open job file, whose writes begin a transaction. Errors are JobErrors that say what to do."""

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: int | None) -> None:
        """`lock` is a descriptor of the file, if it is locked."""
        self.connection = connection
        self._path = path
        self._lock = lock

    @property
    def in_transaction(self) -> bool:
        """Whether something is written that is not committed."""
        return self.connection.in_transaction

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement as it is."""
        try:
            return self.connection.execute(statement, values)
        except sqlite3.Error as error:
            self._require_file()
            raise unwritable(self._path, error) from error

    def commit(self) -> None:
        """Commit; waits for another program that reads the file."""
        for attempt in range(1, _COMMITS + 1):
            try:
                self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                if not is_busy(error) or not self.in_transaction or attempt == _COMMITS:
                    self._require_file()
                    raise unwritable(self._path, error) from error
                if attempt == 1:
                    log.warning("another program reads the job file %s: waiting until it ends", self._path)
            else:
                return

    def begin(self) -> None:
        """Begin a transaction, unless one has begun. Its journal is put at the path, which is checked."""
        if not self.connection.in_transaction:
            self._require_file()
            self.execute("BEGIN")

    def _require_file(self) -> None:
        if self._lock is None:
            return
        found = "another file"
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._lock)):
                return
        except OSError as error:
            found = error.strerror or str(error)
        raise JobError(
            "the job file was moved, deleted or replaced while it was in use",
            key=str(self._path),
            found=found,
            advice="Put it back, then resume: what was not recorded is repeated.",
        )

    def write(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Execute a statement in a transaction."""
        self.begin()
        self.execute(statement, values)

    def write_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each row in a transaction."""
        self.begin()
        try:
            self.connection.executemany(statement, rows)
        except sqlite3.Error as error:
            self._require_file()
            raise unwritable(self._path, error) from error

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise JobError(
                "the job file is damaged", key=str(self._path), found=str(error), advice=BROKEN
            ) from error


def connect(path: Path, *, fsync: bool, write: bool) -> sqlite3.Connection:
    """A connection to an existing job file; sqlite3.Error."""
    db = _connected(path, "rw" if write or os.access(path, os.W_OK) else "ro")  # readers roll back a kill too
    try:
        if write:
            # EXTRA also flushes the end of a commit, which is that the journal is removed.
            db.execute(f"PRAGMA synchronous={'EXTRA' if fsync else 'OFF'}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)


def stable_notes(path: str) -> dict[str, str] | None:
    """The notes of a small job that no commit changes meanwhile; several times as fast as opening it.

    None if they cannot be read so. Every commit has a journal until it is complete. Without one between two
    reads, each commit came before or after that moment; of equal reads, none is torn.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read(_WHOLE)
            if len(content) == _WHOLE or os.path.lexists(f"{path}-journal"):
                return None
            file.seek(0)
            if file.read(_WHOLE) != content or not content.startswith(SQLITE):
                return None
        with _reading:
            db = _in_memory()
            db.deserialize(content)
            return {name: as_text(value) for name, value in db.execute("SELECT name, value FROM meta")}
    except (OSError, sqlite3.Error, AttributeError):  # the last one of an SQLite without `deserialize`
        return None


@cache
def _in_memory() -> sqlite3.Connection:
    """A database that takes the content of files; making one takes as long as opening a file."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(db.close)
    return db


@contextlib.contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turns an error from content that cannot be understood into a JobError."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        found = f"{type(error).__name__}: {error}"[:200]
        raise JobError("the job file is damaged", key=str(path), found=found, advice=BROKEN) from error


def remove_journal(db: sqlite3.Connection, path: Path) -> None:
    """Remove the journal of a killed commit."""
    if os.path.lexists(f"{path}-journal"):
        # SQLite removes an unneeded journal after it changes a page.
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO meta VALUES ('', '')")
        db.execute("DELETE FROM meta WHERE name = ''")
        db.execute("COMMIT")


def require_file(path: Path) -> None:
    """Raise JobError for a pipe, socket or device, on which SQLite would block."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # SQLite reports the error
        return
    if not stat.S_ISREG(mode):
        raise JobError(
            "this is not a job file", key=str(path), found=kind_of(mode), expected="a regular file"
        )


def lock_file(path: Path) -> int | None:
    """Lock the file against other runners until this process ends; the kernel releases the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        advice = "Make it writable: a job records its progress in this file."
        raise JobError(
            "cannot open the job file", key=str(path), found=error.strerror, advice=advice
        ) from error
    try:
        system.lock_beside_sqlite(descriptor)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise HeldError(
                "another process is running this job", key=str(path), advice="Wait for it, or stop it first."
            ) from None
        raise JobError(
            "cannot lock the job file",
            key=str(path),
            found=error.strerror,
            advice="Use a file system that has file locks.",
        ) from error
    if os.fstat(descriptor).st_nlink <= 1:
        return descriptor
    try:
        return _separated(path, descriptor)
    except OSError as error:
        os.close(descriptor)
        raise JobError(
            "the job file is also another file (a hard link), and cannot be separated",
            key=str(path),
            found=error.strerror,
            advice="Replace it by a copy of itself.",
        ) from error


def _separated(path: Path, descriptor: int) -> int:
    """Replace a locked file by a copy, so that its other hard links do not change; the lock of the copy.

    `cp -al` makes such links of whole folders.
    """
    partial = partial_name(str(path))
    with open(descriptor, "rb", closefd=False) as old, open(partial, "wb") as new:
        shutil.copyfileobj(old, new)
        os.fsync(new.fileno())
    shutil.copymode(path, partial)
    copy = os.open(partial, os.O_RDWR)
    system.lock_beside_sqlite(copy)
    system.replace(partial, str(path))
    os.close(descriptor)
    return copy


def error_text(error: Exception) -> str:
    """What an error says, with the limit on the size of files where one is set: SQLite does not name it."""
    return str(error) + (file_limit_text() if "I/O" in str(error) else "")


def require_job(meta: Mapping[str, Any], path: Path) -> None:
    """Raise JobError unless these are the facts of a job of this version."""
    if not {"version", "id", "state", "plan"} <= meta.keys():
        raise JobError("this is not a job file", key=str(path), found="no job in it", advice=BROKEN)
    try:
        header = json.loads(meta["plan"])
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise JobError("the job file is damaged", key=str(path), found=excerpt(meta["plan"]), advice=BROKEN)
    if meta["version"] != VERSION:
        raise JobError(
            "the job file has another version",
            key=str(path),
            found=meta["version"],
            expected=VERSION,
            advice="Use the zarrlift that created it, or move it away and migrate with --overwrite.",
        )


def require_version(path: Path) -> None:
    """Raise JobError for a job of another version before SQLite rolls back the commit of a killed process.

    Nothing at or beside the file is changed. Without a journal, opening it changes nothing either.
    """
    if not os.path.lexists(f"{path}-journal"):
        return
    try:
        with read_only(path) as db:
            meta = {name: as_text(value) for name, value in db.execute("SELECT name, value FROM meta")}
    except sqlite3.Error as error:
        raise not_opened(path, error) from error
    require_job(meta, path)


def not_opened(path: Path, error: sqlite3.Error) -> JobError:
    """The error for a file that SQLite cannot open."""
    message, advice = "this is not a job file", BROKEN
    if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
        message, advice = "cannot open the job file", "Fix the cause, then try again."
    found = "a database of something else" if "no such table" in str(error) else str(error)
    return JobError(message, key=str(path), found=found, advice=advice)


def is_busy(error: Exception) -> bool:
    """Whether SQLite gave up because another program has locked the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def unwritable(path: Path, error: Exception) -> JobError:
    """The error for a job file that cannot be written."""
    advice = "Free some space or make the file writable, then resume; recorded work is kept."
    if is_busy(error):
        advice = (
            "End the other program that has it open, such as sqlite3, then resume; recorded work is kept."
        )
    elif "unable to open" in str(error):  # SQLite does not say why: its journal is a second file
        advice = (
            "Check the permissions of its directory and the limit of open files (ulimit -n), then resume."
        )
    return JobError("cannot write the job file", key=str(path), found=error_text(error), advice=advice)


def as_stored(text: str) -> str | bytes:
    """A text as SQLite stores it: names that are not valid UTF-8 (PEP 383) as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def as_text(stored: str | bytes) -> str:
    """Inverse of `as_stored`."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file, or to a copy where SQLite would repair the file; sqlite3.Error or JobError."""
    with contextlib.closing(_connected(path, "ro")) as db:
        if not _must_be_repaired(db, path):
            yield db
            return
    with _repaired(path) as copy, contextlib.closing(_connected(copy, "ro")) as db:
        yield db


def _must_be_repaired(db: sqlite3.Connection, path: Path) -> bool:
    """Whether SQLite would write to a file before it reads it; sqlite3.Error if it cannot be read at all."""
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        repairs = error.sqlite_errorcode in (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_CANTOPEN)
        if not repairs or not os.path.lexists(f"{path}-journal"):
            raise
        return True
    return False


@contextlib.contextmanager
def _repaired(path: Path) -> Iterator[Path]:
    """A copy of a file, repaired by SQLite."""
    folder = tempfile.mkdtemp(prefix="zarrlift-")
    try:
        copied = Path(folder) / "job"
        try:
            shutil.copyfile(path, copied)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-journal", f"{copied}-journal")
        except OSError as error:
            raise JobError("cannot copy the job file", key=str(path), found=error.strerror) from error
        with contextlib.closing(sqlite3.connect(copied)) as db:
            ((verdict,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        yield copied
    finally:
        shutil.rmtree(folder, ignore_errors=True)

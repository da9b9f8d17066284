"""The file of a batch: a row per archive, and the ledger of each archive that has ended, compressed.

While an archive is under way, its ledger is an ordinary job file in the folder `FILE.d`. It is packed into
the batch's file when the archive has ended, so that a batch at rest is one file. A ledger in the folder is
newer than a packed one. Parts of a batch write to the folder only.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Self

from zarrstack.core.errors import JobError, Problem
from zarrstack.core.json_text import JSONObject

from ..ledger.database import (
    BROKEN,
    connect,
    create_file,
    insert_facts,
    lock_file,
    not_opened,
    require_file,
    unwritable,
)
from ..ledger.rows import as_stored, as_text
from .ledgers import Ledgers
from .places import APPLICATION
from .rows import BatchRow

VERSION: Final = "1"
_TEXTS: Final = ("source", "destination", "relative")
_COLUMNS: Final = tuple(item.name for item in fields(BatchRow))
_ROWS: Final = f"SELECT {', '.join(_COLUMNS)} FROM archive ORDER BY number"  # noqa: S608 - names of fields
_SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION};
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE request (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
CREATE TABLE archive (
    number INTEGER PRIMARY KEY, source TEXT NOT NULL, destination TEXT NOT NULL, relative TEXT NOT NULL,
    format TEXT, state TEXT NOT NULL, problems TEXT NOT NULL, arrays INTEGER NOT NULL,
    objects INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, seconds REAL NOT NULL,
    verified TEXT, part INTEGER, large INTEGER NOT NULL, request INTEGER NOT NULL);
CREATE TABLE ledger (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""


class BatchFile:
    """An open batch. Use as a context manager; only one process may write at a time."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: int | None, *, writes: bool = False
    ) -> None:
        self.path = path
        self.writes = writes
        """Whether the file is open for writing."""
        self.ledgers = Ledgers(path)
        self._db = connection
        self._lock = lock
        self._meta = {name: as_text(value) for name, value in self._rows("SELECT name, value FROM meta")}
        if "batch" not in self._meta:
            raise JobError(
                "this is the job of one archive, not of a batch",
                key=str(path),
                advice="Use the commands without batch.",
            )
        if self._meta["batch"] != VERSION:
            raise JobError(
                "the job file of the batch has another version",
                key=str(path),
                found=self._meta["batch"],
                expected=VERSION,
                advice="Use the zarrlift that created it.",
            )

    @classmethod
    def create(
        cls, path: Path, rows: Iterable[tuple[BatchRow, JSONObject]], facts: Mapping[str, str], *, fsync: bool
    ) -> Self:
        """Create a batch of archives, each with what is asked for it; the file appears complete."""

        def fill(db: sqlite3.Connection) -> None:
            insert_facts(db, path, {"batch": VERSION, "id": os.urandom(4).hex(), **facts})
            _insert(db, rows)

        create_file(path, _SCHEMA, fill, fsync=fsync)
        return cls.open(path, fsync=fsync)

    @classmethod
    def open(cls, path: Path, *, fsync: bool = False, write: bool = True) -> Self:
        """Open an existing batch; JobError if the file is not one, or if another process is running it."""
        require_file(path)
        lock = lock_file(path) if write else None
        db = None
        try:
            db = connect(path, fsync=fsync, write=write)
            return cls(path, db, lock, writes=write)
        except (JobError, sqlite3.Error) as error:
            if db is not None:
                db.close()
            if lock is not None:
                os.close(lock)
            if isinstance(error, JobError):
                raise
            raise not_opened(path, error) from error

    def close(self) -> None:
        """Release the file."""
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fact(self, name: str) -> str | None:
        """A note stored in the file."""
        return self._meta.get(name)

    def note(self, **facts: str) -> None:
        """Store notes in the file."""
        self.record((), **facts)

    def rows(self) -> list[BatchRow]:
        """All archives, as recorded here; what is in the folder may be newer."""
        return list(map(_row, self._rows(_ROWS)))

    def requests(self) -> dict[int, JSONObject]:
        """What is asked for each archive."""
        known = {number: json.loads(text) for number, text in self._rows("SELECT id, content FROM request")}
        return {number: known[asked] for number, asked in self._rows("SELECT number, request FROM archive")}

    def add(self, rows: Iterable[tuple[BatchRow, JSONObject]]) -> None:
        """Add archives."""
        with self._transaction():
            _insert(self._db, rows)

    def record(self, rows: Iterable[BatchRow], **facts: str) -> None:
        """Record the state of archives, and notes in the same transaction."""
        with self._transaction():
            for row in rows:
                self._record(row)
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())
        self._meta.update(facts)

    def pack(self, row: BatchRow, ledger: bytes | None) -> None:
        """Record an archive that has ended with its compressed ledger, then remove the files of both."""
        with self._transaction():
            self._record(row)
            if ledger is None:
                self._db.execute("DELETE FROM ledger WHERE number = ?", (row.number,))
            else:
                self._db.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?)", (row.number, ledger))
        self.ledgers.remove(row.number)

    def ledger(self, number: int) -> bytes | None:
        """The packed ledger of an archive; None if it has none."""
        for (content,) in self._rows("SELECT content FROM ledger WHERE number = ?", (number,)):
            try:
                return zlib.decompress(content)
            except zlib.error as error:
                raise self._damaged(error) from error
        return None

    def unpack(self, number: int) -> bool:
        """Put the ledger of an archive into the folder unless it is there; whether it has one."""
        if self.ledgers.has(number):
            return True
        content = self.ledger(number)
        if content is not None:
            self.ledgers.put(number, content)
        return content is not None

    def _record(self, row: BatchRow) -> None:
        values = _values(row)
        names = ", ".join(f"{name} = ?" for name in _COLUMNS)
        self._db.execute(f"UPDATE archive SET {names} WHERE number = ?", (*values, row.number))  # noqa: S608

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("UPDATE meta SET value = ? WHERE name = 'updated'", (repr(time.time()),))
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise unwritable(self.path, error) from error

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise not_opened(self.path, error) from error
            raise self._damaged(error) from error
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> JobError:
        return JobError("the job file is damaged", key=str(self.path), found=str(error), advice=BROKEN)


def _insert(db: sqlite3.Connection, rows: Iterable[tuple[BatchRow, JSONObject]]) -> None:
    places = ", ".join("?" * (len(_COLUMNS) + 1))
    for row, asked in rows:
        content = json.dumps(asked, sort_keys=True)
        db.execute("INSERT OR IGNORE INTO request (content) VALUES (?)", (content,))
        ((known,),) = db.execute("SELECT id FROM request WHERE content = ?", (content,))
        statement = f"INSERT INTO archive ({', '.join(_COLUMNS)}, request) VALUES ({places})"  # noqa: S608
        db.execute(statement, (*_values(row), known))


def _values(row: BatchRow) -> list[Any]:
    values: list[Any] = []
    for name in _COLUMNS:
        value = getattr(row, name)
        if name in _TEXTS:
            value = as_stored(value)
        elif name == "problems":
            value = json.dumps([problem.to_json() for problem in value])
        values.append(value)
    return values


def _row(values: Sequence[Any]) -> BatchRow:
    data = dict(zip(_COLUMNS, values, strict=True))
    for name in _TEXTS:
        data[name] = as_text(data[name])
    data["problems"] = tuple(map(Problem.from_json, json.loads(data["problems"])))
    data["large"] = bool(data["large"])
    return BatchRow(**data)

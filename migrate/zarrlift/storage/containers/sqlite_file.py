"""SQLite databases of zarr-python 2's `SQLiteStore`, and of Python's `dbm.sqlite3`.

The first has one table `zarr(k TEXT PRIMARY KEY, v BLOB)` (zarr-python 2.18 `zarr.storage.SQLiteStore`), the
second `Dict(key BLOB UNIQUE NOT NULL, value BLOB NOT NULL)` (CPython 3.13 `dbm/sqlite3.py`). File format:
https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from zarrstack.core.errors import StorageError, UsageError

from .database import Database, being_written, file_state, key_text

_TABLES: Final = {"zarr": ("k", "v"), "Dict": ("key", "value")}
"""Table -> its columns of keys and of values."""
_SECONDS: Final = 5
"""Wait for a lock."""
_LONGEST: Final = (1 << 31) - 1
"""Maximum size of a value (https://www.sqlite.org/limits.html), and the largest number `substr` takes."""
_READ_VERSION: Final = 19
_WAL: Final = 2
"""Offset and value in the header for a write-ahead log (https://www.sqlite.org/fileformat2.html, 1.3.3)."""


class SqliteFile(Database):
    """An SQLite database; each thread has a connection."""

    errors = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        """UsageError if the database has no table of a store; StorageError."""
        super().__init__(path)
        self._local = threading.local()
        self._log = path.with_name(f"{path.name}-wal")
        self._table, self._key, self._value = self._find_table()

    def get(self, key: str, most: int | None = None) -> bytes | None:
        value = self._value
        if most is not None and most < _LONGEST:
            value = f"substr({value}, 1, {most + 1})"
        rows = self._ask(f"SELECT typeof({self._value}), {value} {self._of_key}", self._as_key(key))
        if not rows:
            return None
        kind, data = rows[0]
        if kind != "blob":
            raise StorageError("an object in the database is not bytes", key=key, found=kind, expected="blob")
        return bytes(data)

    def size(self, key: str) -> int | None:
        rows = self._ask(f"SELECT length({self._value}) {self._of_key}", self._as_key(key))
        return rows[0][0] if rows else None

    def page(self, start: str, most: int) -> list[tuple[str, int | None]]:
        columns = f"CAST({self._key} AS BLOB), length({self._value}) FROM {self._table}"
        where = f"WHERE {self._key} >= ? ORDER BY {self._key} LIMIT ?"
        rows = self._ask(f"SELECT {columns} {where}", self._as_key(start), most)
        return [(key_text(self.path, key), size) for key, size in rows]

    def state(self) -> str:
        """Sizes and times of the database and its log."""
        return file_state(self.path, self._log)

    @property
    def _of_key(self) -> str:
        return f"FROM {self._table} WHERE {self._key} = ?"

    def _as_key(self, key: str) -> str | bytes:
        return key if self._table == "zarr" else key.encode()

    def _find_table(self) -> tuple[str, str, str]:
        tables = {name for (name,) in self._ask("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, (key, value) in _TABLES.items():
            columns = (
                {row[1] for row in self._ask(f"PRAGMA table_info({table})")} if table in tables else set()
            )
            if {key, value} <= columns:
                return table, key, value
        raise UsageError(
            f"{self.path} is an SQLite database, not an archive",
            found="tables " + (", ".join(sorted(tables)) or "none"),
            expected="a table zarr with the columns k and v, as zarr-python 2's SQLiteStore writes",
        )

    def _ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of an answer."""
        with self.reading():
            opened = self._connection()
            rows = opened.connection.execute(question, values).fetchall()
        if opened.state is not None and opened.state != self.state():
            raise being_written(self.path)
        return rows

    def _connection(self) -> _Connection:
        """The connection of this thread."""
        opened: _Connection | None = getattr(self._local, "opened", None)
        if opened is None:
            state = self.state() if self._without_log() else None
            # Without a lock or a log no file is created beside the database.
            options = "mode=ro" if state is None else "mode=ro&immutable=1"
            opened = self._local.opened = _Connection(f"file:{quote(str(self.path))}?{options}", state)
        return opened

    def _without_log(self) -> bool:
        """Whether the database uses a write-ahead log, and has none: to open it normally would create one."""
        with self.path.open("rb") as file:
            head = file.read(_READ_VERSION + 1)
        log = file_state(self._log)
        return head[_READ_VERSION:] == bytes([_WAL]) and (not log or log.startswith("0:"))


connect = SqliteFile


class _Connection:
    """A read-only connection, closed when it is used no more."""

    def __init__(self, uri: str, state: str | None) -> None:
        """`state` is that of the database if it must not change, because SQLite takes no locks; else None."""
        self.state = state
        self._process = os.getpid()
        self.connection = sqlite3.connect(uri, uri=True, timeout=_SECONDS, check_same_thread=False)
        for setting in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            self.connection.execute(f"PRAGMA {setting}")

    def __del__(self) -> None:
        # https://www.sqlite.org/howtocorrupt.html, 2.6: a fork must not even close its parent's connection.
        if self._process == os.getpid() and hasattr(self, "connection"):
            self.connection.close()

"""Databases of Python's `dbm`, in which zarr-python 2's `DBMStore` wrote: dumb, gdbm and ndbm.

`dbm.dumb` is read here: its index `NAME.dir` has a line `'key', (start, size)` for each object of `NAME.dat`
(CPython `dbm/dumb.py`), whose module returns less than an object if the file is cut short. The others need a
module that not every Python has. `dbm.sqlite3` is in `sqlite_file`.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from ast import literal_eval
from bisect import bisect_left
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from zarrstack.core.errors import UsageError

from .database import Database, being_written, damaged, file_state, key_text
from .table import HEAD, dbm_module


def connect(path: Path) -> Database:
    """Open a database; UsageError if this Python has no module for it, StorageError."""
    with path.open("rb") as file:
        kind = dbm_module(file.read(HEAD))
    assert kind is not None  # recognized before
    return DumbFiles(path) if kind == "dbm.dumb" else LibraryFile(path, kind)


class _IndexedFiles(Database):
    """A database whose keys are listed when it is opened, and again after a change."""

    def __init__(self, path: Path, *files: Path) -> None:
        """`files` are all of the database."""
        super().__init__(path)
        self._files = files
        self._lock = threading.Lock()
        self._state: str | None = None
        self._keys: list[str] = []
        with self._lock:
            self._refresh()

    @abstractmethod
    def _load(self) -> list[str]:
        """Open the database, and list its keys in any order."""

    @abstractmethod
    def _read(self, key: str) -> bytes | None:
        """The object; None if there is none."""

    def get(self, key: str, most: int | None = None) -> bytes | None:
        with self._lock:
            self._refresh()
            data = self._read(key)
            if self.state() != self._state:
                raise being_written(self.path)
        return data if data is None or most is None else data[: most + 1]

    def size(self, key: str) -> int | None:
        """Size of the object, which is read."""
        data = self.get(key)
        return None if data is None else len(data)

    def page(self, start: str, most: int) -> list[tuple[str, int | None]]:
        with self._lock:
            self._refresh()
            at = bisect_left(self._keys, start)
            return [(key, self._size(key)) for key in self._keys[at : at + most]]

    def state(self) -> str:
        return file_state(*self._files)

    def _size(self, key: str) -> int | None:
        return None

    def _refresh(self) -> None:
        state = self.state()
        if state != self._state:
            self._keys = sorted(self._load())
            self._state = state
            if self.state() != state:
                self._state = None
                raise being_written(self.path)


class DumbFiles(_IndexedFiles):
    """The two files of a `dbm.dumb` database, given by its index `NAME.dir`."""

    def __init__(self, path: Path) -> None:
        """StorageError for a damaged database."""
        self._data = path.with_suffix(".dat")
        self._places: dict[str, tuple[int, int]] = {}
        super().__init__(path, path, self._data)

    def _load(self) -> list[str]:
        with self.reading():
            lines = self.path.read_text("latin-1").splitlines()
            length = self._data.stat().st_size
        self._places = {}
        for line in lines:
            try:
                key, (start, size) = literal_eval(line)
                name = key_text(self.path, key.encode("latin-1"))
                valid = 0 <= start <= start + size <= length
            except (ValueError, TypeError, SyntaxError, AttributeError):
                raise damaged(self.path, f"the line {line[:80]!r} of its index is invalid") from None
            if not valid:
                raise damaged(self.path, f"{self._data.name} is cut short: {length} bytes, and {line[:80]}")
            self._places[name] = start, size
        return list(self._places)

    def _read(self, key: str) -> bytes | None:
        if key not in self._places:
            return None
        start, size = self._places[key]
        with self.reading(), self._data.open("rb") as file:
            file.seek(start)
            data = file.read(size)
        if len(data) != size:
            raise being_written(self.path)
        return data

    def _size(self, key: str) -> int | None:
        return self._places[key][1]


class LibraryFile(_IndexedFiles):
    """A database that a module of Python reads."""

    def __init__(self, path: Path, kind: str) -> None:
        """`kind` is the module's name. UsageError if this Python does not have it; StorageError."""
        try:
            module: Any = import_module(kind)
        except ImportError as error:
            raise UsageError(
                f"{path} is a database of {kind}, a module that this Python does not have",
                expected=f"a Python with {kind}",
                advice="Use such a Python, or copy the archive with zarr.copy_store of zarr-python 2.",
            ) from error
        # ndbm appends the suffix itself.
        name = str(path.with_suffix("") if kind == "dbm.ndbm" and path.suffix == ".db" else path)
        self._open: Callable[[], Any] = lambda: module.open(name, "r")
        errors = module.error if isinstance(module.error, tuple) else (module.error,)
        self.errors = (*errors, OSError)
        self._database: Any = None
        super().__init__(path, path)

    def _load(self) -> list[str]:
        with self.reading():
            if self._database is not None:
                self._database.close()
            self._database = self._open()
            keys: list[bytes] = self._database.keys()
            return [key_text(self.path, key) for key in keys]

    def _read(self, key: str) -> bytes | None:
        with self.reading():
            data: bytes | None = self._database.get(key.encode())
        return data

"""LMDB environments of zarr-python 2's `LMDBStore`: a directory with `data.mdb`, or one file.

Layout: https://github.com/LMDB/lmdb, libraries/liblmdb/mdb.c (LMDB 0.9): the first page has a header of 16
bytes and then the magic number of a meta page. zarr-python writes sparse files of the size of its map, by
default a tebibyte on Linux, of which little is in use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from zarrstack.core.errors import UsageError
from zarrstack.system.fork_safety import reset_after_fork

from .database import Database, being_written, damaged, file_state, key_text

_ATTEMPTS: Final = 10
"""Reads of an object while a writer commits."""
T = TypeVar("T")
_LONGEST: Final = 511
"""Bytes of a key at most, in LMDB's default build; a longer one is an error of the library."""


class LmdbFile(Database):
    """An LMDB environment without locks, so that nothing is written; a lock is a write to `lock.mdb`.

    A writer keeps the pages of the last commit until its next commit but one. A value is therefore what was
    committed if the last commit is still the same once the value has been copied.
    """

    def __init__(self, path: Path) -> None:
        """UsageError if lmdb is not installed; StorageError."""
        super().__init__(path)
        try:
            import lmdb
        except ImportError as error:
            raise UsageError(
                f"{path} is an LMDB database, which needs a package that is not installed",
                expected="lmdb",
                advice="Install it: pip install lmdb (zarrlift's extra stores).",
            ) from error
        self.errors = (lmdb.Error, OSError)
        self._data = path / "data.mdb" if path.is_dir() else path
        with self.reading():
            self._shared = _environments.open(self.path, self._data, lmdb)
        self._environment = self._shared.environment
        self._check_length()

    def _check_length(self) -> None:
        """StorageError for a file that is cut short: reading behind its end would end the process."""
        used = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        size = self._data.stat().st_size
        if size < used:
            raise damaged(self.path, f"it is cut short: {size} bytes instead of {used}")

    def get(self, key: str, most: int | None = None) -> bytes | None:

        def ask(txn: Any) -> bytes | None:
            value = _value(txn, key)
            return None if value is None else bytes(value if most is None else value[: most + 1])

        return self._read(ask)

    def size(self, key: str) -> int | None:

        def ask(txn: Any) -> int | None:
            value = _value(txn, key)
            return None if value is None else len(value)

        return self._read(ask)

    def page(self, start: str, most: int) -> list[tuple[str, int | None]]:

        def ask(txn: Any) -> list[tuple[bytes, int]]:
            rows: list[tuple[bytes, int]] = []
            cursor = txn.cursor()
            if not cursor.set_range(start.encode()):
                return rows
            for key, value in cursor.iternext():
                rows.append((bytes(key), len(value)))
                if len(rows) == most:
                    break
            return rows

        return [(key_text(self.path, key), size) for key, size in self._read(ask)]

    def state(self) -> str:
        """The last transaction; and size and time of the file, which another one may have replaced."""
        return f"{self._environment.info()['last_txnid']} {file_state(self._data)}"

    def _read(self, ask: Callable[[Any], T]) -> T:
        """What `ask` copies in a transaction, with nothing committed meanwhile."""
        for _ in range(_ATTEMPTS):
            with self.reading():
                self._check_length()
                with self._environment.begin(buffers=True) as transaction:
                    answer = ask(transaction)
                    if self._environment.info()["last_txnid"] == transaction.id():
                        return answer
        raise being_written(self.path)


connect = LmdbFile


def _value(txn: Any, key: str) -> Any:
    """The value in a transaction, None if there is none."""
    name = key.encode()
    return txn.get(name) if 0 < len(name) <= _LONGEST else None


class _Environment:
    """An open environment, closed when it is used no more."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def __del__(self) -> None:
        self.environment.close()


class _Environments:
    """The open environments of this process; LMDB must not open one twice, and a fork opens its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: WeakValueDictionary[tuple[str, int, int], _Environment] = WeakValueDictionary()
        reset_after_fork(self)

    def open(self, path: Path, data: Path, lmdb: Any) -> _Environment:
        """The environment at a path, whose file is `data`; lmdb.Error, OSError."""
        with self._lock:
            facts = os.stat(data)
            key = os.path.realpath(path), facts.st_dev, facts.st_ino
            environment = self._opened.get(key)
            if environment is None:
                environment = _Environment(
                    lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, create=False)
                )
                self._opened[key] = environment
            return environment

    def after_fork(self) -> None:
        """Close the parent's environments in a forked child."""
        for inherited in list(self._opened.values()):
            inherited.environment.close()
        self._lock = threading.Lock()
        self._opened.clear()


_environments: Final = _Environments()

"""Databases with an archive inside: each row is an object, under its key.

zarr-python 2 wrote such stores (`LMDBStore`, `SQLiteStore`, `DBMStore` of `zarr.storage`). A module per kind
of database implements `Database`; here it becomes a source of objects. Databases are opened for reading only,
and again in each process: connections do not survive a fork.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from zarrstack.core.errors import StorageError, UsageError

from ..base import ListedPage
from ..remote.async_storage import ObjectHead, object_head
from ..versions import Version, source_object_changed, version_number
from .container import Container, archive_root

if TYPE_CHECKING:
    from ..local.files import ReadLimit

T = TypeVar("T")

_PAGE: Final = 1000
"""Number of rows that are listed together."""
_AFTER_SLASH: Final = "0"
"""The character after "/"."""


class Database(ABC):
    """A database opened for reading; thread-safe. Keys are ordered by their UTF-8 bytes.

    Every method raises StorageError if the database is damaged, locked, or written meanwhile.
    """

    errors: tuple[type[Exception], ...] = (OSError,)
    """What its library raises for a database that it cannot read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the library's errors into StorageError."""
        try:
            yield
        except self.errors as error:
            raise damaged(self.path, error) from error

    @abstractmethod
    def get(self, key: str, most: int | None = None) -> bytes | None:
        """The object; None if there is none, and its first `most` + 1 bytes if it is larger."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Size of the object in bytes; None if there is none."""

    @abstractmethod
    def page(self, start: str, most: int) -> list[tuple[str, int | None]]:
        """The first `most` keys from `start` on, in order, each with the object's size if it is known."""

    @abstractmethod
    def state(self) -> str:
        """A text that changes whenever the database is written."""

    def rows(self, prefix: str) -> Iterator[list[tuple[str, int | None]]]:
        """Pages of all keys with a prefix, in order; StorageError if the database is written meanwhile."""
        before = self.state()
        start = prefix
        while True:
            page = self.page(start, _PAGE)
            rows = [row for row in page if row[0].startswith(prefix)]
            yield rows
            if len(rows) < _PAGE:
                break
            start = rows[-1][0] + "\0"
        if self.state() != before:
            raise being_written(self.path)

    def children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory, directly below a prefix, which is "" or ends with "/".

        The keys of each directory are skipped by their order.
        """
        names: dict[str, bool] = {}
        start = prefix
        while True:
            page = self.page(start, _PAGE)
            skipped = None
            for key, _ in page:
                if not key.startswith(prefix):
                    return names
                if skipped is not None and key.startswith(skipped):
                    continue
                name, slash, _rest = key[len(prefix) :].partition("/")
                skipped = f"{prefix}{name}/" if slash else None
                if name:
                    names[name] = bool(slash) or names.get(name, False)
            if len(page) < _PAGE:
                return names
            start = page[-1][0] + "\0" if skipped is None else skipped[:-1] + _AFTER_SLASH


class DatabaseStorage(Container):
    """A directory of a database; blocking calls run in threads.

    The state of the database is the version of each object.
    """

    tells_versions = True

    def __init__(self, file: Path, connect: Callable[[Path], Database], inside: str | None) -> None:
        """`connect` opens the database; once in each process.

        UsageError if it has no directory `inside`; None looks for the archive in it.
        """
        self.file, self._connect = file, connect
        self._opened: tuple[int, Database] | None = None
        children = self.database.children
        if inside is None:
            inside = archive_root(lambda directory: children(f"{directory}/" if directory else ""))
        elif not children(f"{inside}/"):
            raise UsageError(f"no such directory in the database: {file}/{inside}")
        super().__init__(inside, url=f"{file}/{inside}" if inside else str(file))

    @property
    def database(self) -> Database:
        """The database of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._connect(self.file)
        return self._opened[1]

    async def _ask(self, question: Callable[[Database], T]) -> T:
        """Ask the database in a thread."""
        return await asyncio.to_thread(question, self.database)

    async def find(self, place: str) -> ObjectHead | None:

        def ask(database: Database) -> ObjectHead | None:
            size = database.size(place)
            return None if size is None else object_head(size, database.state())

        return await self._ask(ask)

    async def content(
        self, place: str, part: slice, limit: ReadLimit | None, version: Version | None
    ) -> bytes | None:
        """Bytes of an object of the database's listed state; databases read it whole."""

        def ask(database: Database) -> bytes | None:
            data = database.get(place, None if limit is None else limit.most)
            if data is None:
                return None
            if limit is not None:
                limit.check(len(data))
            if version is not None and version != (len(data), version_number(database.state())):
                raise source_object_changed()
            return data[part]

        return await self._ask(ask)

    async def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        state = await self._ask(lambda database: database.state())
        rows = await self._ask(lambda database: database.rows(prefix))
        while (page := await asyncio.to_thread(next, rows, None)) is not None:
            sizes = [size for _, size in page]
            all_sizes = None if None in sizes else sizes
            yield ListedPage([key for key, _ in page], all_sizes, [state] * len(page))

    async def children(self, directory: str) -> Mapping[str, bool]:
        return await self._ask(lambda database: database.children(f"{directory}/" if directory else ""))

    def refusal(self) -> UsageError:
        return UsageError(
            "a database cannot be written", found=str(self.file), expected="a directory or a URL"
        )

    @property
    def identity(self) -> tuple[object, ...]:
        return ("database", self.file)


def file_state(*paths: Path) -> str:
    """Sizes and times of those files that exist."""
    parts = []
    for path in paths:
        try:
            facts = os.stat(path)
        except FileNotFoundError:
            continue
        parts.append(f"{facts.st_size}:{facts.st_mtime_ns}")
    return " ".join(parts)


def being_written(path: Path) -> StorageError:
    """The error for a database that changes while it is read."""
    return StorageError(
        "the database is being written", found=str(path), advice="Stop its writers, then try again."
    )


def damaged(path: Path, error: Exception | str) -> StorageError:
    """The error for a database that its library cannot read."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return StorageError(
        "the database cannot be read",
        found=f"{path}: {text}",
        advice="Stop its writers; if it is damaged, restore it from a backup.",
    )


def key_text(path: Path, key: bytes) -> str:
    """A key as text; StorageError if it is not UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise damaged(path, f"the key {key[:80]!r} is not UTF-8") from None

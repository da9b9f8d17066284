"""Databases with an archive inside: each row is an object, under its key.

zarr-python 2 wrote such stores (`LMDBStore`, `SQLiteStore`, `DBMStore` of `zarr.storage`). A module per kind
of database implements `Database`; here it becomes a zarr store and the capabilities that `StoreStorage` uses.
Databases are opened for reading only, and again in each process: connections do not survive a fork.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store
from zarr.core.buffer import default_buffer_prototype

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from ..base import Storage
from ..documents import archive_root
from ..listed_versions import Version, source_object_changed, version_number
from ..listing import ListedPage
from ..local.files import ReadLimit
from ..remote.backend import Backend, ObjectState
from ..remote.zarr_store import StoreStorage

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

T = TypeVar("T")

_PAGE: Final = 1000
"""Number of rows that are listed together."""
_AFTER_SLASH: Final = "0"
"""The character after "/"."""


class Database(ABC):
    """A database opened for reading; thread-safe. Keys are ordered by their UTF-8 bytes.

    Every method raises StorageError if the database is damaged, locked, or written meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

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
        found: dict[str, bool] = {}
        start = prefix
        while True:
            page = self.page(start, _PAGE)
            skipped = None
            for key, _ in page:
                if not key.startswith(prefix):
                    return found
                if skipped is not None and key.startswith(skipped):
                    continue
                name, slash, _rest = key[len(prefix) :].partition("/")
                skipped = f"{prefix}{name}/" if slash else None
                if name:
                    found[name] = bool(slash) or found.get(name, False)
            if len(page) < _PAGE:
                return found
            start = page[-1][0] + "\0" if skipped is None else skipped[:-1] + _AFTER_SLASH


class DatabaseStore(Store):
    """A database as a read-only zarr store; blocking calls run in threads."""

    supports_deletes = False
    supports_writes = False
    supports_listing = True

    def __init__(self, path: Path, connect: Callable[[Path], Database]) -> None:
        """`connect` opens the database; once in each process."""
        super().__init__(read_only=True)
        self.path = path
        self._connect = connect
        self._opened: tuple[int, Database] | None = None

    @property
    def database(self) -> Database:
        """The database of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._connect(self.path)
        return self._opened[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseStore) and other.path == self.path

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.path)

    def as_backend(self) -> Backend:
        """Its capabilities beyond those of a store."""
        return DatabaseBackend(self)

    async def ask(self, question: Callable[[Database], T]) -> T:
        """Ask the database in a thread."""
        return await asyncio.to_thread(question, self.database)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The object or a part of it."""
        data = await self.ask(lambda database: database.get(key))
        made = default_buffer_prototype() if prototype is None else prototype
        return None if data is None else made.buffer.from_bytes(_part(data, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Parts of several objects."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def getsize(self, key: str) -> int:
        """Size of an object; FileNotFoundError."""
        size = await self.ask(lambda database: database.size(key))
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return await self.ask(lambda database: database.size(key)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Refused."""
        raise _read_only(self.path, key)

    async def delete(self, key: str) -> None:
        """Refused."""
        raise _read_only(self.path, key)

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys with a prefix."""
        for rows in await self.ask(lambda database: list(database.rows(prefix))):
            for key, _ in rows:
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names below a directory."""
        for name in await self.ask(lambda database: database.children(_directory(prefix))):
            yield name


class DatabaseBackend(Backend):
    """Listings with sizes and the database's state, and reads that are compared with it."""

    tells_versions = True

    def __init__(self, store: DatabaseStore) -> None:
        self.store: DatabaseStore = store

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """A whole object of the database's listed state."""

        def ask(database: Database) -> bytes | None:
            data = database.get(key, bound.most)
            if data is None:
                return None
            bound.check(len(data))
            if version is not None and version != (len(data), version_number(database.state())):
                raise source_object_changed()
            return data

        return await self.store.ask(ask)

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """Bytes of an object; databases read it whole."""

        def ask(database: Database) -> bytes | None:
            data = database.get(key)
            if data is not None and version not in (None, (len(data), version_number(database.state()))):
                raise source_object_changed()
            return None if data is None else _part(data, part)

        return await self.store.ask(ask)

    async def state(self, key: str) -> ObjectState | None:
        """Size and the database's state."""

        def ask(database: Database) -> ObjectState | None:
            size = database.size(key)
            return None if size is None else (size, database.state())

        return await self.store.ask(ask)

    async def children(self, prefix: str) -> dict[str, bool]:
        """Names directly below a prefix."""
        return await self.store.ask(lambda database: database.children(_directory(prefix)))

    async def pages(
        self,
        prefix: str,
        keys: Callable[[], Sequence[str]] | None = None,
    ) -> AsyncIterator[ListedPage]:
        """All objects; the state of the database is the version of each."""
        state = await self.store.ask(lambda database: database.state())
        rows = await self.store.ask(lambda database: database.rows(prefix))
        while (page := await asyncio.to_thread(next, rows, None)) is not None:
            sizes = [size for _, size in page]
            known = None if None in sizes else sizes
            yield ListedPage([key for key, _ in page], known, [state] * len(page))

    async def put_file(self, key: str, name: str, size: int) -> None:
        """Refused."""
        raise _read_only(self.store.path, key)

    @property
    def creates(self) -> bool:
        """False."""
        return False

    async def create(self, key: str, data: bytes) -> None:
        """Refused."""
        raise _read_only(self.store.path, key)

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        """Refused."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[object, ...]:
        """The path."""
        return ("database", str(self.store.path))


def open_database(path: Path, inside: str | None, connect: Callable[[Path], Database]) -> Storage:
    """The archive inside a database; UsageError if there is no such directory, StorageError."""
    store = DatabaseStore(path, connect)
    database = store.database
    if inside is not None:
        if not database.children(f"{inside}/"):
            raise UsageError(f"no such directory in the database: {path}/{inside}")
        prefix = inside
    else:
        prefix = archive_root(lambda directory: database.children(f"{directory}/" if directory else ""))
    return StoreStorage(store, prefix, url=f"{path}/{prefix}" if prefix else str(path))


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


def _directory(prefix: str) -> str:
    return f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""


def _part(data: bytes, part: ByteRequest | None) -> bytes:
    if part is None:
        return data
    if isinstance(part, RangeByteRequest):
        return data[part.start : part.end]
    if isinstance(part, OffsetByteRequest):
        return data[part.offset :]
    return data[max(len(data) - part.suffix, 0) :]


def _read_only(path: Path, key: str) -> ZarrstackError:
    return UsageError(
        "a database cannot be written", key=key, found=str(path), expected="a directory or a URL"
    )

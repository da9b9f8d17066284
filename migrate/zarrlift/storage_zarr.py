"""Any zarr-python 3 store as `Storage`: memory, zip, fsspec, or a stack of transformers.

zarr's stores are asynchronous, the engine is not; they live in an event loop of our own
(`storage_loop`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast

from zarrstack.core.errors import StorageError, UsageError

from .credentials import redact
from .storage import PART, PARTS_AT_ONCE, Entry, Storage
from .storage_loop import bounded, close_soon, run
from .storage_pace import MOST, Pace
from .storage_soon import Soon

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.storage import FsspecStore

T = TypeVar("T")

_UNLISTED: Final = frozenset({"http", "https"})
"""Protocols that cannot list: an HTML page of links is no listing to rely on."""
_MOST_PARTS: Final = 10_000


class StoreStorage(Storage):
    """A zarr `Store`, from `path` on downwards; safe to use from several threads.

    `url` names the place in messages, plans and jobs and must be free of credentials;
    `secrets` are texts that never appear in an error.
    """

    def __init__(
        self, store: Store, path: str = "", *, url: str | None = None, secrets: Sequence[str] = ()
    ) -> None:
        self._store = _own(store)
        self.base = path.strip("/")
        self._prefix = f"{self.base}/" if self.base else ""
        self._secrets = tuple(secrets)
        text = "/".join(filter(None, (_url(store), self.base))) if url is None else url
        self.url = redact(text, self._secrets)
        protocols = _protocols(store)
        self.can_list = store.supports_listing and not protocols & _UNLISTED
        self.in_process = "memory" in protocols
        self.pace = Pace()
        self.soon = Soon(self)
        self._names: dict[str, dict[str, bool]] | None = None
        if self._store is not store:
            # A file system of our own: nobody else will close its connections.
            weakref.finalize(self, close_soon, getattr(self._store, "fs", None))

    def get(self, key: str) -> bytes | None:
        """The object, or None where the store says that there is none."""
        return run(self.fetch(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """As many requests at once as the store's pace allows."""
        return run(bounded([self.fetch(key) for key in keys]))

    def get_part(self, key: str, start: int, length: int) -> bytes | None:
        """One ranged request."""
        return run(self.fetch_part(key, start, length))

    def size(self, key: str) -> int | None:
        """One request, where the store can say a size without the object."""
        return run(self.fetch_size(key))

    def put(self, key: str, data: bytes) -> None:
        """Hand the object to the store; whether that is atomic is the store's own property."""
        run(self.store(key, data))

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        """As many requests at once as the store's pace allows."""
        run(bounded([self.store(key, data) for key, data in items]))

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """A file system of fsspec's sends a file on disk in pieces; others are given the whole."""
        store = self.fsspec
        name = file.name if isinstance(getattr(file, "name", None), str) else None
        if store is None or name is None:
            super().put_file(key, file, size)
            return
        send = cast("Any", store.fs)._put_file  # noqa: SLF001 - its asynchronous interface
        options = in_parts(send, size)
        # The parts are not counted by the pace, which takes them for one request.
        run(self.told("cannot write", key, lambda: send(name, self.path(key), **options)))

    def delete(self, key: str) -> None:
        """Remove the object; stores that insist on its presence are not listened to."""
        run(self.told("cannot delete", key, lambda: _forgiving(self._store.delete(self.key(key)))))

    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """Names directly below a prefix; links do not exist here."""
        yield from run(self._list(prefix))

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[Entry]]:
        """As many listings at once as the store's pace allows."""
        return run(bounded([self._list(prefix) for prefix in prefixes]))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Every key below a prefix, in one listing."""
        full = self._prefix + prefix

        def find() -> Coroutine[Any, Any, list[str]]:
            if _is_fsspec(self._store):
                return _find_fsspec(self._store, full)
            return _collect(self._store.list_prefix(full))

        for key in run(self.told("cannot list", prefix, find)):
            yield key[len(self._prefix) :]

    def zarr_store(self) -> Store:
        """A store that zarr's own event loop may use; its calls are done in ours."""
        from .storage_bridge import BridgedStore

        return BridgedStore(self._store, self._prefix)

    @property
    def fsspec(self) -> FsspecStore | None:
        """The fsspec store below, where nothing else stands between; None for other stores."""
        return cast("FsspecStore", self._store) if _is_fsspec(self._store) else None

    # ----- on the loop's thread

    def key(self, key: str) -> str:
        """The key in the store below; UsageError where it would leave the archive's root."""
        if key.startswith("/") or ".." in key and ".." in key.split("/"):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key

    def path(self, key: str) -> str:
        """The key in the file system below; only for a store of fsspec's."""
        store = self.fsspec
        assert store is not None
        return "/".join(part for part in (store.path.rstrip("/"), self.key(key)) if part)

    async def fetch(self, key: str) -> bytes | None:
        """As `get`, in the loop."""
        return await self.told("cannot read", key, lambda: self._part(key, None), size=_bytes)

    async def _part(self, key: str, part: Any) -> bytes | None:
        from zarr.core.buffer import default_buffer_prototype

        value = await self._store.get(self.key(key), default_buffer_prototype(), part)
        return None if value is None else value.to_bytes()

    async def fetch_part(self, key: str, start: int, length: int) -> bytes | None:
        """As `get_part`, in the loop."""
        from zarr.abc.store import RangeByteRequest, SuffixByteRequest

        part = SuffixByteRequest(length) if start < 0 else RangeByteRequest(start, start + length)
        return await self.told("cannot read", key, lambda: self._part(key, part), size=_bytes)

    async def fetch_size(self, key: str) -> int | None:
        """As `size`, in the loop."""

        async def ask() -> int | None:
            try:
                return await self._store.getsize(self.key(key))
            except FileNotFoundError:
                return None

        return await self.told("cannot read", key, ask)

    async def fetch_end(self, key: str, start: int, length: int) -> tuple[int, bytes] | None:
        """Size and a part of an object, asked for together; None if it is proven absent."""
        size, part = await asyncio.gather(self.fetch_size(key), self.fetch_part(key, start, length))
        return None if size is None or part is None else (size, part)

    async def store(self, key: str, data: bytes) -> None:
        """As `put`, in the loop."""
        from zarr.core.buffer import default_buffer_prototype

        buffer = default_buffer_prototype().buffer.from_bytes(data)
        place = self.key(key)
        await self.told("cannot write", key, lambda: self._store.set(place, buffer), size=lambda _: len(data))

    async def _list(self, prefix: str) -> list[Entry]:
        if prefix:
            self.key(prefix)
        prefix = prefix.strip("/")
        found = await self.told("cannot list", prefix, lambda: self._children(prefix))
        return [Entry(name, is_dir) for name, is_dir in found.items()]

    async def _children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory."""
        full = (self._prefix + prefix).rstrip("/")
        if _is_fsspec(self._store):
            return await _list_fsspec(self._store, full)
        if _is_zip(self._store):
            # A zip is opened for reading only, so that its directory can be read once.
            if self._names is None:
                self._names = _tree(await _collect(self._store.list()))
            return self._names.get(full, {})
        # zarr's `list_dir` does not say what is a directory; asking for each name would cost a
        # request per chunk, listing everything below costs one per thousand.
        start = len(full) + 1 if full else 0
        keys = await _collect(self._store.list_prefix(f"{full}/" if full else ""))
        return _tree([key[start:] for key in keys]).get("", {})

    async def told(
        self,
        what: str,
        key: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        *,
        size: Callable[[T], int | None] = lambda _: None,
    ) -> T:
        """One request at the store's pace; every failure of a store is a StorageError that names the key.

        `size` gives the bytes that an answer took over the line, as `Pace` wants them.
        """
        try:
            # zarr offers no public way to open a store that was made closed, such as a zip.
            await self._store._ensure_open()  # noqa: SLF001
            return await self.pace(ask, size=size)
        except (StorageError, UsageError):
            raise
        except Exception as error:
            text = redact(f"{type(error).__name__}: {error}", self._secrets)
            raise StorageError(what, key=key, found=text[:500]) from error


def _bytes(data: bytes | None) -> int:
    return 0 if data is None else len(data)


# ----- listings


async def _list_fsspec(store: Any, full: str) -> dict[str, bool]:
    """One listing by the file system itself, which knows what is a directory."""
    path = "/".join(part for part in (store.path.rstrip("/"), full) if part)
    store.fs.invalidate_cache()
    try:
        found = await store.fs._ls(path, detail=True)  # noqa: SLF001 - fsspec's asynchronous interface
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = {}
    own = path.strip("/")
    for item in found:
        name = item["name"].strip("/")
        # Some object stores list the directory itself, as an empty object.
        if name != own:
            entries[name.rsplit("/", 1)[-1]] = item["type"] == "directory"
    return entries


async def _find_fsspec(store: Any, full: str) -> list[str]:
    """Every key below a prefix; zarr 3.1.6 gives wrong names where the store is a whole bucket."""
    root = store.path.strip("/")
    store.fs.invalidate_cache()
    found = await store.fs._find("/".join(part for part in (store.path.rstrip("/"), full.strip("/")) if part))  # noqa: SLF001
    return [name.strip("/").removeprefix(root).lstrip("/") for name in found]


def _tree(keys: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Directory -> its names -> whether each is a directory; "" is the root."""
    tree: dict[str, dict[str, bool]] = {}
    for key in keys:
        # Zip files written by archivers have entries for directories, which end with "/".
        directory, _, name = key.removesuffix("/").rpartition("/")
        tree.setdefault(directory, {})[name] = key.endswith("/")
        while directory:
            parent, _, name = directory.rpartition("/")
            below = tree.setdefault(parent, {})
            if below.get(name):
                break
            below[name] = True
            directory = parent
    return tree


async def _collect(items: AsyncIterator[str]) -> list[str]:
    return [item async for item in items]


def _takes(function: Callable[..., Any], option: str) -> bool:
    try:
        return option in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def in_parts(send: Callable[..., Any], size: int) -> dict[str, int]:
    """How a file system's `_put_file` is told to send `size` bytes in parts that fit into little memory.

    s3fs by itself sends ten parts of 50 MB at once. S3 takes up to 10,000 parts of an object
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
    """
    options = {"chunksize": max(PART, -(-size // _MOST_PARTS)), "max_concurrency": PARTS_AT_ONCE}
    return {name: value for name, value in options.items() if _takes(send, name)}


async def _forgiving(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (KeyError, FileNotFoundError):
        return


# ----- stores


def _is_fsspec(store: Store) -> bool:
    from zarr.storage import FsspecStore

    return type(store) is FsspecStore


def _is_zip(store: Store) -> bool:
    from zarr.storage import ZipStore

    return type(store) is ZipStore and store.read_only


def _protocols(store: Any) -> set[str]:
    """The protocols of the file system below, also of a stack that wraps it; empty for others."""
    while True:
        if hasattr(store, "fs"):
            protocol = getattr(store.fs, "protocol", ())
            return {protocol} if isinstance(protocol, str) else set(protocol)
        inner = getattr(store, "_store", None)
        if inner is None:
            return set()
        store = inner


def _url(store: Any) -> str:
    """How a store given as an object is named; only places that can be opened again look like one."""
    if _is_fsspec(store):
        protocol = store.fs.protocol if isinstance(store.fs.protocol, str) else store.fs.protocol[0]
        path = str(store.path)
        return path if "://" in path else f"{protocol}://{path.lstrip('/') if protocol != 'file' else path}"
    if _is_zip(store):
        return os.path.abspath(str(store.path))
    return f"{type(store).__name__}:{_token(store)}"


_tokens: dict[int, tuple[weakref.ref[Any], str]] = {}


def _token(store: Any) -> str:
    """A word for a store that lives in this process, which no other store ever has.

    Jobs outlive stores, and `id` is given again: a later store would pass for an earlier one's
    finished destination.
    """
    known = _tokens.get(id(store))
    if known is None or known[0]() is not store:
        known = _tokens[id(store)] = (weakref.ref(store), secrets.token_hex(4))
    return known[1]


def _own(store: Store) -> Store:
    """The store, with a file system of its own where it could be bound to another event loop."""
    if not _is_fsspec(store):
        return store
    from zarr.storage import FsspecStore

    given: Any = store
    if type(given.fs).__name__ == "AsyncFileSystemWrapper":
        # A synchronous file system, run in threads: no loop to be bound to.
        return store
    options = {**given.fs.storage_options, "asynchronous": True, "skip_instance_cache": True}
    if "s3" in _protocols(given):
        # botocore keeps ten connections, and lets whatever else is asked for wait.
        options["config_kwargs"] = {"max_pool_connections": MOST, **(options.get("config_kwargs") or {})}
    fs = type(given.fs)(*given.fs.storage_args, **options)
    if "s3" in _protocols(given) and hasattr(fs, "max_concurrency") and "max_concurrency" not in options:
        # s3fs would ask for the size of every object first, to fetch those beyond 50 MB in parts.
        fs.max_concurrency = 1
    return FsspecStore(
        fs, read_only=given.read_only, path=given.path, allowed_exceptions=given.allowed_exceptions
    )

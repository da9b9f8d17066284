"""Capabilities of fsspec's file systems beyond zarr's `FsspecStore`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from ..base import PARTS_AT_ONCE, ListedPage
from ..versions import Version
from .adaptive_concurrency import MAX_REQUESTS
from .backend import HTTP, Backend, ObjectState, bounded_bytes, part_size, stored_bytes, version_text
from .error_text import names_no_bucket
from .redirects import guarded

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.storage import FsspecStore

    from ..local.files import ReadLimit

_CREATING: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose file systems pass `mode="create"` to the store (s3fs 2026.9, gcsfs 2026.9, adlfs 2026.8);
fsspec's default is to check whether the file exists and then to write it.
"""
_OURS: Final = frozenset({"asynchronous", "skip_instance_cache", "loop"})
"""Options that determine how a file system is used, not which one it is."""

_RANGED: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "file", "local"}
)
"""Protocols of stores that end a range at the end of the object. References return bytes behind it."""

_VERSIONS: Final = (
    *("ETag", "etag", "generation", "md5Hash", "content_hash", "sha", "CRC"),
    *("mtime", "LastModified", "last_modified", "updated", "modified", "modify", "created", "Last-Modified"),
)
"""Names of the version in file systems (s3fs, gcsfs, adlfs, dropbox, github, zip; local, memory; http), the
most reliable first.
"""


class FsspecBackend(Backend):
    """A file system of fsspec, through its asynchronous interface."""

    def __init__(self, store: FsspecStore) -> None:
        self.store: FsspecStore = store
        self.fs: Any = store.fs
        self._root = store.path.rstrip("/")
        # adlfs 2026.8 starts a copy, and does not wait for Azure to make it.
        self.copies_at_once = not protocols(store) & {"az", "abfs", "abfss"}

    def path(self, key: str) -> str:
        """The path of a key in the file system."""
        return "/".join(part for part in (self._root, key) if part)

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """Read its first bytes if a range may exceed an object; otherwise its size is requested first."""
        if protocols(self.store) & _RANGED:
            return await bounded_bytes(self.store, key, bound)
        try:
            size = (await self.fs._info(self.path(key))).get("size")  # noqa: SLF001
        except self.store.allowed_exceptions:
            return None
        if size is not None:
            bound.check(size)
        return await stored_bytes(self.store, key, None)

    async def state(self, key: str) -> ObjectState | None:
        """As the file system describes it, which must not be what it remembers of a listing."""
        self.fs.invalidate_cache()
        try:
            facts = await self.fs._info(self.path(key))  # noqa: SLF001
        except self.store.allowed_exceptions:
            return None
        return facts.get("size"), str(_version(facts))

    async def children(self, prefix: str) -> dict[str, bool]:
        """One listing by the file system, which provides the types of entries."""
        path = self.path(prefix)
        self.fs.invalidate_cache()
        try:
            items = await self.fs._ls(path, detail=True)  # noqa: SLF001 - fsspec's asynchronous interface
        except (FileNotFoundError, NotADirectoryError) as error:
            if names_no_bucket(error):
                raise
            return {}
        entries = {}
        own = path.strip("/")
        for item in items:
            name = item["name"].strip("/")
            # Some object stores list the directory itself, as an empty object.
            if name != own:
                entries[name.rsplit("/", 1)[-1]] = item["type"] == "directory"
        return entries

    async def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """All objects in one listing; zarr 3.1.6 gives wrong names if the store is a whole bucket."""
        root = self._root.strip("/")
        self.fs.invalidate_cache()
        items = await self.fs._find(self.path(prefix.strip("/")), detail=True)  # noqa: SLF001
        yield ListedPage(
            [name.strip("/").removeprefix(root).lstrip("/") for name in items],
            [facts.get("size") for facts in items.values()],
            list(map(_version, items.values())),
        )

    async def put_file(self, key: str, name: str, size: int) -> None:
        send = self.fs._put_file  # noqa: SLF001
        await send(name, self.path(key), **in_parts(send, size))

    @property
    def creates(self) -> bool:
        return bool(_protocols_of(self.fs) & _CREATING)

    async def create(self, key: str, data: bytes) -> None:
        await self.fs._pipe_file(self.path(key), data, mode="create")  # noqa: SLF001

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        assert isinstance(source, FsspecBackend)
        await self.fs._cp_file(source.path(before), self.path(after))  # noqa: SLF001

    @property
    def identity(self) -> tuple[object, ...]:
        inner = getattr(self.fs, "sync_fs", self.fs)  # fsspec's wrapper around a synchronous file system
        options = {name: value for name, value in inner.storage_options.items() if name not in _OURS}
        return type(inner), inner.storage_args, options


def _version(facts: Mapping[str, Any]) -> str | None:
    """The property of an object in a file system that changes with every write."""
    return next((version_text(facts[name]) for name in _VERSIONS if facts.get(name) is not None), None)


def in_parts(send: Callable[..., Any], size: int) -> dict[str, int]:
    """Arguments of a file system's `_put_file` for sending `size` bytes in parts with little memory.

    By default, s3fs sends ten parts of 50 MB concurrently.
    """
    options = {"chunksize": part_size(size), "max_concurrency": PARTS_AT_ONCE}
    return {name: value for name, value in options.items() if _takes(send, name)}


def _takes(function: Callable[..., Any], option: str) -> bool:
    try:
        return option in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def protocols(store: Any) -> set[str]:
    """The protocols of the file system below a store or a stack; empty for others.

    "memory" is that of zarr's own memory store too.
    """
    from zarr.storage import MemoryStore

    while True:
        if isinstance(store, MemoryStore):
            return {"memory"}
        if hasattr(store, "fs"):
            return _protocols_of(store.fs)
        inner = getattr(store, "_store", None)
        if inner is None:
            return set()
        store = inner


def _protocols_of(fs: Any) -> set[str]:
    protocol = getattr(fs, "protocol", ())
    return {protocol} if isinstance(protocol, str) else set(protocol)


def own(store: Store) -> Store:
    """The store, with its own file system if the present one could be bound to another event loop."""
    from zarr.storage import FsspecStore

    if type(store) is not FsspecStore:
        return store
    below: Any = store
    if type(below.fs).__name__ == "AsyncFileSystemWrapper":
        # A synchronous file system, run in threads, is not bound to a loop.
        return _in_the_loop(below) if "memory" in protocols(below) else store
    options = {**below.fs.storage_options, "asynchronous": True, "skip_instance_cache": True}
    if "s3" in protocols(below):
        # botocore keeps ten connections, and further requests wait.
        options["config_kwargs"] = {
            "max_pool_connections": MAX_REQUESTS,
            **(options.get("config_kwargs") or {}),
        }
    if HTTP & protocols(below):
        options = guarded(options)
    fs = type(below.fs)(*below.fs.storage_args, **options)
    if "s3" in protocols(below) and hasattr(fs, "max_concurrency") and "max_concurrency" not in options:
        # s3fs would request the size of every object first, to fetch those above 50 MB in parts.
        fs.max_concurrency = 1
    return FsspecStore(
        fs, read_only=below.read_only, path=below.path, allowed_exceptions=below.allowed_exceptions
    )


def _in_the_loop(store: FsspecStore) -> FsspecStore:
    """A store of `memory://` whose calls run in the event loop that awaits them, not each in a thread.

    None of them waits for anything, and its dictionary must not be listed and written at the same time.
    """
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from zarr.storage import FsspecStore

    fs = AsyncFileSystemWrapper(store.fs.sync_fs, asynchronous=True)
    for name, method in list(vars(fs).items()):
        if inspect.iscoroutinefunction(method):
            setattr(fs, name, _direct(method.__wrapped__))
    return FsspecStore(
        fs, read_only=store.read_only, path=store.path, allowed_exceptions=store.allowed_exceptions
    )


def _direct(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)  # its parameters are inspected: see `in_parts`
    async def called(*positional: Any, **named: Any) -> Any:
        return call(*positional, **named)

    return called

"""Any zarr-python 3 store as `Storage`: memory, a stack of transformers, or a file system of fsspec.

zarr's stores are asynchronous, the engine is not; stores run in our own event loop (`event_loop`). zarr's
`FsspecStore` lists names without types and sizes, so that its file system is listed directly.
"""

from __future__ import annotations

import inspect
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from ..base import ListedPage
from .async_storage import ObjectHead, object_head, version_text
from .error_text import names_no_bucket
from .event_loop import close_soon, run
from .redirects import guarded
from .remote_storage import RemoteStorage

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store
    from zarr.storage import FsspecStore

    from ..local.files import ReadLimit
    from ..versions import Version

HTTP: Final = frozenset({"http", "https"})
_OURS: Final = frozenset({"asynchronous", "skip_instance_cache", "loop"})
"""Options that determine how a file system is used, not which one it is."""
_AT_ONCE: Final = 16 << 20
"""Bytes of a document that are asked for at first: `LocalStore` takes memory for all of a range."""
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


class StoreStorage(RemoteStorage):
    """A zarr `Store` below a path."""

    def __init__(
        self,
        store: Store,
        path: str = "",
        *,
        url: str | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        from zarr.storage import FsspecStore

        path = path.strip("/")
        text = "/".join(filter(None, (url_of(store), path))) if url is None else url
        super().__init__(path, url=text, secrets=secrets)
        self._store: Any = own(store)
        self._files: Any = self._store.fs if type(self._store) is FsspecStore else None
        """The file system of fsspec, if there is nothing in between."""
        schemes = protocols(store)
        # Over HTTP, a page of links is not a reliable listing.
        self.can_list = store.supports_listing and not schemes & HTTP
        self.in_process = "memory" in schemes
        self.read_only = store.read_only
        if self._store is not store:  # our own file system: its connections are not closed elsewhere
            weakref.finalize(self, close_soon, self._files)

    @property
    def backing(self) -> Store:
        """The store itself."""
        store: Store = self._store
        return store

    async def open(self) -> None:
        # zarr has no public method to open a store that was created closed, such as a zip.
        await self._store._ensure_open()  # noqa: SLF001

    @property
    def identity(self) -> tuple[object, ...]:
        if self._files is None:
            return (self._store,)
        inner = getattr(self._files, "sync_fs", self._files)  # fsspec's wrapper around a synchronous one
        options = {name: value for name, value in inner.storage_options.items() if name not in _OURS}
        return type(inner), inner.storage_args, options

    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        """Of a document, its first bytes; its size is requested first if a range may exceed an object.

        A long document is read again as a whole, so that it is of one moment.
        """
        if self._files is not None and not protocols(self._store) & _RANGED:
            head = await self.head(place)
            if head is None:
                return None
            limit.check(head.size or 0)
        elif limit.kind == "document":
            data = await self.read_part(place, slice(0, min(limit.most, _AT_ONCE) + 1), None)
            if data is not None and len(data) > _AT_ONCE:
                data = await self.read_part(place, slice(0, limit.most + 1), None)
            if data is not None and len(data) > limit.most:
                raise limit.too_large(f"more than {limit.most} bytes")
            return data
        data = await self.read_part(place, slice(None), None)  # layers may be slower for a part of a chunk
        if data is not None:
            limit.check(len(data))
        return data

    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        from zarr.buffer import default_buffer_prototype

        value = await self._store.get(place, default_buffer_prototype(), _byte_request(part))
        return None if value is None else bytes(value.to_bytes())

    async def head(self, place: str) -> ObjectHead | None:
        """As a file system describes it, which must not be what it remembers of a listing."""
        if self._files is None:
            size = await self.length(place)
            return None if size is None else ObjectHead(size, None)
        self._files.invalidate_cache()
        try:
            facts = await self._files._info(self.path(place))  # noqa: SLF001
        except self._store.allowed_exceptions:
            return None
        return object_head(facts.get("size"), _version(facts))

    async def length(self, place: str) -> int | None:
        try:
            size: int = await self._store.getsize(place)
        except FileNotFoundError:
            return None
        return size

    async def exists(self, place: str) -> bool:
        return bool(await self._store.exists(place))

    async def write(self, place: str, data: bytes) -> None:
        from zarr.buffer import default_buffer_prototype

        await self._store.set(place, default_buffer_prototype().buffer.from_bytes(data))

    async def send_file(self, place: str, name: str, size: int) -> bool:
        if self._files is None:
            return False
        await self._files._put_file(name, self.path(place))  # noqa: SLF001
        return True

    async def remove(self, place: str) -> None:
        """Errors of stores that require its presence are ignored."""
        try:
            await self._store.delete(place)
        except (KeyError, FileNotFoundError):
            return

    def clear(self, prefix: str) -> None:
        """Remove everything below a prefix; "" is the whole storage."""
        full = self.key(prefix).rstrip("/")
        act = partial(self._store.delete_dir, full) if full else self._store.clear
        run(self.request("cannot delete", prefix, act))

    async def children(self, directory: str) -> Mapping[str, bool]:
        """One listing by a file system, which provides types; of other stores, everything below is listed.

        zarr's `list_dir` does not provide types; a query for each name would cost a request per chunk, a
        listing of everything below one per thousand.
        """
        if self._files is None:
            prefix = f"{directory}/" if directory else ""
            keys = [key.removeprefix(prefix) async for key in self._store.list_prefix(prefix)]
            return tree_of(keys).get("", {})
        path = self.path(directory)
        self._files.invalidate_cache()
        try:
            items = await self._files._ls(path, detail=True)  # noqa: SLF001 - fsspec's asynchronous interface
        except (FileNotFoundError, NotADirectoryError) as error:
            if names_no_bucket(error):
                raise
            return {}
        # Some object stores list the directory itself, as an empty object.
        found = {item["name"].strip("/"): item["type"] == "directory" for item in items}
        found.pop(path.strip("/"), None)
        return {name.rsplit("/", 1)[-1]: is_dir for name, is_dir in found.items()}

    async def names(self, directory: str) -> Sequence[str]:
        return [name async for name in self._store.list_dir(directory)]

    async def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """All objects in one listing; zarr 3.1.6 gives wrong names if the store is a whole bucket."""
        if self._files is None:
            yield ListedPage([key async for key in self._store.list_prefix(prefix)])
            return
        root = self.path("").strip("/")
        self._files.invalidate_cache()
        items = await self._files._find(self.path(prefix.strip("/")), detail=True)  # noqa: SLF001
        yield ListedPage(
            [name.strip("/").removeprefix(root).lstrip("/") for name in items],
            [facts.get("size") for facts in items.values()],
            list(map(_version, items.values())),
        )

    def path(self, place: str) -> str:
        """The path of a place in the file system."""
        root: str = self._store.path
        return "/".join(part for part in (root.rstrip("/"), place) if part)


def _byte_request(part: slice) -> ByteRequest | None:
    """A part in zarr's form; None for all bytes."""
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

    start, stop = part.start or 0, part.stop
    if stop is not None:
        return RangeByteRequest(start, stop)
    if start < 0:
        return SuffixByteRequest(-start)
    return OffsetByteRequest(start) if start else None


def _version(facts: Mapping[str, Any]) -> str | None:
    """The property of an object in a file system that changes with every write."""
    return next((version_text(facts[name]) for name in _VERSIONS if facts.get(name) is not None), None)


def tree_of(keys: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Directory -> its names -> whether each is a directory; "" is the root."""
    tree: dict[str, dict[str, bool]] = {}
    for key in keys:
        # Zip files by archivers have entries for directories, which end with "/".
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


# ----- file systems of fsspec


def protocols(store: Any) -> set[str]:
    """The protocols of the file system below a store or a stack; empty for others.

    "memory" is that of zarr's own memory store too.
    """
    from zarr.storage import MemoryStore

    while True:
        if isinstance(store, MemoryStore):
            return {"memory"}
        if hasattr(store, "fs"):
            protocol = getattr(store.fs, "protocol", ())
            return {protocol} if isinstance(protocol, str) else set(protocol)
        inner = getattr(store, "_store", None)
        if inner is None:
            return set()
        store = inner


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
    if HTTP & protocols(below):
        options = guarded(options)
    fs = type(below.fs)(*below.fs.storage_args, **options)
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
    @wraps(call)
    async def called(*positional: Any, **named: Any) -> Any:
        return call(*positional, **named)

    return called


# ----- names of stores in messages, plans and jobs


def url_of(store: Any) -> str:
    """The name of a store given as an object; it is a URL only if the store can be opened again."""
    if type(store).__name__ == "FsspecStore":
        protocol = store.fs.protocol if isinstance(store.fs.protocol, str) else store.fs.protocol[0]
        path = str(store.path)
        return path if "://" in path else f"{protocol}://{path.lstrip('/') if protocol != 'file' else path}"
    return f"{type(store).__name__}:{_token(store)}"


_tokens: dict[int, tuple[weakref.ref[Any], str]] = {}


def _token(store: Any) -> str:
    """A unique identifier for a store that exists only in this process.

    Jobs outlive stores, and `id` is reused: a later store could be mistaken for an earlier job's finished
    destination.
    """
    entry = _tokens.get(id(store))
    if entry is None or entry[0]() is not store:
        entry = _tokens[id(store)] = (weakref.ref(store), secrets.token_hex(4))
    return entry[1]

"""Any zarr-python 3 store as `Storage`: memory, fsspec, members of a file, or a stack of transformers.

zarr's stores are asynchronous, the engine is not; stores run in our own event loop (`event_loop`).
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from ..base import CLAIM, DirectoryEntry, L, ListedPage, ObjectPart, Storage
from ..local.files import path_of
from ..redact import redact
from ..versions import Version
from .adaptive_concurrency import ConcurrencyLimiter
from .backend import HTTP, bounded_bytes, stored_bytes, stored_size, write_bytes
from .backend_fsspec import own, protocols
from .error_text import CONFLICT, UNKNOWN_REQUEST, plainly
from .event_loop import begin, bounded, close_soon, run
from .parallel_listing import UnorderedListingError
from .store_listing import ListedKeys, any_names, entries_of, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from zarr.abc.store import ByteRequest, Store

    from ..local.files import ReadLimit
    from .backend import Backend


class StoreRequests:
    """Starts requests to a store, from any thread; each returns a future."""

    def __init__(self, storage: StoreStorage) -> None:
        self._storage = storage

    def get(
        self, keys: Sequence[str], limit: ReadLimit | None, versions: Sequence[Version | None]
    ) -> list[Future[bytes | None]]:
        """Whole objects, each as `Storage.get` returns it."""
        fetch = self._storage.fetch
        return begin([fetch(key, limit, version) for key, version in zip(keys, versions, strict=True)])

    def parts(
        self, key: str, spans: Sequence[tuple[int, int]], version: Version | None
    ) -> list[Future[bytes | None]]:
        """Ranges (start, stop) of one object, as `Storage.get_part` returns them."""
        fetch = self._storage.fetch_part
        return begin([fetch(key, start, stop - start, version) for start, stop in spans])

    def ends(
        self, keys: Sequence[str], start: int, length: int, versions: Sequence[Version | None]
    ) -> list[Future[ObjectPart | None]]:
        """A part of each object, as `Storage.get_end` returns it."""
        fetch = self._storage.fetch_end
        return begin([fetch(key, start, length, each) for key, each in zip(keys, versions, strict=True)])

    def put(self, key: str, data: bytes) -> Future[None]:
        """Write a whole object."""
        return begin([self._storage.store(key, data)])[0]


T = TypeVar("T")


class StoreStorage(Storage):
    """A zarr `Store` below `path`; thread-safe.

    `url` names the place in messages, plans and jobs and must not contain credentials; `secrets` are texts
    that never appear in an error.
    """

    def __init__(
        self,
        store: Store,
        path: str = "",
        *,
        url: str | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        from zarrstack.base.forked import guard

        self._store = own(store)
        guard(self)
        self.native = native(self._store)
        """The library below, if there is nothing in between; None for other stores."""
        self.base = path.strip("/")
        self._prefix = f"{self.base}/" if self.base else ""
        self.secrets = tuple(secrets)
        text = "/".join(filter(None, (url_of(store), self.base))) if url is None else url
        self.url = redact(text, self.secrets)
        schemes = protocols(store)
        # Over HTTP, a page of links is not a reliable listing.
        self.can_list = store.supports_listing and not schemes & HTTP
        if self.native is not None:
            self.absence = self.native.absence
        self.in_process = "memory" in schemes
        self.exclusive = self.native is not None and self.native.creates
        self.pace = ConcurrencyLimiter()
        self.requests = StoreRequests(self)
        self.tells_versions = self.native is not None and self.native.tells_versions
        if self._store is not store:  # our own file system: its connections are not closed elsewhere
            weakref.finalize(self, close_soon, getattr(self._store, "fs", None))

    def get(
        self, key: str, limit: ReadLimit | None = None, *, version: Version | None = None
    ) -> bytes | None:
        return run(self.fetch(key, limit, version))

    def get_many(self, keys: Sequence[str], limit: ReadLimit | None = None) -> list[bytes | None]:
        return run(bounded([self.fetch(key, limit) for key in keys]))

    def get_part(self, key: str, start: int, length: int, *, version: Version | None = None) -> bytes | None:
        return run(self.fetch_part(key, start, length, version))

    def get_end(
        self, key: str, start: int, length: int, *, version: Version | None = None
    ) -> ObjectPart | None:
        return run(self.fetch_end(key, start, length, version))

    def size(self, key: str) -> int | None:
        """One request, if the store can give a size without the object."""
        return run(self.fetch_size(key))

    def put(self, key: str, data: bytes) -> None:
        """Pass the object to the store, which determines whether the write is atomic."""
        run(self.store(key, data))

    def create(self, key: str, data: bytes) -> bool:
        """One request, if the store supports it; if it does not after all, it is not `exclusive` any more."""
        below = self.native
        if below is None or not self.exclusive:
            return super().create(key, data)
        try:
            run(self.request("cannot write", key, lambda: below.create(self.key(key), data)))
        except StorageError as error:
            answer = str(error.problem.found)
            if self.get(key) is not None or CONFLICT.search(answer):
                return False
            if not UNKNOWN_REQUEST.search(answer) and getattr(error.__cause__, "errno", None) != errno.ENOSYS:
                raise
            self.exclusive = False
            return super().create(key, data)
        return True

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        run(bounded([self.store(key, data) for key, data in items]))

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """Send a file on disk in parts if possible; other stores get the whole content."""
        below = self.native
        name = path_of(file)
        if below is None or name is None:
            super().put_file(key, file, size)
            return
        # The pace counts all parts as one request.
        run(self.request("cannot write", key, lambda: below.put_file(self.key(key), name, size)))

    def delete(self, key: str) -> None:
        """Remove the object; errors of stores that require its presence are ignored."""
        run(self.request("cannot delete", key, lambda: _forgiving(self._store.delete(self.key(key)))))

    def clear(self, prefix: str) -> None:
        """Remove everything below a prefix; "" is the whole storage."""
        full = (self._prefix + prefix).rstrip("/")
        act = partial(self._store.delete_dir, full) if full else self._store.clear
        run(self.request("cannot delete", prefix, act))

    def list_dir(self, prefix: str) -> Iterator[DirectoryEntry]:
        yield from run(self._list(prefix))

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[DirectoryEntry]]:
        return run(bounded([self._list(prefix) for prefix in prefixes]))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from self.list_objects(prefix, ListedKeys).keys

    def list_objects(
        self, prefix: str, new: Callable[[], L], keys: Callable[[], Sequence[str]] | None = None
    ) -> L:
        """One listing, processed as it arrives; restarted if it fails midway."""
        full = self._prefix + prefix
        hidden = "/" if prefix else self._prefix + CLAIM  # no key begins with "/"

        async def find() -> L:
            try:
                return await receive(self._pages(full, keys))
            except UnorderedListingError:
                return await receive(self._pages(full))

        async def receive(pages: AsyncIterator[ListedPage]) -> L:
            receiver = new()
            async for listed in pages:
                # Keys with "/" are directories in zip files, or empty objects that tools create for them.
                receiver.take(listed.shown(hidden).relative(len(self._prefix)))
            return receiver

        return run(self.request("cannot list", prefix, lambda: settled(find)))

    def _pages(self, full: str, keys: Callable[[], Sequence[str]] | None = None) -> AsyncIterator[ListedPage]:
        if self.native is not None:
            return self.native.pages(full, keys and (lambda: [self._prefix + key for key in keys()]))
        return any_names(self._store, full)

    def zarr_store(self) -> Store:
        """A store for use in zarr's own event loop; its calls run in ours."""
        from .cross_loop_store import CrossLoopStore

        return CrossLoopStore(self._store, self._prefix, self.pace)

    @property
    def backing(self) -> Store:
        """The store itself."""
        return self._store

    # ----- in the loop's thread

    def key(self, key: str) -> str:
        """The key in the store below; UsageError if it would leave the archive's root."""
        if key.startswith("/") or ".." in key and ".." in key.split("/"):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key

    async def fetch(
        self, key: str, limit: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """Like `get`, in the loop."""
        place, most = self.key(key), limit or self.document_limit
        return await self.request("cannot read", key, lambda: self._whole(place, most, version), single=True)

    async def _whole(self, place: str, bound: ReadLimit, version: Version | None) -> bytes | None:
        if self.native is not None:
            return await self.native.read(place, bound, version)
        if bound.kind == "document":
            return await bounded_bytes(self._store, place, bound)
        data = await stored_bytes(self._store, place, None)  # layers may be slower for a part of a chunk
        if data is not None:
            bound.check(len(data))
        return data

    async def _part(self, key: str, part: ByteRequest, version: Version | None) -> bytes | None:
        place = self.key(key)
        if self.native is not None:
            return await self.native.read_part(place, part, version)
        return await stored_bytes(self._store, place, part)

    async def fetch_part(
        self, key: str, start: int, length: int, version: Version | None = None
    ) -> bytes | None:
        """Like `get_part`, in the loop."""
        part = _byte_request(start, length)
        return await self.request("cannot read", key, lambda: self._part(key, part, version), single=True)

    async def fetch_size(self, key: str) -> int | None:
        """Like `size`, in the loop."""

        async def ask() -> int | None:
            place = self.key(key)
            return await (stored_size(self._store, place) if self.native is None else self.native.size(place))

        return await self.request("cannot read", key, ask)

    async def fetch_end(
        self, key: str, start: int, length: int, version: Version | None
    ) -> ObjectPart | None:
        """Like `get_end`, in the loop."""
        native = self.native
        if native is not None:
            wanted, place = _byte_request(start, length), self.key(key)
            answer = await self.request(
                "cannot read", key, lambda: native.read_with_state(place, wanted, version), single=True
            )
            if answer is None:
                return None
            data, (size, text) = answer
            if size is not None:
                return ObjectPart(data, size, native.version_in(size, text))
        size, part = await asyncio.gather(self.fetch_size(key), self.fetch_part(key, start, length, version))
        return None if size is None or part is None else ObjectPart(part, size, None)

    async def store(self, key: str, data: bytes) -> None:
        """Like `put`, in the loop."""
        place = self.key(key)
        await self.request("cannot write", key, lambda: self._write(place, data), single=True)

    def _write(self, place: str, data: bytes) -> Coroutine[Any, Any, None]:
        if self.native is not None:
            return self.native.write(place, data)
        return write_bytes(self._store, place, data)

    async def _list(self, prefix: str) -> list[DirectoryEntry]:
        if prefix:
            self.key(prefix)
        prefix = prefix.strip("/")
        children = await self.request("cannot list", prefix, lambda: settled(partial(self._children, prefix)))
        return [
            DirectoryEntry(name, is_dir)
            for name, is_dir in children.items()
            if prefix or not name.startswith(CLAIM)
        ]

    async def _children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory."""
        full = (self._prefix + prefix).rstrip("/")
        if self.native is not None:
            return await self.native.children(full)
        return await entries_of(self._store, full)

    async def request(
        self,
        what: str,
        key: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        *,
        single: bool = False,
    ) -> T:
        """Make one request at the store's pace; every failure becomes a StorageError with the key.

        `single` as for `ConcurrencyLimiter`.
        """
        try:
            # zarr has no public method to open a store that was created closed, such as a zip.
            await self._store._ensure_open()  # noqa: SLF001
            return await self.pace(ask, single=single)
        except ZarrstackError as error:
            raise (error if isinstance(error, UsageError) else error.at(key=key)) from None
        except Exception as error:
            raise plainly(error, what, key, self.url, self.secrets) from error


def _byte_request(start: int, length: int) -> ByteRequest:
    """Zarr's request for bytes as of `Storage.get_part`."""
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest

    return SuffixByteRequest(length) if start < 0 else RangeByteRequest(start, start + length)


async def _forgiving(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (KeyError, FileNotFoundError):
        return


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


def native(store: Store) -> Backend | None:
    """The library below a store; None for a store that is not a plain wrapper, such as a stack of layers."""
    from zarr.storage import FsspecStore

    if type(store) is FsspecStore:
        from .backend_fsspec import FsspecBackend, protocols

        if protocols(store) & HTTP:
            from .backend_http import HttpBackend

            return HttpBackend(store)
        return FsspecBackend(store)
    if is_obstore(store):
        from .backend_obstore import ObstoreBackend

        return ObstoreBackend(store)
    # A store of ours brings its own. Asked of its type: layers forward attributes of the store below.
    bring: Callable[[Store], Backend] | None = getattr(type(store), "as_backend", None)
    return None if bring is None else bring(store)


def is_obstore(store: Any) -> bool:
    """Whether a store is zarr's obstore wrapper; does not import obstore, which is optional."""
    kind = type(store)
    return kind.__name__ == "ObjectStore" and kind.__module__.startswith("zarr.storage")

"""Storages with latency, whose requests run in our own event loop, many at a time.

`RemoteStorage` is the engine's synchronous interface over the asynchronous methods of `AsyncStorage`.
`StoreStorage` has them for any zarr store, `BucketStorage` for object stores, `HttpStorage` for web servers,
and `Container` for the members of a file.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from ..base import CLAIM, DirectoryEntry, L, ListedPage, ObjectPart
from ..local.files import path_of
from ..versions import Version
from .async_storage import AsyncStorage, ListedKeys, settled
from .error_text import CONFLICT, UNKNOWN_REQUEST, plainly
from .event_loop import begin, bounded, run
from .parallel_listing import UnorderedListingError

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..local.files import ReadLimit

T = TypeVar("T")


class Requests:
    """Starts requests to a storage, from any thread; each returns a future."""

    def __init__(self, storage: RemoteStorage) -> None:
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


class RemoteStorage(AsyncStorage):
    """Objects below a path; thread-safe."""

    def __init__(self, path: str, *, url: str, secrets: Sequence[str] = ()) -> None:
        super().__init__(path, url=url, secrets=secrets)
        self.requests = Requests(self)

    # ----- with errors and repeats, in the loop's thread

    async def fetch(
        self, key: str, limit: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """Like `get`."""
        place, most = self.key(key), limit or self.document_limit
        return await self.request("cannot read", key, lambda: self.read(place, most, version), single=True)

    async def fetch_part(
        self, key: str, start: int, length: int, version: Version | None = None
    ) -> bytes | None:
        """Like `get_part`."""
        place, part = self.key(key), _slice(start, length)
        read = self.read_part
        return await self.request("cannot read", key, lambda: read(place, part, version), single=True)

    async def fetch_end(
        self, key: str, start: int, length: int, version: Version | None = None
    ) -> ObjectPart | None:
        """Like `get_end`."""
        place, part = self.key(key), _slice(start, length)
        read = self.read_end
        return await self.request("cannot read", key, lambda: read(place, part, version), single=True)

    async def store(self, key: str, data: bytes) -> None:
        """Like `put`."""
        place = self.key(key)
        await self.request("cannot write", key, lambda: self.write(place, data), single=True)

    async def request(
        self,
        what: str,
        key: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        *,
        single: bool = False,
    ) -> T:
        """Make one request at the storage's pace; every failure becomes a StorageError with the key.

        `single` as for `ConcurrencyLimiter`.
        """
        try:
            await self.open()
            return await self.pace(ask, single=single)
        except ZarrstackError as error:
            raise (error if isinstance(error, UsageError) else error.at(key=key)) from None
        except Exception as error:
            raise plainly(error, what, key, self.url, self.secrets) from error

    # ----- the storage, in any thread

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
        """One request, if the storage can give a size without the object."""
        place = self.key(key)
        return run(self.request("cannot read", key, lambda: self.length(place)))

    def put(self, key: str, data: bytes) -> None:
        """Pass the object to the storage below, which determines whether the write is atomic."""
        run(self.store(key, data))

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        run(bounded([self.store(key, data) for key, data in items]))

    def create(self, key: str, data: bytes) -> bool:
        """One request, if the storage supports it; else it is not `exclusive` from then on."""
        if not self.exclusive:
            return super().create(key, data)
        place = self.key(key)
        try:
            run(self.request("cannot write", key, lambda: self.create_new(place, data)))
        except StorageError as error:
            answer = str(error.problem.found)
            if self.get(key) is not None or CONFLICT.search(answer):
                return False
            if not UNKNOWN_REQUEST.search(answer) and getattr(error.__cause__, "errno", None) != errno.ENOSYS:
                raise
            self.exclusive = False
            return super().create(key, data)
        return True

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """Send a file on disk in parts if possible; other storages get the whole content."""
        place, name = self.key(key), path_of(file)
        # The pace counts all parts as one request.
        if name is None or not run(
            self.request("cannot write", key, lambda: self.send_file(place, name, size))
        ):
            super().put_file(key, file, size)

    def delete(self, key: str) -> None:
        place = self.key(key)
        run(self.request("cannot delete", key, lambda: self.remove(place)))

    def list_dir(self, prefix: str) -> Iterator[DirectoryEntry]:
        yield from run(self._list(prefix))

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[DirectoryEntry]]:
        return run(bounded([self._list(prefix) for prefix in prefixes]))

    async def _list(self, prefix: str) -> list[DirectoryEntry]:
        prefix = prefix.strip("/")
        directory = self.key(prefix).rstrip("/")
        listing = partial(self.children, directory)
        children = await self.request("cannot list", prefix, lambda: settled(listing))
        return [
            DirectoryEntry(name, is_dir)
            for name, is_dir in children.items()
            if prefix or not name.startswith(CLAIM)
        ]

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from self.list_objects(prefix, ListedKeys).keys

    def list_objects(
        self, prefix: str, new: Callable[[], L], keys: Callable[[], Sequence[str]] | None = None
    ) -> L:
        """One listing, processed as it arrives; restarted if it fails midway."""
        full = self._prefix + prefix
        hidden = "/" if prefix else self._prefix + CLAIM  # no key begins with "/"
        within = keys and (lambda: [self._prefix + key for key in keys()])

        async def find() -> L:
            try:
                return await receive(self.pages(full, within))
            except UnorderedListingError:
                return await receive(self.pages(full))

        async def receive(pages: AsyncIterator[ListedPage]) -> L:
            receiver = new()
            async for listed in pages:
                # Keys with "/" are directories in zip files, or empty objects that tools create for them.
                receiver.take(listed.shown(hidden).relative(len(self._prefix)))
            return receiver

        return run(self.request("cannot list", prefix, lambda: settled(find)))

    def zarr_store(self) -> Store:
        """A store for use in zarr's own event loop; its calls run in ours."""
        from .storage_as_store import StorageAsStore

        return StorageAsStore(self, read_only=self.read_only)


def _slice(start: int, length: int) -> slice:
    """Bytes as of `Storage.get_part`, which has at least one byte if it is from the end."""
    return slice(-length, None) if start < 0 else slice(start, start + length)

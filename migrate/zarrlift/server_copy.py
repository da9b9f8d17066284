"""Copies that an object store makes by itself, where both ends are the same file system.

Payloads that move undecoded need not pass through this machine: the store copies them when
asked, and only their ends are fetched, to be looked at. Small objects are read and written
instead, since that takes two requests where a server-side copy takes four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from zarrstack.core.codecs.base import HEAD_BYTES, TAIL_BYTES, Ends
from zarrstack.core.errors import ChunkError, StorageError, ZarrstackError

from .storage import Storage
from .storage_loop import bounded, run
from .storage_zarr import StoreStorage
from .writing import DestinationError, Look

Carried: TypeAlias = "int | ZarrstackError | None"
"""What became of one object: its size in bytes, None if it is not there, or what is wrong with it."""

IN_ONE_READ: Final = 128 << 10
"""Bytes fetched at first; an object that is no larger is written from memory."""
_OURS: Final = frozenset({"asynchronous", "skip_instance_cache", "loop"})
"""Options of a file system that say how we use it, not which one it is."""


def server_copy(source: Storage, destination: Storage) -> ServerCopy | None:
    """A way to copy inside the store, or None where the two ends do not share one."""
    if not isinstance(source, StoreStorage) or not isinstance(destination, StoreStorage):
        return None
    first, second = source.fsspec, destination.fsspec
    if first is None or second is None or _identity(first.fs) != _identity(second.fs):
        return None
    return ServerCopy(source, destination)


def _identity(fs: Any) -> tuple[object, ...]:
    """What makes two file systems the same one: kind, address and credentials."""
    inner = getattr(fs, "sync_fs", fs)  # fsspec's wrapper around a synchronous file system
    options = {name: value for name, value in inner.storage_options.items() if name not in _OURS}
    return type(inner), inner.storage_args, options


class ServerCopy:
    """Copies objects between two places of one fsspec file system; safe to share between threads."""

    def __init__(self, source: StoreStorage, destination: StoreStorage) -> None:
        self._source = source
        self._destination = destination
        self._from: Any = source.fsspec
        self._to: Any = destination.fsspec
        self._able = True
        """Whether the file system copies at all; found out by asking it."""

    def __call__(self, pairs: Sequence[tuple[str, str]], look: Look) -> list[Carried]:
        """Copy (source key, destination key) pairs, once `look` has seen the ends of each.

        Raises DestinationError; whatever else is wrong with an object is in its place.
        """
        return run(bounded([self._one(before, after, look) for before, after in pairs]))

    async def _one(self, before: str, after: str, look: Look) -> Carried:
        try:
            first = await self._get(before, 0, IN_ONE_READ)
            if first is None:
                return None
            if len(first) < IN_ONE_READ or not self._able:
                return await self._by_hand(before, after, first if len(first) < IN_ONE_READ else None, look)
            size = await self._size(before)
            tail = await self._get(before, max(size - TAIL_BYTES, 0), size) or b""
            if not look.check(Ends(first[:HEAD_BYTES], tail[-TAIL_BYTES:], size)):
                return await self._by_hand(before, after, None, look)
            if await self._copied(before, after):
                return size
            return await self._by_hand(before, after, None, look)
        except DestinationError:
            raise
        except ZarrstackError as error:
            return error

    async def _by_hand(self, before: str, after: str, data: bytes | None, look: Look) -> int | None:
        """Through this machine: small objects, and those that only decoding can judge."""
        if data is None:
            data = await self._source.fetch(before)
            if data is None:
                return None
        if not look.check(Ends.of(data)):
            look.check_whole(data)
        try:
            await self._destination.store(after, data)
        except StorageError as error:
            raise _failed(error) from error
        return len(data)

    async def _copied(self, before: str, after: str) -> bool:
        """Ask the store; False where it has no copy of its own."""
        try:
            await self._destination.told("cannot write", after, lambda: self._cp(before, after))
        except StorageError as error:
            if isinstance(error.__cause__, NotImplementedError):
                self._able = False
                return False
            if isinstance(error.__cause__, FileNotFoundError):
                raise ChunkError("a chunk that was listed is gone; the source changed") from error
            raise _failed(error) from error
        return True

    async def _cp(self, before: str, after: str) -> None:
        source, target = self._source.path(before), self._destination.path(after)
        await self._to.fs._cp_file(source, target)  # noqa: SLF001 - fsspec's asynchronous interface

    async def _get(self, key: str, start: int, end: int) -> bytes | None:
        """Some bytes of an object; None if it is not there."""
        try:
            return await self._source.fetch_part(key, start, end - start)
        except StorageError:
            # An empty object has no first byte, which some stores call an error.
            return await self._source.fetch(key)

    async def _size(self, key: str) -> int:
        size = await self._source.fetch_size(key)
        if size is None:
            raise ChunkError("a chunk that was listed is gone; the source changed")
        return size


def _failed(error: StorageError) -> DestinationError:
    return DestinationError(error.problem.message, key=error.problem.key, found=error.problem.found)

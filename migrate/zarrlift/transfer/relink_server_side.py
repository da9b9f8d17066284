"""Server-side copies, if both ends are the same object store.

Payloads that are not decoded need not pass through this machine: the store copies them on request, and only
their ends are fetched for checks. Small objects are read and written instead, which takes two requests; a
server-side copy takes four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.codecs.base import HEAD_BYTES, TAIL_BYTES, HeadAndTail
from zarrstack.core.errors import StorageError, ZarrstackError

from ..storage.base import Storage
from ..storage.listed_versions import source_object_gone
from ..storage.local.files import ReadLimit
from ..storage.remote.event_loop import bounded, run
from ..storage.remote.zarr_store import StoreStorage
from ..storage.writer import DestinationError, PayloadCheck

if TYPE_CHECKING:
    from ..storage.remote.backend import Backend

Carried: TypeAlias = "int | ZarrstackError | None"
"""The result for one object: its size in bytes, None if it is missing, or its error."""

IN_ONE_READ: Final = 128 << 10
"""Bytes fetched at first; objects up to this size are written from memory."""


def server_copy(source: Storage, destination: Storage) -> ServerCopy | None:
    """A server-side copier, or None if the two ends are not in one store."""
    if not isinstance(source, StoreStorage) or not isinstance(destination, StoreStorage):
        return None
    first, second = source.native, destination.native
    if first is None or second is None or first.identity != second.identity:
        return None
    return ServerCopy(source, destination, first, second)


class ServerCopy:
    """Copies objects between two places of one store; thread-safe."""

    def __init__(self, source: StoreStorage, destination: StoreStorage, start: Backend, end: Backend) -> None:
        """`start` and `end` are the backends of source and destination."""
        self._source = source
        self._destination = destination
        self._from = start
        self._to = end
        self._able = True
        """Whether the store supports copies; determined by the first request."""

    def __call__(self, pairs: Sequence[tuple[str, str]], payload_check: PayloadCheck) -> list[Carried]:
        """Copy (source key, destination key) pairs, after `payload_check` has checked each object's ends.

        Raises DestinationError; the error of a single object is its result.
        """
        return run(bounded([self._one(before, after, payload_check) for before, after in pairs]))

    async def _one(self, before: str, after: str, payload_check: PayloadCheck) -> Carried:
        try:
            first = await self._get(before, 0, IN_ONE_READ, payload_check)
            if first is None:
                return None
            if len(first) < IN_ONE_READ or not self._able:
                return await self._by_hand(
                    before, after, first if len(first) < IN_ONE_READ else None, payload_check
                )
            size = await self._size(before)
            tail = await self._get(before, max(size - TAIL_BYTES, 0), size, payload_check) or b""
            if not payload_check.check(HeadAndTail(first[:HEAD_BYTES], tail[-TAIL_BYTES:], size)):
                return await self._by_hand(before, after, None, payload_check)
            if await self._copied(before, after, size):
                return size
            return await self._by_hand(before, after, None, payload_check)
        except DestinationError:
            raise
        except ZarrstackError as error:
            return error

    async def _by_hand(
        self, before: str, after: str, data: bytes | None, payload_check: PayloadCheck
    ) -> int | None:
        """Copy through this machine: small objects, and those that can only be checked by decoding."""
        if data is None:
            data = await self._source.fetch(before, ReadLimit(payload_check.most_stored))
            if data is None:
                return None
        payload_check.check_whole(data)
        try:
            await self._destination.store(after, data)
        except StorageError as error:
            raise _failed(error) from error
        return len(data)

    async def _copied(self, before: str, after: str, size: int) -> bool:
        """Request a copy from the store; False if it does not support copies."""
        try:
            await self._destination.told("cannot write", after, lambda: self._cp(before, after, size))
        except StorageError as error:
            if isinstance(error.__cause__, NotImplementedError):
                self._able = False
                return False
            if isinstance(error.__cause__, FileNotFoundError):
                raise source_object_gone() from error
            raise _failed(error) from error
        return True

    async def _cp(self, before: str, after: str, size: int) -> None:
        await self._to.copy(self._from, self._source.key(before), self._destination.key(after), size)

    async def _get(self, key: str, start: int, end: int, payload_check: PayloadCheck) -> bytes | None:
        """Some bytes of an object; None if it is missing."""
        try:
            return await self._source.fetch_part(key, start, end - start)
        except StorageError:
            # An empty object has no first byte, for which some stores return an error.
            return await self._source.fetch(key, ReadLimit(payload_check.most_stored))

    async def _size(self, key: str) -> int:
        size = await self._source.fetch_size(key)
        if size is None:
            raise source_object_gone()
        return size


def _failed(error: StorageError) -> DestinationError:
    return DestinationError(error.problem.message, key=error.problem.key, found=error.problem.found)

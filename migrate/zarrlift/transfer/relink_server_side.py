"""Server-side copies, if both ends are the same object store.

Payloads that are not decoded need not pass through this machine: the store copies them on request, and only
their ends are fetched for checks. Small objects are read and written instead, which takes two requests; a
server-side copy takes four: the last one finds an object that was replaced while it was copied. A fifth one
compares the end of the first copy in a store, and of each one if the store may answer before it has copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, TypeAlias

from zarrstack.core.errors import StorageError, ZarrstackError

from ..core.codecs.base import HEAD_BYTES, TAIL_BYTES, HeadAndTail, memory
from ..errors import SourceChangedError
from ..storage.base import READ_AHEAD, ObjectPart, Storage
from ..storage.local.files import ReadLimit
from ..storage.remote.bucket_storage import BucketStorage
from ..storage.remote.event_loop import bounded, run
from ..storage.versions import Version, source_object_changed, source_object_gone
from ..storage.writer import DestinationError, PayloadCheck, at_destination

Carried: TypeAlias = "int | ZarrstackError | None"
"""The result for one object: its size in bytes, None if it is missing, or its error."""

IN_ONE_READ: Final = 128 << 10
"""Bytes fetched at first; objects up to this size are written from memory."""
AT_ONCE: Final = READ_AHEAD // IN_ONE_READ
"""Number of objects that are copied together. Within a store that answers after 20 ms, two processes copy 1.3
times as many small objects a second with these 128 as with 64.
"""


def server_copy(source: Storage, destination: Storage) -> ServerCopy | None:
    """A server-side copier, or None if the two ends are not in one store."""
    if not isinstance(source, BucketStorage) or not isinstance(destination, BucketStorage):
        return None
    return ServerCopy(source, destination) if source.identity == destination.identity else None


class ServerCopy:
    """Copies objects between two places of one store; thread-safe."""

    def __init__(self, source: BucketStorage, destination: BucketStorage) -> None:
        self.source = source
        self._destination = destination
        self._able = True
        """Whether the store supports copies; determined by the first request."""
        self._first = asyncio.Lock()
        self._proven = False
        """Whether a copy was compared and equal; some servers create an empty object instead."""

    def __call__(
        self,
        pairs: Sequence[tuple[str, str]],
        payload_check: PayloadCheck,
        versions: Sequence[Version | None],
    ) -> list[Carried]:
        """Copy (source key, destination key) pairs, after `payload_check` has checked each object's ends.

        The objects have these `versions` in the listing.

        Raises DestinationError; the error of a single object is its result.
        """
        works = [
            self._one(before, after, version, payload_check)
            for (before, after), version in zip(pairs, versions, strict=True)
        ]
        return run(bounded(works))

    async def _one(
        self, before: str, after: str, version: Version | None, payload_check: PayloadCheck
    ) -> Carried:
        try:
            start = await self._start(before, version, payload_check)
            if start is None:
                return None
            first, size = start.data, start.size
            if size == len(first):
                return await self._by_hand(before, after, first, version, payload_check)
            if not self._able:
                return await self._by_hand(before, after, None, version, payload_check)
            tail = await self.source.fetch_part(before, size - TAIL_BYTES, TAIL_BYTES, version) or b""
            if not payload_check.check(HeadAndTail(first[:HEAD_BYTES], tail, size)):
                return await self._by_hand(before, after, None, version, payload_check)
            if not await self._copied_and_compared(before, after, start, tail):
                return await self._by_hand(before, after, None, version, payload_check)
            await self._require(before, start)
            return size
        except DestinationError:
            raise
        except ZarrstackError as error:
            return error

    async def _by_hand(
        self,
        before: str,
        after: str,
        data: bytes | None,
        version: Version | None,
        payload_check: PayloadCheck,
    ) -> int | None:
        """Copy through this machine: small objects, and those that can only be checked by decoding."""
        if data is None:
            data = await self.source.fetch(before, ReadLimit(payload_check.most_stored), version)
            if data is None:
                return None
        data = bytes(memory(payload_check.check_whole(data)))
        with at_destination():
            await self._destination.store(after, data)
        return len(data)

    async def _copied(self, before: str, after: str, size: int) -> bool:
        """Request a copy from the store; False if it does not support copies."""
        try:
            await self._destination.request("cannot write", after, lambda: self._cp(before, after, size))
        except StorageError as error:
            if isinstance(error.__cause__, NotImplementedError):
                self._able = False
                return False
            if isinstance(error.__cause__, FileNotFoundError):
                raise source_object_gone() from error
            with at_destination():
                raise
        return True

    async def _copied_and_compared(self, before: str, after: str, start: ObjectPart, tail: bytes) -> bool:
        """Like `_copied`; the first copy, or each, must have this size and these last bytes."""
        size = start.size
        if self._proven and self._destination.copies_at_once:
            return await self._copied(before, after, size)
        async with nullcontext() if self._proven else self._first:
            if not self._able or not await self._copied(before, after, size):
                return False
            if self._proven and self._destination.copies_at_once:
                return True
            try:  # one byte more, which a copy of the same size does not have
                end = await self._destination.fetch_part(after, size - TAIL_BYTES, TAIL_BYTES + 1)
            except StorageError:
                end = None
            self._proven = end == tail
            if not self._proven:
                await self._require(before, start)
                self._able = False
            return self._proven

    async def _cp(self, before: str, after: str, size: int) -> None:
        await self._destination.copy(self.source.key(before), self._destination.key(after), size)

    async def _start(
        self, key: str, version: Version | None, payload_check: PayloadCheck
    ) -> ObjectPart | None:
        """The first bytes of an object with its size and version; None if it is missing."""
        length = HEAD_BYTES if version is not None and version[0] > IN_ONE_READ else IN_ONE_READ
        try:
            if version is not None and 0 < version[0] < IN_ONE_READ:
                # Without the ETag it takes half the processor time; before an array is published, all of its
                # objects are listed again.
                data = await self.source.fetch_part(key, 0, IN_ONE_READ)
                if data is not None and len(data) != version[0]:
                    raise source_object_changed()
                return None if data is None else ObjectPart(data, len(data), None)
            return await self.source.fetch_end(key, 0, length, version)
        except SourceChangedError:
            raise
        except StorageError:
            # An empty object has no first byte, for which some stores return an error.
            data = await self.source.fetch(key, ReadLimit(payload_check.most_stored), version)
            return None if data is None else ObjectPart(data, len(data), None)

    async def _require(self, key: str, start: ObjectPart) -> None:
        """Raise SourceChangedError if an object of the source has another size or version now."""
        place = self.source.key(key)
        if await self.source.request("cannot read", key, lambda: self.source.head(place)) != start[1:]:
            raise source_object_changed()

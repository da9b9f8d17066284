"""What a cache opens and closes, and the questions about keys and folders that it answers.

They are answered from cached values and, with `listings`, from cached answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial

from ...base.transformer import StorageTransformer
from ...core.errors import StorageError
from .access import keep, look
from .record import EMPTY, EXISTS, FOLDER, NO, PREFIX, YES, CachedValue, Part, folder_place, prefix_place
from .source_identity import source_digest, source_of
from .state import MEMORY, MISS, CacheState
from .versions import VersionedPath, Versions


class ListingCache(StorageTransformer, overrides=["_open", "_ensure_open", "_is_open"]):
    """The disk tier and the store below, existence, sizes and listings."""

    _state: CacheState
    _source: str | None
    _negative: bool
    """Whether missing keys are cached."""

    def cache_of(self, key: str) -> CacheState:
        return self._state

    async def _open_tier(self, *, blocking: bool = False) -> None:
        state = self._state
        if state.folder is None:
            state.ready = True
            return
        source = source_digest(source_of(self._store) if self._source is None else self._source)
        if blocking or self._blocks:
            state.open(state.folder, source)
        else:
            await asyncio.to_thread(state.open, state.folder, source)

    def close(self) -> None:
        self._state.close()
        super().close()

    # Offline, the store below is not opened, because it may no longer exist.

    async def _open(self) -> None:
        if not self._state.offline:
            await super()._open()

    async def _ensure_open(self) -> None:
        if not self._state.offline:
            await super()._ensure_open()

    @property  # type: ignore[misc]  # WrapperStore's setter only raises
    def _is_open(self) -> bool:  # type: ignore[override]
        return self._state.offline or self._store._is_open  # noqa: SLF001

    @property
    def read_only(self) -> bool:
        """Whether the store below is read-only; always true offline."""
        return self._state.offline or self._store.read_only

    def _online(self, key: str, what: str = "is not in the cache") -> None:
        if self._state.offline:
            raise StorageError(
                f"layer 'cache' is offline, and this {what}",
                key=key,
                advice="Read it once with offline=False.",
            )

    # -- questions -------------------------------------------------------------------------------

    async def _from_tiers(self, key: str) -> CachedValue | None:
        """Return the whole value if a tier holds it."""
        cached = self._state.remembered(key, None)
        if cached is not None:
            self._state.count(MEMORY, 0)
            return cached
        if not self._state.ready:
            await self._open_tier()
        place = self._state.versions.place(key)
        return None if place is None else await look(self._state, key, None, place, blocking=False)

    async def exists(self, key: str) -> bool:
        cached = await self._from_tiers(key)
        if cached is not None:
            return cached.data is not None
        place = self._state.versions.place(key) if self._state.listings else None
        ask = partial(self._store.exists, key)
        return await self._answer(key, EXISTS, place, ask, "is not in the cache")

    async def getsize(self, key: str) -> int:
        cached = await self._from_tiers(key)
        if cached is None:
            self._online(key)
            return await self._store.getsize(key)
        if cached.data is None:
            raise FileNotFoundError(key)
        return len(cached.data)

    async def getsize_prefix(self, prefix: str) -> int:
        self._online(prefix, "asks for what lies below a path")
        # Without the slash, zarr 3.1.6 counts `a/c/10` as below `a/c/1`.
        return await self._store.getsize_prefix(prefix.rstrip("/") + "/" if prefix else "")

    async def is_empty(self, prefix: str) -> bool:
        place = await self._listing_place(folder_place, prefix)
        ask = partial(self._store.is_empty, prefix)
        return await self._answer(prefix, EMPTY, place, ask, "asks for a listing")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        return self._names(prefix, PREFIX, prefix_place, self._store.list_prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        return self._names(prefix, FOLDER, folder_place, self._store.list_dir)

    async def _listing_place(
        self, find: Callable[[Versions, str], VersionedPath | None], prefix: str
    ) -> VersionedPath | None:
        if not self._state.listings:
            return None
        if not self._state.ready:
            await self._open_tier()
        return find(self._state.versions, prefix)

    async def _recall(self, key: str, part: Part, place: VersionedPath) -> CachedValue | None:
        if (cached := self._state.remembered(key, part)) is not None:
            self._state.count(MEMORY, 0)
            return cached
        return await look(self._state, key, part, place, blocking=False)

    async def _answer(
        self, key: str, part: Part, place: VersionedPath | None, ask: Callable[[], Awaitable[bool]], what: str
    ) -> bool:
        """Answer a question from the cache or the store below, and cache the answer if it has a place."""
        state = self._state
        if place is not None and (cached := await self._recall(key, part, place)) is not None:
            return cached.data == YES
        self._online(key, what)
        stamp, started = None if place is None else place.stable_stamp(), state.clock()
        answer = await ask()
        if place is not None and stamp is not None:
            state.count(MISS, 0)
            # A missing key is cached as such: it answers reads too.
            data = YES if answer else None if part is EXISTS else NO
            if data is not None or self._negative:
                await keep(state, key, part, CachedValue(data, started, stamp), place, blocking=False)
        return answer

    async def _names(
        self,
        prefix: str,
        part: Part,
        find: Callable[[Versions, str], VersionedPath | None],
        begin: Callable[[str], AsyncIterator[str]],
    ) -> AsyncGenerator[str, None]:
        """List from the cache or the store below; a listing that is read to its end is cached."""
        state = self._state
        place = await self._listing_place(find, prefix)
        if place is not None and (cached := await self._recall(prefix, part, place)) is not None:
            assert cached.data is not None
            for name in str(cached.data, "utf-8", "surrogatepass").split("\0")[:-1]:
                yield name
            return
        self._online(prefix, "asks for a listing")
        stamp, started = None if place is None else place.stable_stamp(), state.clock()
        names = bytearray()
        room = state.listing_limit if stamp is not None else 0
        async for name in begin(prefix):
            if room:
                names += name.encode("utf-8", "surrogatepass") + b"\0"
                if len(names) > room or "\0" in name:  # it is given up
                    room = 0
                    names.clear()
            yield name
        if place is not None and stamp is not None:
            state.count(MISS, 0)
            if room:
                listing = CachedValue(bytes(names), started, stamp)
                await keep(state, prefix, part, listing, place, blocking=False)

"""What a cache opens and closes: its disk tier, and the store below."""

from __future__ import annotations

import asyncio

from ...base.transformer import StorageTransformer
from ...core.errors import StorageError
from .source_identity import source_digest, source_of
from .state import CacheState


class OpenCache(StorageTransformer, overrides=["_open", "_ensure_open", "_is_open"]):
    """A layer with the state of a cache; its subclasses answer from it."""

    _state: CacheState
    _source: str | None

    def cache_of(self, key: str) -> CacheState:
        """The state of this cache."""
        return self._state

    async def _open_tier(self, *, blocking: bool) -> None:
        """Open the disk tier, if there is one."""
        state = self._state
        if state.folder is None:
            state.ready = True
            return
        source = source_digest(source_of(self._store) if self._source is None else self._source)
        if blocking:
            state.open(state.folder, source)
        else:
            await asyncio.to_thread(state.open, state.folder, source)

    def close(self) -> None:
        """Close the disk tier and the store below."""
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

"""`Prefetch`: reads chunks before they are asked for, where the order of reading shows which come next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar, Final, TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from ...base.intercept import Call, Intercept
from ...base.option_checks import either, given, number, size
from ...system.clock import Clock
from .ahead import Ahead, PrefetchStatistics

T = TypeVar("T")

_CHANGES: Final = frozenset({"set", "set_if_not_exists", "delete", "delete_dir", "clear"})
_OF_FOLDERS: Final = frozenset({"delete_dir", "clear"})


class Prefetch(Intercept):
    """Reads the next chunks while earlier ones are used, for readers that take one after the other.

    Three chunks of an array at equal distances, in C order of its chunk grid, are a run: in sequence,
    backwards or at any stride, several at the same time. Up to `depth` further chunks are requested ahead,
    which take up to `memory_bytes`, a number or a text such as "64MB". Requests of runs that are not
    continued are cancelled. A chunk is served at most `seconds` after it was requested; changes through this
    layer are seen at once. Byte ranges, such as those of inner chunks, pass unchanged.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.Prefetch(depth=16))
    >>> store.describe()
    'Prefetch(depth=16)'
    """

    name = "prefetch"
    transparent = True
    short: ClassVar[str] = "depth"

    def __init__(
        self,
        store: Store | None = None,
        *,
        depth: int = 8,
        memory_bytes: int | str = 64_000_000,
        seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        self.depth: int = number(self, "depth", depth, least=1, whole=True)
        self.memory_bytes: int = size(self, "memory_bytes", memory_bytes)
        self.seconds: float = number(self, "seconds", seconds)
        either(self, "clock", clock, lambda value: isinstance(value, Clock), "a zarrstack.system.clock.Clock")
        self._options = given(self, depth=depth, memory_bytes=self.memory_bytes, seconds=seconds, clock=clock)
        self._ahead = Ahead(self.depth, self.memory_bytes, self.seconds, clock or Clock())

    def figures(self) -> PrefetchStatistics:
        """What was used and what was not, since the layer was created."""
        return self._ahead.figures()

    def close(self) -> None:
        self._ahead.drop("")
        super().close()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if byte_range is not None:
            return await self._store.get(key, prototype, byte_range)
        coming = self._ahead.take(key, prototype)
        self._ahead.follow(key, prototype, self._store)
        if coming is not None:
            with suppress(Exception):  # an error of a request ahead is none of this one
                return await coming
        value = await self._store.get(key, prototype)
        self._ahead.seen(key, value)
        return value

    async def _run(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        if call.operation in _CHANGES:
            with self._ahead.changing(call.key, below=call.operation in _OF_FOLDERS):
                return await act()
        return await act()

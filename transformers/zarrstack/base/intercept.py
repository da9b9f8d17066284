"""Base of layers that wrap every operation: to log, repeat or delay it.

Each call is forwarded to the same method of the store below, so that operations the store performs natively
(`set_if_not_exists`, `delete_dir`, a size without reading) remain one operation. Calls for several values or
ranges become one `get` or `set` each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest

from ..core.paths import prefix_of
from ..system.clock import Clock
from .descend import remove_below
from .transformer import StorageTransformer

T = TypeVar("T")


class Call(NamedTuple):
    """An operation before it is performed.

    Examples
    --------
    >>> zarrstack.Call("get", "a/c/0").key
    'a/c/0'
    """

    operation: str
    """The store's method, such as "get"; the synchronous variant has the same name."""
    key: str
    """The key, or the prefix of a listing or a removal."""
    part: ByteRequest | None = None
    """The requested byte range; None for the whole value."""
    sent: int | None = None
    """Bytes to be written; None for operations that write no value."""


class Intercept(StorageTransformer):
    """Base class; override `around` and `around_listing`, which wrap the operations.

    Examples
    --------
    >>> class Quiet(zarrstack.Intercept):
    ...     name = "quiet"
    ...     async def around(self, call, act):
    ...         return None if call.operation == "delete" else await act()
    >>> zarrstack.stack(MemoryStore(), Quiet()).describe()
    'Quiet()'
    """

    awaits_only_below = True

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        """Perform an operation with `act()`, which may be called repeatedly, and return its result.

        A synchronous operation runs without an event loop: beside `act()`, await only `pause`.
        """
        return await act()

    async def pause(self, clock: Clock, seconds: float) -> None:
        """Wait, as the operation may."""
        if self._blocks:
            clock.sleep_sync(seconds)
        else:
            await clock.sleep(seconds)

    async def around_listing(
        self, call: Call, begin: Callable[[], AsyncIterator[str]]
    ) -> AsyncGenerator[str, None]:
        """Yield the keys or names of a listing; `begin()` starts it, and may be called repeatedly."""
        async for name in begin():
            yield name

    # -- one value ------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return await self.around(
            Call("get", key, byte_range), partial(self._store.get, key, prototype, byte_range)
        )

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable("set", key)
        await self.around(Call("set", key, None, size_of(value)), partial(self._store.set, key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable("set_if_not_exists", key)
        act = partial(self._store.set_if_not_exists, key, value)
        await self.around(Call("set_if_not_exists", key, None, size_of(value)), act)

    async def delete(self, key: str) -> None:
        self._check_writable("delete", key)
        await self.around(Call("delete", key), partial(self._store.delete, key))

    async def exists(self, key: str) -> bool:
        return await self.around(Call("exists", key), partial(self._store.exists, key))

    async def getsize(self, key: str) -> int:
        return await self.around(Call("getsize", key), partial(self._store.getsize, key))

    # -- folders --------------------------------------------------------------------------------

    def list(self) -> AsyncIterator[str]:
        return self.around_listing(Call("list", ""), self._store.list)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        return self.around_listing(Call("list_prefix", prefix), partial(self._store.list_prefix, prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        return self.around_listing(Call("list_dir", prefix), partial(self._store.list_dir, prefix))

    async def is_empty(self, prefix: str) -> bool:
        return await self.around(Call("is_empty", prefix), partial(self._store.is_empty, prefix))

    async def getsize_prefix(self, prefix: str) -> int:
        # Without the slash, zarr 3.1.6 would also count siblings whose names start with the prefix.
        act = partial(self._store.getsize_prefix, prefix_of(prefix))
        return await self.around(Call("getsize_prefix", prefix), act)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable("delete_dir", prefix)
        await self.around(Call("delete_dir", prefix), partial(remove_below, self._store, prefix))

    async def clear(self) -> None:
        self._check_writable("clear", "")
        await self.around(Call("clear", ""), self._store.clear)


def size_of(value: Any) -> int | None:
    """Length of a value in bytes; None for a value that the store below will refuse."""
    return len(value) if isinstance(value, Buffer) else None

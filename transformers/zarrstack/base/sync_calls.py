"""One code path for the asynchronous and synchronous methods of a layer.

A coroutine over `Synchronous(store)` that awaits nothing else never suspends, so `complete` runs it without
an event loop. The synchronous methods of layers are made from their coroutines in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype

T = TypeVar("T")


class Synchronous:
    """The synchronous methods of a store as coroutines; everything else as the store has it."""

    __slots__ = ("store",)

    def __init__(self, store: Store) -> None:
        self.store: Any = store  # zarr's Store does not declare the synchronous methods

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        value: Buffer | None = self.store.get_sync(key, prototype=prototype, byte_range=byte_range)
        return value

    async def set(self, key: str, value: Buffer) -> None:
        self.store.set_sync(key, value)

    async def delete(self, key: str) -> None:
        self.store.delete_sync(key)

    async def exists(self, key: str) -> bool:
        """Whether `get_sync` finds a value."""
        return self.store.get_sync(key, prototype=default_buffer_prototype()) is not None

    @property
    def read_only(self) -> bool:
        """Asked for by each change; `__getattr__` takes ten times as long."""
        return bool(self.store.read_only)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does not suspend, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a synchronous call waits for an event loop")


def get_sync(
    layer: Any, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
) -> Buffer | None:
    """Synchronous `get` (zarr 3.3+)."""
    prototype = prototype or default_buffer_prototype()
    value: Buffer | None = complete(blocking_copy(layer).get(key, prototype, byte_range))
    return value


def set_sync(layer: Any, key: str, value: Buffer) -> None:
    """Synchronous `set` (zarr 3.3+)."""
    complete(blocking_copy(layer).set(key, value))


def delete_sync(layer: Any, key: str) -> None:
    """Synchronous `delete` (zarr 3.3+)."""
    complete(blocking_copy(layer).delete(key))


TWINS: Final[Mapping[str, Callable[..., Any]]] = {"get": get_sync, "set": set_sync, "delete": delete_sync}


def set_twins(kind: type) -> None:
    """Give a class of layers these methods if it declares `awaits_only_below`.

    Any other class that overrides a coroutine and not its twin, or `around`, loses all three: they would
    bypass it, or have to wait.
    """
    own = vars(kind)
    derived = own.get("awaits_only_below", False)
    bypassed = any(name in own and twin.__name__ not in own for name, twin in TWINS.items())
    if derived or bypassed or "around" in own:
        for twin in TWINS.values():
            if not derived or twin.__name__ not in own:
                setattr(kind, twin.__name__, twin if derived else None)


def blocking_copy(layer: T) -> T:
    """The layer over the synchronous methods of the store below; as `Layer._with_store` copies it."""
    copy: Any = object.__new__(type(layer))
    copy.__dict__.update(layer.__dict__)
    copy._store = Synchronous(copy._store)  # noqa: SLF001
    done: T = copy
    return done

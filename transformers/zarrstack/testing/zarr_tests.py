"""zarr's tests, adapted to stacks of layers and to pytest without plug-ins."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore
from zarr.testing.stateful import ZarrStoreStateMachine
from zarr.testing.store import StoreTests
from zarr.testing.strategies import keys as zarr_keys

from ..base.descend import descend
from ..system.zarr_internals import sync


@dataclass(frozen=True, slots=True)
class BlockingMethods:
    """Synchronous methods for a stack that has none, so that zarr's tests of them apply as well."""

    store: Store

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """Synchronous `get`."""
        return sync(self.store.get(key, prototype or default_buffer_prototype(), byte_range))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Synchronous `set`."""
        sync(self.store.set(key, value))

    def delete_sync(self, key: str) -> None:
        """Synchronous `delete`."""
        sync(self.store.delete(key))


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Wrap an asynchronous test to run in its own event loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


class ZarrTests(StoreTests[Any, Any]):
    """zarr's tests, adapted to stacks."""

    buffer_cls = cpu.Buffer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in dir(cls):
            test = getattr(cls, name)
            if name.startswith("test") and inspect.iscoroutinefunction(test):
                setattr(cls, name, in_a_loop(test))


class StoreMachine(ZarrStoreStateMachine):
    """zarr's state machine.

    Over files, a key that is a folder of another is not written, because no file system holds both `0` and
    `0/0`; not even after a deletion, because LocalStore keeps empty folders.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._over_files = any(isinstance(each, LocalStore) for each in descend(store))
        self._names: builtins.set[str] = builtins.set()
        self._folders: builtins.set[str] = builtins.set()

    @rule(key=zarr_keys(), data=st.binary(max_size=100))
    def set(self, key: str, data: bytes) -> None:
        """Write a key, unless a file system cannot hold it together with all earlier ones."""
        if self._over_files:
            parts = key.split("/")
            above = {"/".join(parts[:count]) for count in range(1, len(parts))}
            if key in self._folders or above & self._names:
                return
            self._names.add(key)
            self._folders |= above
        super().set(key, data)

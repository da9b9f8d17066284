"""Stores for tests of layers: they count, wait and fail, are folders; and what tests ask of them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, WrapperStore

PROTOTYPE = default_buffer_prototype()


class Counted(MemoryStore):
    """Counts calls by method; `gate` holds readers up after they have read, `fails` makes them fail."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: Counter[str] = Counter()
        self.gate: asyncio.Event | None = None
        self.sync_gate: threading.Event | None = None
        self.entered = threading.Event()
        self.fails: Exception | None = None

    def hold(self) -> None:
        """Hold up those who read from now on; `reached` says that one is there."""
        self.gate, self.reached = asyncio.Event(), asyncio.Event()

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self.calls["get"] += 1
        if self.fails is not None:
            raise self.fails
        value = await super().get(key, prototype, byte_range)
        self.entered.set()
        if self.gate is not None:
            self.reached.set()
            await self.gate.wait()
        if self.sync_gate is not None:
            await asyncio.to_thread(self.sync_gate.wait)
        return value

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self.calls["get"] += 1
        value = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        self.entered.set()
        if self.sync_gate is not None:
            self.sync_gate.wait()
        return value

    async def set(self, key: str, value: Any, byte_range: Any = None) -> None:
        self.calls["set"] += 1
        if self.fails is not None:
            raise self.fails
        await super().set(key, value)

    async def delete(self, key: str) -> None:
        self.calls["delete"] += 1
        await super().delete(key)


def buffer(data: bytes) -> cpu.Buffer:
    """Bytes as zarr hands them to a store."""
    return cpu.Buffer.from_bytes(data)


async def read(store: Store, key: str, part: Any = None) -> bytes | None:
    """A value as bytes."""
    value = await store.get(key, PROTOTYPE, part)
    return None if value is None else value.to_bytes()


def got(store: Store, key: str, part: Any = None) -> bytes | None:
    """A value as bytes, read in an event loop of its own."""
    return asyncio.run(read(store, key, part))


def put(store: Store, key: str, data: bytes) -> None:
    """Set a value in an event loop of its own."""
    asyncio.run(store.set(key, buffer(data)))


def listed(names: AsyncIterator[str]) -> list[str]:
    """The names of a listing, sorted."""

    async def collect() -> list[str]:
        return sorted([name async for name in names])

    return asyncio.run(collect())


class Gate:
    """Where sets wait until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.opened.wait()


class Noted(WrapperStore[Store]):
    """Notes reads and changes in their order; changes of keys with `fails` fail, sets wait at `gate`."""

    get_sync = set_sync = delete_sync = None

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gets: list[str] = []
        self.whole: list[str] = []
        self.changes: list[tuple[str, str]] = []
        self.fails: str | None = None
        self.gate: Gate | None = None

    @property
    def sets(self) -> list[str]:
        return [key for kind, key in self.changes if kind == "set"]

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self.gets.append(key)
        if byte_range is None:
            self.whole.append(key)
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        if self.gate is not None:
            await self.gate.pass_through()
        self._may_change(key)
        await self._store.set(key, value)
        self.changes.append(("set", key))

    async def delete(self, key: str) -> None:
        self._may_change(key)
        await self._store.delete(key)
        self.changes.append(("delete", key))

    def _may_change(self, key: str) -> None:
        if self.fails is not None and self.fails in key:
            raise OSError(28, "No space left on device")


class Hours:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


# Layers over a folder, where their suite runs over a dictionary otherwise.


class InAFolder:
    """Stands before `LayerTests` or a suite made of it."""

    leaves_folders = True
    # zarr's machine fails over a LocalStore alone (3.4.2): when an array's last chunk is gone, it still
    # lists the empty `c`, where its model does not. It runs over a MemoryStore in the other classes.
    test_zarr_hierarchy_state_machine = None

    def below(self, place, *, read_only=False):
        return LocalStore(place.folder, read_only=read_only)

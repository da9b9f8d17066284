"""Stores for tests of layers: they count, wait and fail, are killed, are folders."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

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


class Hours:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


# Stores for tests of layers: they are killed, they are folders.

# A store whose writer is killed: after so many changes, nothing reaches it any more.


class Killed(BaseException):
    """Not an Exception: no code of a layer runs for a process that is killed."""


class Dying(MemoryStore):
    def __init__(self, store_dict=None, *, lives=10**9, read_only=False):
        super().__init__(store_dict, read_only=read_only)
        self.lives = lives

    def __eq__(self, other):
        return super().__eq__(other)

    __hash__ = None

    def change(self):
        if self.lives == 0:
            raise Killed
        self.lives -= 1

    async def set(self, key, value, byte_range=None):
        self.change()
        await super().set(key, value)

    async def set_if_not_exists(self, key, value):
        self.change()
        await super().set_if_not_exists(key, value)

    async def delete(self, key):
        self.change()
        await super().delete(key)

    async def delete_dir(self, prefix):
        for key in [key async for key in self.list_prefix(prefix.rstrip("/") + "/")]:
            await self.delete(key)

    async def clear(self):
        for key in list(self._store_dict):
            await self.delete(key)


# Layers over a folder, where their suite runs over a dictionary otherwise.


class InAFolder:
    """Stands before `LayerTests` or a suite made of it."""

    leaves_folders = True
    # zarr's machine fails over a LocalStore alone (3.4.2): when an array's last chunk is gone, it still
    # lists the empty `c`, where its model does not. It runs over a MemoryStore in the other classes.
    test_zarr_hierarchy_state_machine = None

    def below(self, place, *, read_only=False):
        return LocalStore(place.folder, read_only=read_only)

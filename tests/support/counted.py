"""A store that counts what it is asked, and can be held up or made to fail: better than a mock."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import MemoryStore

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

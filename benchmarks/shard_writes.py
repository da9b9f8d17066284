"""Arrays written into shards: requests, processor time and memory, beside zarr's own sharding.

Called by `layers.py --shards`. Each round writes the same uncompressed array once each way, into an empty
store, and reads it back; what is printed are medians, with requests to the store and megabytes written. Then
the memory that chunks take while they wait: the peak of what Python allocates (tracemalloc) while chunks are
set at random places, so that shards are read, merged and rewritten all the time.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import Sharding, stack

EDGE = 90
"""Numbers along each side of a chunk of 16.2 kB."""
PER_SHARD = 10
BUDGET = "64MB"
MEMORY_BUDGETS = (8_000_000, 32_000_000)


class Counted(WrapperStore[Store]):
    """Counts requests for chunks, and bytes written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gets = self.sets = self.bytes = 0

    async def get(self, key: str, *more: Any, **options: Any) -> Any:
        self.gets += "/c/" in key
        return await self._store.get(key, *more, **options)

    async def set(self, key: str, value: Any) -> None:
        self.sets += "/c/" in key
        self.bytes += len(value)
        await self._store.set(key, value)


class Files(WrapperStore[Store]):
    """Shards in plain files: pathlib, as LocalStore uses it, keeps each name of a temporary file for ever."""

    def __init__(self, folder: str) -> None:
        super().__init__(MemoryStore())
        self._folder = folder

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        # The index is at the end.
        data = read(self._path(key), None if byte_range is None else byte_range.suffix)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def set(self, key: str, value: Any) -> None:
        write(self._path(key), value.as_buffer_like())

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key.replace('/', '.')}"


def read(path: str, suffix: int | None) -> bytes | None:
    """A file, or its last bytes; None if it does not exist."""
    try:
        with open(path, "rb", buffering=0) as file:
            if suffix is not None:
                file.seek(-suffix, os.SEEK_END)
            return file.read()
    except FileNotFoundError:
        return None


def write(path: str, data: Any) -> None:
    """Replace a file."""
    with open(path, "wb", buffering=0) as file:
        file.write(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an array is written."""

    native: bool = False
    memory_bytes: str | None = None
    concurrency: int = 10

    def write(self, store: Store, data: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Create the array; the function that is returned writes it, until everything is stored."""
        options = {"name": "a", "shape": data.shape, "dtype": data.dtype, "compressors": None}
        options["chunks"] = (EDGE, EDGE)
        if self.native:
            options["shards"] = (EDGE * PER_SHARD,) * 2
            top = store
        else:
            sharding = {} if self.memory_bytes is None else {"memory_bytes": self.memory_bytes}
            layer = Sharding(chunks_per_shard=[PER_SHARD] * 2, path="a", **sharding)
            top = stack(store, layer)
        array = zarr.create_array(top, **options)

        def write() -> None:
            with zarr.config.set({"async.concurrency": self.concurrency}):
                array[:] = data
                if not self.native:
                    layer.flush_sync()
                assert (array[:2, :] == data[:2, :]).all()

        return write


WAYS = {
    "zarr, `shards=`": Way(native=True),
    "without a buffer": Way(),
    "without a buffer, `async.concurrency` 64": Way(concurrency=64),
    "without a buffer, `async.concurrency` 1000": Way(concurrency=1000),
    f'`memory_bytes="{BUDGET}"`': Way(memory_bytes=BUDGET),
}
CASES = {
    "2,500 chunks of 16 kB into 25 shards, MemoryStore": (50, tuple(WAYS)),
    "10,000 chunks of 16 kB into 100 shards, LocalStore": (
        100,
        tuple(name for name in WAYS if "concurrency" not in name),
    ),
}
"""Chunks along each axis, and the ways that are compared."""


@dataclass(slots=True)
class Row:
    """Figures of all rounds."""

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def measure(side: int, names: tuple[str, ...], disk: Path | None, rounds: int) -> dict[str, Row]:
    """Rows by name; the first round warms up and does not count."""
    data = np.random.default_rng(0).integers(0, 2**16, (side * EDGE,) * 2, dtype="uint16")
    rows = {name: Row() for name in names}
    for number in range(rounds + 1):
        for name in names:
            with tempfile.TemporaryDirectory(dir=disk) as folder:
                store = Counted(LocalStore(folder) if disk is not None else MemoryStore())
                write = WAYS[name].write(store, data)
                began, worked = time.perf_counter(), time.process_time()
                write()
                worked, taken = time.process_time() - worked, time.perf_counter() - began
                if number:
                    rows[name].requests.append((store.sets, store.gets, store.bytes))
                    rows[name].processor.append(worked)
                    rows[name].wall.append(taken)
    return rows


def peak_memory(budget: int, folder: str) -> tuple[int, int]:
    """Peak of allocated bytes while chunks wait, and the number of shards that were rewritten."""
    layer = Sharding(Files(folder), chunks_per_shard=[64], path="a", memory_bytes=budget)
    rng = random.Random(0)
    values = [cpu.Buffer.from_bytes(rng.randbytes(16_000)) for _ in range(20)]

    async def run() -> None:
        for _ in range(budget // 16_000):
            await asyncio.gather(
                *(layer.set(f"a/c/{rng.randrange(6400)}", _copy(rng.choice(values))) for _ in range(10))
            )
        await layer.flush()

    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    asyncio.run(run())
    peak = tracemalloc.get_traced_memory()[1] - base
    tracemalloc.stop()
    return peak, layer.figures().partial


def _copy(value: cpu.Buffer) -> cpu.Buffer:
    """An array of the caller's own, which the layer has to copy."""
    return cpu.Buffer.from_array_like(value.as_numpy_array().copy())


def shard_tables(rounds: int, machine: str, disk: Path) -> str:
    """The circumstances, a table of each case, and one of memory."""
    circumstances = f"{machine}; Python {platform.python_version()}, zarr {version('zarr')}; "
    circumstances += f"medians of {rounds} interleaved rounds, fastest and slowest in brackets, "
    lines = [circumstances + time.strftime("%Y-%m-%d.")]
    for case, (side, names) in CASES.items():
        rows = measure(side, names, disk if "LocalStore" in case else None, rounds)
        native = statistics.median(rows[names[0]].processor)
        lines += [
            "",
            f"| {case} | sets | gets | MB written | processor, s | of zarr's | wall, s |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for name, row in rows.items():
            sets, gets, size = (round(statistics.median(each)) for each in zip(*row.requests, strict=True))
            share = statistics.median(row.processor) / native
            cells = (sets, gets, round(size / 1e6), _spread(row.processor), f"{share:.1f}", _spread(row.wall))
            lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += ["", "| `memory_bytes` | peak memory | of the budget | shards rewritten |"]
    lines += ["| --- | --- | --- | --- |"]
    for budget in MEMORY_BUDGETS:
        with tempfile.TemporaryDirectory(dir=disk) as folder:
            peak, rewritten = peak_memory(budget, folder)
        lines.append(f"| {budget:,} | {peak:,} | {peak / budget:.0%} | {rewritten:,} |")
    return "\n".join(lines)


def _spread(figures: list[float]) -> str:
    return f"{statistics.median(figures):.2f} ({min(figures):.2f} to {max(figures):.2f})"

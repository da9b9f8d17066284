"""What a cache is worth: re-reading an array of 1,000 chunks from a store with 20 ms latency.

    python benchmarks/cache.py [--rounds 5] [--chunks 1000] [--latency 0.02]

Contenders, interleaved in one process: `zarrstack.Cache` and zarr's experimental `CacheStore`, each
with its values in memory and in a local folder, and no cache. The array lies in memory below the
latency, so that nothing but the layers differs. Each round opens the array and reads it whole with a cold
cache, and then again; medians are printed, with the fastest and slowest round.
Then the layer's own cost: one get of 3.3 KB by key, in microseconds, over MemoryStore and LocalStore.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.experimental.cache_store import CacheStore
from zarr.storage import LocalStore, MemoryStore
from zarr.testing.store import LatencyStore

from zarrstack.layers.cache.layer import Cache

PROTOTYPE = default_buffer_prototype()


def contenders(
    source: MemoryStore, latency: float, folder: Path
) -> dict[str, Callable[[], zarr.abc.store.Store]]:
    """Makers of a store with a cold cache, by name."""

    def slow():
        return LatencyStore(source, get_latency=latency)

    def fresh(name: str) -> Path:
        shutil.rmtree(folder / name, ignore_errors=True)
        return folder / name

    return {
        "no cache": slow,
        "zarrstack, memory": lambda: Cache(slow()),
        "zarr CacheStore, memory": lambda: CacheStore(slow(), cache_store=MemoryStore(), max_size=2**28),
        "zarrstack, folder": lambda: Cache(slow(), memory_bytes=0, disk=fresh("ours"), source="x"),
        "zarr CacheStore, folder": lambda: CacheStore(
            slow(), cache_store=LocalStore(fresh("theirs")), max_size=2**30
        ),
    }


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_array(chunks: int, latency: float, rounds: int) -> None:
    source = MemoryStore()
    size = 32 * chunks
    array = zarr.create_array(source, shape=(size, 32), chunks=(32, 32), dtype="f4", fill_value=0)
    array[:] = np.random.default_rng(0).integers(0, 1000, (size, 32)).astype("f4")
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, make in contenders(source, latency, Path(folder)).items():
                store = make()

                def read(store=store) -> None:
                    zarr.open_array(store, mode="r")[:]

                first, second = timed(read), timed(read)
                store.close()
                if number:
                    cold.setdefault(name, []).append(first)
                    warm.setdefault(name, []).append(second)
    print(f"\n| {chunks} chunks, {latency * 1000:g} ms latency | first read, s | again, s |")
    print("| --- | --- | --- |")
    for name, seconds in cold.items():
        print(f"| {name} | {spread(seconds)} | {spread(warm[name])} |")


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})"


def measure_get(rounds: int) -> None:
    data = cpu.Buffer.from_bytes(os.urandom(3300))
    keys = [f"a/c/{place}" for place in range(500)]

    async def read(store) -> float:
        started = time.perf_counter()
        for key in keys:
            await store.get(key, PROTOTYPE)
        return (time.perf_counter() - started) / len(keys) * 1e6

    async def write(store) -> float:
        started = time.perf_counter()
        for key in keys:
            await store.set(key, data)
        return (time.perf_counter() - started) / len(keys) * 1e6

    async def body() -> None:
        with tempfile.TemporaryDirectory() as folder:
            print("\n| microseconds per 3.3 KB | miss | hit | set |\n| --- | --- | --- | --- |")
            for name, below in (
                ("MemoryStore", MemoryStore()),
                ("LocalStore", LocalStore(folder + "/below")),
            ):
                rows: dict[str, list[tuple[float, ...]]] = {}
                for number in range(rounds):
                    tier, other = f"{folder}/ours{name}{number}", f"{folder}/theirs{name}{number}"
                    stores = {
                        name: below,
                        f"zarrstack memory over {name}": Cache(below),
                        f"zarr CacheStore memory over {name}": CacheStore(below, cache_store=MemoryStore()),
                        f"zarrstack folder over {name}": Cache(below, memory_bytes=0, disk=tier, source="x"),
                        f"zarr CacheStore folder over {name}": CacheStore(
                            below, cache_store=LocalStore(other)
                        ),
                    }
                    for label, store in stores.items():
                        writes = await write(store)
                        await store.clear_cache() if isinstance(store, CacheStore) else None
                        if isinstance(store, Cache):
                            store._state.memory.clear()  # noqa: SLF001 - for a miss
                            shutil.rmtree(tier, ignore_errors=True)
                        rows.setdefault(label, []).append((await read(store), await read(store), writes))
                for label, figures in rows.items():
                    medians = [f"{statistics.median(each):.0f}" for each in zip(*figures, strict=True)]
                    print(f"| {label} | {' | '.join(medians)} |")

    asyncio.run(body())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.02)
    options = parser.parse_args()
    versions = f"Python {platform.python_version()}, zarr {zarr.__version__}"
    print(f"{os.cpu_count()} cores, {platform.machine()}, {versions}")
    measure_array(options.chunks, options.latency, options.rounds)
    measure_get(options.rounds)


if __name__ == "__main__":
    main()

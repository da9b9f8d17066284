"""What a cache is worth: re-reading an array of 1,000 chunks from a store with 20 ms latency.

    python benchmarks/cache.py [--rounds 5] [--chunks 1000] [--latency 0.02]

Contenders, interleaved in one process: `zarrstack.Cache` and zarr's experimental `CacheStore`, each
with its values in memory and in a local folder, and no cache. The array is stored in memory below the
latency, so that nothing but the layers differs. Each round opens the array and reads it whole with a cold
cache, and then again; medians are printed, with the fastest and slowest round.
Then the layer's own cost per key of 3.3 KB, in microseconds of processor time, over MemoryStore and
LocalStore: a get that misses, one that hits, a set, and a get and a set with room for half of the keys.
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
from zarr.abc.store import Store
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.experimental.cache_store import CacheStore
from zarr.storage import LocalStore, MemoryStore
from zarr.testing.store import LatencyStore

from zarrstack.layers.cache.layer import Cache

PROTOTYPE = default_buffer_prototype()


def contenders(source: MemoryStore, latency: float, folder: Path) -> dict[str, Callable[[], Store]]:
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


def empty_caches(below: Store, folder: str) -> dict[str, Callable[[int], Store]]:
    """Makers of an empty cache with room for a given number of bytes, by name."""

    def fresh() -> str:
        return tempfile.mkdtemp(dir=folder)

    def ours(room: int) -> Store:
        return Cache(below, memory_bytes=0, disk=fresh(), disk_bytes=room, source="x")

    return {
        "nothing": lambda _: below,
        "zarrstack memory": lambda room: Cache(below, memory_bytes=room),
        "zarr CacheStore memory": lambda room: CacheStore(below, cache_store=MemoryStore(), max_size=room),
        "zarrstack folder": ours,
        "zarr CacheStore folder": lambda room: CacheStore(
            below, cache_store=LocalStore(fresh()), max_size=room
        ),
    }


def measure_get(rounds: int) -> None:
    data = cpu.Buffer.from_bytes(os.urandom(3300))
    keys = [f"a/c/{place}" for place in range(500)]
    half = len(keys) * len(data) // 2

    async def read(store) -> float:
        started = time.process_time()
        for key in keys:
            await store.get(key, PROTOTYPE)
        return (time.process_time() - started) / len(keys) * 1e6

    async def write(store) -> float:
        started = time.process_time()
        for key in keys:
            await store.set(key, data)
        return (time.process_time() - started) / len(keys) * 1e6

    async def body() -> None:
        with tempfile.TemporaryDirectory() as folder:
            print("\n| microseconds per 3.3 KB | miss | hit | set | get, half fits | set, half fits |")
            print("| --- | --- | --- | --- | --- | --- |")
            for below, make in (
                ("MemoryStore", lambda _: MemoryStore()),
                ("LocalStore", lambda number: LocalStore(f"{folder}/below{number}")),
            ):
                rows: dict[str, list[tuple[float, ...]]] = {}
                for number in range(rounds):
                    store = make(number)
                    for label, empty in empty_caches(store, folder).items():
                        writes = await write(empty(2**30))
                        large, small = empty(2**30), empty(half)
                        await read(small)
                        found = (await read(large), await read(large), writes, await read(small))
                        rows.setdefault(f"{label} over {below}", []).append((*found, await write(small)))
                for label, found in rows.items():
                    medians = [f"{statistics.median(each):.0f}" for each in zip(*found, strict=True)]
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

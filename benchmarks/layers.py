"""What layers cost, and what they save, within one process: `layers.py TABLE FOLDER ROUNDS`.

- `layers`: microseconds per get and set of each registered layer, with nothing to do but to let 4 KiB pass,
  one operation after the other. The fastest round counts: what makes others slower comes from elsewhere.
- `cache`: seconds to open and read an array from a store with 20 ms latency, with a cold cache and again,
  beside zarr's own cache. The array is in memory below the latency, so that nothing but the layers differs.
  Then microseconds of a get that misses, one that hits, and a set.
- `sharding`: requests and time of an uncompressed array that is written into shards, beside zarr's own, until
  everything is stored, and its first two rows read back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from harness import interleaved, markdown, spread
from zarr.abc.store import Store
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.experimental.cache_store import CacheStore
from zarr.storage import LocalStore, MemoryStore, WrapperStore
from zarr.testing.store import LatencyStore

from zarrstack import Cache, Sharding, WriteBack, stack
from zarrstack.base import registry
from zarrstack.layers.rekey import Prefix

KEYS = [f"a/c/{number // 20}/{number % 20}" for number in range(300)]
KINDS = ("MemoryStore", "LocalStore")
PROTOTYPE = default_buffer_prototype()
Maker = Callable[[Store], Store]


def fresh(kind: str, place: Path) -> Store:
    """An empty store of a kind."""
    shutil.rmtree(place, ignore_errors=True)
    return MemoryStore() if kind == "MemoryStore" else LocalStore(place)


async def sets(store: Store, size: int = 4096) -> float:
    """Microseconds per set."""
    value = cpu.Buffer.from_bytes(os.urandom(size))
    began = time.perf_counter()
    for key in KEYS:
        await store.set(key, value)
    return (time.perf_counter() - began) / len(KEYS) * 1e6


async def gets(store: Store) -> float:
    """Microseconds per get."""
    began = time.perf_counter()
    for key in KEYS:
        await store.get(key, PROTOTYPE)
    return (time.perf_counter() - began) / len(KEYS) * 1e6


# What each layer costs

READING = ("readonly",)
"""Rows for reading the store below; nothing is written through the layer."""


def variants(folder: Path) -> dict[str, Maker]:
    """A maker for each row: every registered layer, some in more than one way."""
    limits = {"bytes_per_second": "1TB/s", "requests_per_second": 1e9, "in_flight": 64}
    options: dict[str, dict[str, dict[str, object]]] = {
        "log": {
            "log, figures only": {},
            "log, a callback": {"callback": id},
            "log, JSON lines": {"events": str(folder / "events.jsonl")},
        },
        "rekey": {"rekey, a prefix": {"rules": [Prefix(below="inside")]}},
        "sharding": {"sharding, shards of one chunk": {"chunks_per_shard": [1, 1], "path": "a"}},
        "throttle": {"throttle, in flight": {"in_flight": 64}, "throttle, all limits": limits},
    }

    def maker(name: str, given: dict[str, object]) -> Maker:
        return lambda store: stack(store, registry.find(name)(None, **given))

    return {
        row: maker(name, given)
        for name in registry.names()
        for row, given in options.get(name, {name: {}}).items()
    }


def costs(kind: str, folder: Path, row: str) -> tuple[float, float]:
    """Microseconds per get and per set, of a layer over an empty store."""
    store = fresh(kind, folder / "store")
    whole = store if row == "bare store" else variants(folder)[row](store)
    put = asyncio.run(sets(store if row in READING else whole))
    got = asyncio.run(gets(whole))
    whole.close()
    return got, float("nan") if row in READING else put


def layers(folder: Path, rounds: int) -> None:
    """The difference to the bare store of the same run."""
    cells: dict[str, list[str]] = {name: [] for name in ("bare store", *variants(folder))}
    for kind in KINDS:
        contenders = {name: partial(costs, kind, folder, name) for name in cells}
        found = interleaved(contenders, max(rounds, 9) if rounds else 0)
        for call in range(2):
            best = {name: min(run[call] for run in runs) for name, runs in found.items()}
            bare = best.pop("bare store")
            cells["bare store"].append(f"{bare:.1f}")
            for name, figure in best.items():
                cells[name].append("" if name in READING and call else f"{figure - bare:+.1f}")
    calls = [f"{kind} {call}" for kind in KINDS for call in ("get", "set")]
    print(f"{len(KEYS)} values of 4096 bytes, fastest round.\n")
    print(markdown(["microseconds per call", *calls], *([name, *row] for name, row in cells.items())))


# What a cache is worth

CACHES: dict[str, Callable[[Store, str], Store]] = {
    "no cache": lambda below, _: below,
    "`Cache`, memory": lambda below, _: Cache(below),
    "`Cache`, memory, and `DecodedChunks`": lambda below, _: Cache(below),
    "zarr's experimental `CacheStore`, memory": lambda below, _: CacheStore(
        below, cache_store=MemoryStore(), max_size=2**28
    ),
    "`Cache`, folder": lambda below, folder: Cache(below, memory_bytes=0, disk=folder, source="x"),
    "zarr's experimental `CacheStore`, folder": lambda below, folder: CacheStore(
        below, cache_store=LocalStore(folder), max_size=2**30
    ),
}


def reads(name: str, source: MemoryStore, folder: Path) -> list[float]:
    """Seconds to open and read the array, and to do so again."""
    found = []
    pipeline = {"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"} if "Decoded" in name else {}
    with tempfile.TemporaryDirectory(dir=folder) as place, zarr.config.set(pipeline):
        store = CACHES[name](LatencyStore(source, get_latency=0.02), place)
        for _ in range(2):
            began = time.perf_counter()
            zarr.open_array(store, mode="r")[:]
            found.append(time.perf_counter() - began)
        store.close()
    return found


def operations(name: str, kind: str, folder: Path) -> list[float]:
    """Microseconds of a miss, a hit and a set of 3.3 KB."""
    below = fresh(kind, folder / "below")

    async def body() -> list[float]:
        with tempfile.TemporaryDirectory(dir=folder) as one, tempfile.TemporaryDirectory(dir=folder) as other:
            put = await sets(CACHES[name](below, one), 3300)
            cold = CACHES[name](below, other)
            return [await gets(cold), await gets(cold), put]

    return asyncio.run(body())


def cache(folder: Path, rounds: int) -> None:
    """Two tables."""
    source, chunks = MemoryStore(), 1000 if rounds else 10
    array = zarr.create_array(source, shape=(32 * chunks, 32), chunks=(32, 32), dtype="f4", fill_value=0)
    array[:] = np.random.default_rng(0).integers(0, 1000, array.shape).astype("f4")
    found = interleaved({name: partial(reads, name, source, folder) for name in CACHES}, rounds)
    rows = [[name, *(spread(each, 3) for each in zip(*runs, strict=True))] for name, runs in found.items()]
    print(markdown([f"{chunks:,} chunks of 4 KB, 20 ms latency, seconds", "first read", "again"], *rows))
    names = [name for name in CACHES if "Decoded" not in name]
    contenders = {
        f"{name}, over {kind}": partial(operations, name, kind, folder) for kind in KINDS for name in names
    }
    medians = {
        name: [f"{statistics.median(each):.0f}" for each in zip(*runs, strict=True)]
        for name, runs in interleaved(contenders, rounds).items()
    }
    rows = [[name, *cells] for name, cells in medians.items()]
    print(f"\n{markdown(['microseconds per 3.3 KB', 'miss', 'hit', 'set'], *rows)}")


# What shards cost

EDGE, PER_SHARD = 90, 10
"""Numbers along each side of a chunk of 16.2 kB; chunks along each side of a shard."""
WAYS: dict[str, dict[str, Any] | None] = {
    "zarr, `shards=`": None,
    "alone": {},
    "alone, `async.concurrency` 64": {"concurrency": 64},
    "alone, `async.concurrency` 1000": {"concurrency": 1000},
    '`WriteBack(memory_bytes="64MB")` above': {"memory_bytes": "64MB"},
}
"""Options of the layer, and how many chunks zarr writes at once; None is zarr's own sharding."""


class Counted(WrapperStore[Store]):
    """Counts requests for chunks, and bytes written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gets = self.sets = self.bytes = 0

    async def get(self, key: str, *more: Any, **options: Any) -> Any:
        self.gets += "c/" in key
        return await self._store.get(key, *more, **options)

    async def set(self, key: str, value: Any) -> None:
        self.sets += "/c/" in key
        self.bytes += len(value)
        await self._store.set(key, value)


def written(kind: str, options: dict[str, Any] | None, data: Any, folder: Path) -> tuple[float, ...]:
    """Sets, gets, megabytes written, and seconds of processor and wall time."""
    store = Counted(fresh(kind, folder / "shards"))
    more = dict(options or {})
    concurrency = more.pop("concurrency", 10)
    above = [WriteBack(**more)] if more else []
    layer = Sharding(chunks_per_shard=[PER_SHARD] * 2, path="a")
    given = {"shards": (EDGE * PER_SHARD,) * 2} if options is None else {}
    top = store if options is None else stack(store, *above, layer)
    given |= {"chunks": (EDGE, EDGE), "shape": data.shape, "dtype": data.dtype, "compressors": None}
    array = zarr.create_array(top, name="a", **given)
    began, worked = time.perf_counter(), time.process_time()
    with zarr.config.set({"async.concurrency": concurrency}):
        array[:] = data
        if options is not None:
            top.flush_sync()
        assert (array[:2, :] == data[:2, :]).all()
    processor, wall = time.process_time() - worked, time.perf_counter() - began
    return store.sets, store.gets, store.bytes / 1e6, processor, wall


def sharding(folder: Path, rounds: int) -> None:
    """A table for each kind of store."""
    few = [name for name in WAYS if "concurrency" not in name]
    for kind, side, names in (("MemoryStore", 50, list(WAYS)), ("LocalStore", 100, few)):
        side = side if rounds else 10  # noqa: PLW2901
        data = np.random.default_rng(0).integers(0, 2**16, (side * EDGE,) * 2, dtype="uint16")
        found = interleaved(
            {name: partial(written, kind, WAYS[name], data, folder) for name in names}, rounds
        )
        first, rows = 0.0, []
        for name, runs in found.items():
            *counts, processor, wall = zip(*runs, strict=True)
            first = first or statistics.median(processor)
            share = f"{statistics.median(processor) / first:.1f}"
            numbers = [round(statistics.median(each)) for each in counts]
            rows.append([name, *numbers, spread(processor), share, spread(wall)])
        case = f"{side**2:,} chunks of 16 kB into {(side // PER_SHARD) ** 2} shards, {kind}"
        print(markdown([case, "sets", "gets", "MB written", "processor, s", "of zarr's", "wall, s"], *rows))
        print()


if __name__ == "__main__":
    tables = {"layers": layers, "cache": cache, "sharding": sharding}
    tables[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))

"""Caches and write-back beside zarr's `CacheStore` and fsspec's caches: `caches.py FOLDER ROUNDS`.

Everything is read from one local folder, so that what a contender itself takes is measured. Each figure is
the median of interleaved rounds. tensorstore has its own cache and reader, and no stores of zarr.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr
from harness import interleaved, markdown
from zarr.abc.store import RangeByteRequest, Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.experimental.cache_store import CacheStore
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

import zarrstack
from zarrstack import Cache, WriteBack, stack

PROTOTYPE = default_buffer_prototype()
VALUES, SIZE = 100, 100_000
LARGE = 64 * 2**20
BUDGET = VALUES * SIZE * 3 // 10
"""Bytes of a cache that is smaller than what is read again and again."""
ROOM = 2**29


class Counted(WrapperStore[Store]):
    """Counts requests."""

    get_sync = set_sync = delete_sync = None

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gets = self.sets = 0

    async def get(self, *given: Any, **options: Any) -> Any:
        self.gets += 1
        await asyncio.sleep(0)
        return await self._store.get(*given, **options)

    async def set(self, key: str, value: Any) -> None:
        self.sets += 1
        await self._store.set(key, value)


def fsspec_cache(kind: str) -> Callable[[Counted, Path, int], Store]:
    def make(below: Counted, folder: Path, _: int) -> Store:
        store: LocalStore = below._store  # type: ignore[assignment]  # noqa: SLF001
        options = {"cache_storage": str(folder)}
        return FsspecStore.from_url(f"{kind}::file://{store.root}", storage_options={kind: options})

    return make


CONTENDERS: dict[str, Callable[[Counted, Path, int], Store]] = {
    "no cache": lambda below, _, __: below,
    "`CacheStore`, memory": lambda below, _, room: CacheStore(
        below, cache_store=MemoryStore(), max_size=room
    ),
    "`CacheStore`, folder": lambda below, folder, room: CacheStore(
        below, cache_store=LocalStore(folder), max_size=room
    ),
    "fsspec `filecache`": fsspec_cache("filecache"),
    "fsspec `blockcache`": fsspec_cache("blockcache"),
    "`zarrstack.Cache`, memory": lambda below, _, room: Cache(below, memory_bytes=room),
    "`zarrstack.Cache`, folder": lambda below, folder, room: Cache(
        below, memory_bytes=0, disk=folder, disk_bytes=room, source="x", when_full="keep"
    ),
}


def source(folder: Path) -> None:
    """Values, a large object, and an array in shards."""
    store = LocalStore(folder)
    for number in range(VALUES):
        asyncio.run(store.set(f"v/{number}", cpu.Buffer.from_bytes(os.urandom(SIZE))))
    asyncio.run(store.set("large", cpu.Buffer.from_bytes(os.urandom(LARGE))))
    data = np.random.default_rng(0).integers(0, 1000, (1024, 1024)).astype("f4")
    zarr.create_array(store, name="plain", data=data, chunks=(64, 64))
    zarr.create_array(store, name="a", data=data, chunks=(64, 64), shards=(512, 512))


async def micros(store: Store, requests: list[tuple[str, RangeByteRequest | None]]) -> float:
    """Microseconds per request, one after the other."""
    began = time.perf_counter()
    for key, part in requests:
        await store.get(key, PROTOTYPE, part)
    return (time.perf_counter() - began) / len(requests) * 1e6


def figures(name: str, folder: Path) -> list[float]:
    """The cells of a contender."""
    place = folder / "tiers"
    shutil.rmtree(place, ignore_errors=True)

    def fresh(room: int = ROOM) -> tuple[Counted, Store]:
        below = Counted(LocalStore(folder / "source"))
        tier = place / str(random.random())
        tier.mkdir(parents=True)
        return below, CONTENDERS[name](below, tier, room)

    order = random.Random(0)
    whole = [(f"v/{number}", None) for number in range(VALUES)]
    starts = [order.randrange(LARGE - 10_000) for _ in range(100)]
    parts = [("large", RangeByteRequest(start, start + 10_000)) for start in starts]

    async def body() -> list[float]:
        _, store = fresh()
        cold, hot = await micros(store, whole), await micros(store, whole * 10)
        put = float("nan") if isinstance(store, FsspecStore) else await sets(store)
        if not isinstance(store, FsspecStore) and name != "no cache":
            await store.get("large", PROTOTYPE)
        ranged = await micros(store, parts)
        if isinstance(store, FsspecStore):  # reads past `Counted`; 20 readers at once break its blockcache
            return [cold, hot, put, ranged, float("nan"), float("nan")]
        below, store = fresh()
        await asyncio.gather(*(store.get("v/0", PROTOTYPE) for _ in range(20)))
        shared = below.gets
        below, store = fresh(BUDGET)
        if isinstance(store, Cache):
            options = {**store.options, "when_full": "keep"}
            store = Cache(below, **options)
        for _ in range(3):
            await micros(store, order.sample(whole, VALUES))
        return [cold, hot, put, ranged, shared, below.gets]

    found = asyncio.run(body())
    _, store = fresh()
    return [*found, *read_again(lambda path: partial(read, zarr.open_array(store, path=path, mode="r")))]


async def sets(store: Store) -> float:
    """Microseconds per set of a new key."""
    value = cpu.Buffer.from_bytes(os.urandom(SIZE))
    began = time.perf_counter()
    for number in range(VALUES):
        await store.set(f"w/{number}", value)
    taken = (time.perf_counter() - began) / VALUES * 1e6
    for number in range(VALUES):
        await store.delete(f"w/{number}")
    return taken


def read(array: zarr.Array[Any], *selection: slice) -> Any:
    return array[selection]


def read_again(opened: Callable[[str], Callable[..., Any]]) -> list[float]:
    """Microseconds to read a chunk again; milliseconds of a second epoch, by rows of chunks, over shards."""
    found = []
    for path, columns, unit in (("plain", 64, 256 / 1e6), ("a", 1024, 1e-3)):
        act = opened(path)
        try:
            for _ in range(2):
                began = time.perf_counter()
                for row, column in product(range(0, 1024, 64), range(0, 1024, columns)):
                    act(slice(row, row + 64), slice(column, column + columns))
            found.append((time.perf_counter() - began) / unit)
        except AttributeError:  # filecache of fsspec 2026.9.0 cannot read the end of a file
            found.append(float("nan"))
    return found


def decoded(folder: Path) -> list[float]:
    place = folder / "source"
    return read_again(
        lambda path: partial(read, zarrstack.open_array(place, path=path, mode="r", decoded=ROOM))
    )


def pool(folder: Path) -> list[float]:
    def opened(path: str) -> Callable[..., Any]:
        spec = {"driver": "zarr3", "kvstore": f"file://{folder}/source/{path}/"}
        context = tensorstore.Context({"cache_pool": {"total_bytes_limit": ROOM}})
        array = tensorstore.open(spec, context=context, read=True).result()
        return lambda *selection: array[selection].read().result()

    return read_again(opened)


def rows_into_shards(folder: Path, waits: bool) -> tuple[float, int, int]:
    """Seconds, gets and sets of rows written into shards."""
    place = folder / "rows"
    shutil.rmtree(place, ignore_errors=True)
    below = Counted(LocalStore(place))
    store = stack(below, WriteBack()) if waits else below
    data = np.zeros((4, 512), "f4") + 1
    array = zarr.create_array(store, shape=(512, 512), chunks=(64, 64), shards=(256, 256), dtype="f4")
    below.gets = below.sets = 0
    began = time.perf_counter()
    for row in range(0, 512, 4):
        array[row : row + 4] = data
    if waits:
        store.flush_sync()
    return time.perf_counter() - began, below.gets, below.sets


def group(folder: Path, opens: Callable[[Store], Any]) -> tuple[float, int]:
    """Milliseconds and requests to open a consolidated group of 200 arrays and list its members."""
    below = Counted(LocalStore(folder / "group"))
    began = time.perf_counter()
    assert len(dict(opens(below).members())) == 200
    return (time.perf_counter() - began) * 1e3, below.gets


def main(folder: Path, rounds: int) -> None:
    shutil.rmtree(folder / "source", ignore_errors=True)
    source(folder / "source")
    found = interleaved({name: partial(figures, name, folder) for name in CONTENDERS}, rounds)
    heads = (
        *("microseconds", "cold get, 100 kB", "hot get", "set", "10 kB of 64 MB"),
        *("requests of 20 readers", "requests of 3 epochs, room for 30 %"),
        *("hot chunk of an array", "second epoch over shards, ms"),
    )
    lines = [[name, *_cells(runs)] for name, runs in found.items()]
    others = {"`open_array(decoded=...)`": decoded, "tensorstore's pool": pool}
    alone = interleaved({name: partial(act, folder) for name, act in others.items()}, rounds)
    lines += [[name, *[""] * 6, *_cells(runs, 1)] for name, runs in alone.items()]
    print(markdown(heads, *lines))
    ways = {"zarr": False, "`WriteBack`": True}
    rows = interleaved(
        {name: partial(rows_into_shards, folder, waits) for name, waits in ways.items()}, rounds
    )
    lines = [[name, *_cells(runs, 2)] for name, runs in rows.items()]
    print("\n" + markdown(("128 writes of 4 rows into 4 shards", "seconds", "gets", "sets"), *lines))
    shutil.rmtree(folder / "group", ignore_errors=True)
    parent = zarr.create_group(LocalStore(folder / "group"))
    for number in range(200):
        parent.create_array(f"a{number}", shape=(4,), dtype="i4")
    zarr.consolidate_metadata(parent.store)
    opens = {"zarr.open_group": zarr.open_group, "zarrstack.open_group": zarrstack.open_group}
    groups = interleaved({name: partial(group, folder, each) for name, each in opens.items()}, rounds)
    lines = [[f"`{name}`", *_cells(runs)] for name, runs in groups.items()]
    print("\n" + markdown(("a consolidated group of 200 arrays", "ms", "requests"), *lines))


def _cells(runs: list[Any], digits: int = 0) -> list[str]:
    medians = [statistics.median(each) for each in zip(*runs, strict=True)]
    return ["" if cell != cell else f"{cell:.{0 if cell == int(cell) else digits}f}" for cell in medians]  # noqa: PLR0124


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""What layers hold in memory is bounded as docs/transformers/cache.md says, whatever passes."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

import pytest
import zarr
from tests.support.stores import PROTOTYPE, buffer
from zarr.storage import MemoryStore

from zarrstack import Cache, Log, ReadOnly, Retry, Sharding, Throttle, WriteBack, stack


class Fresh(MemoryStore):
    """Makes a value for each key, and keeps none; documents are stored."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    async def get(self, key, prototype, byte_range=None):
        if key.endswith(("json", ".zarray")) or self.size is None:
            return await super().get(key, prototype, byte_range)
        return buffer(bytes(self.size))

    async def set(self, key, value):
        if key.endswith("json"):
            await super().set(key, value)


#   name: layer, length of values (None: all keys are missing), number of values, bytes that may be held. A
#   layer that kept 150 bytes of each of 1000 would exceed 150,000, which other threads do not reach.
CASES = {
    "cache": (lambda: Cache(memory_bytes=500_000), 4000, 500, 700_000),
    "cache that keeps": (lambda: Cache(memory_bytes=500_000, when_full="keep"), 4000, 500, 700_000),
    "missing keys": (lambda: Cache(memory_bytes=500_000), None, 2500, 1_000_000),
    "log": (lambda: Log(callback=id), 4000, 1000, 150_000),
    "retry": (Retry, 4000, 1000, 150_000),
    "throttle": (lambda: Throttle(in_flight=4, bytes_per_second=1e12), 4000, 1000, 150_000),
    "readonly": (ReadOnly, 4000, 1000, 150_000),
}


async def read(store, count):
    await store.get("a/zarr.json", PROTOTYPE)
    for number in range(count):
        await store.get(f"a/c/{number}", PROTOTYPE)
        for _ in range(3):
            await asyncio.sleep(0)  # chunks that are read ahead arrive


async def write(store, count, size=4000):
    order = random.Random(3)
    for _ in range(count):
        await store.set(f"a/c/{order.randrange(count)}", buffer(bytes(size)))


def peak(act):
    """Bytes of Python that were allocated at most, beyond what was there before."""
    gc.collect()
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow(one_in=3)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("name", CASES)
def test_readers(name, caplog):
    make, size, count, bound = CASES[name]
    caplog.set_level("CRITICAL")
    below = Fresh(size)
    zarr.create_array(below, name="a", shape=(1000,), chunks=(1,), dtype="u1")
    store = stack(below, make())
    assert peak(lambda: asyncio.run(read(store, count))) < bound + 4 * (size or 0)


@pytest.mark.needs_reader("once")
def test_chunks_that_wait_for_their_shard():
    store = stack(Fresh(None), WriteBack(memory_bytes=500_000), Sharding(chunks_per_shard=[64], path="a"))
    zarr.create_array(store, name="a", shape=(4000 * 4000,), chunks=(4000,), dtype="u1", compressors=None)
    assert peak(lambda: asyncio.run(write(store, 500))) < 1_100_000
    store.close()


@pytest.mark.slow(one_in=3)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize(("size", "count"), [(4000, 400), (40, 1500)])
def test_writes_that_wait(size, count):
    store = stack(Fresh(None), WriteBack(memory_bytes=500_000))
    assert peak(lambda: asyncio.run(write(store, count, size))) < 700_000
    assert store.figures().evictions > 0
    store.close()

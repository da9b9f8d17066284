"""`Prefetch`: what is read ahead, what is not, and that nobody sees an old value for it."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
import zarr
from tests.support.fake_clock import FakeClock
from tests.support.stores import PROTOTYPE
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack import Log, Prefetch, Sharding, stack
from zarrstack.base.chunks import ArrayChunks, Chunk
from zarrstack.layers.prefetch.layer import PrefetchStatistics


class Slow(MemoryStore):
    """Answers a request for a chunk when all others that can run have begun; counts them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.under_way = self.most = 0
        self.gate: asyncio.Event | None = None

    async def get(self, key, prototype=None, byte_range=None):
        if key.endswith(".json") or "z" in key.rpartition("/")[2]:
            return await super().get(key, prototype or PROTOTYPE, byte_range)
        self.begun.append(key)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.gate is not None:
                await self.gate.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().get(key, prototype or PROTOTYPE, byte_range)
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        finally:
            self.under_way -= 1


def array_over(*layers, shape=(64,), chunks=(1,), zarr_format=3, **options):
    """A store with an array whose chunks are numbered, read through layers; and its store below."""
    below = Slow()
    array = zarr.create_array(
        below,
        name="a",
        shape=shape,
        chunks=chunks,
        dtype="i4",
        zarr_format=zarr_format,
        fill_value=-1,
        **options,
    )
    array[...] = np.arange(np.prod(shape)).reshape(shape)
    below.begun.clear()
    return stack(below, *layers), below


def read(store, keys):
    """The first value of each key, read one after the other."""

    async def one_by_one():
        await store.get("a/zarr.json", PROTOTYPE)
        await store.get("a/.zarray", PROTOTYPE)
        return [await store.get(f"a/{key}", PROTOTYPE) for key in keys]

    return asyncio.run(one_by_one())


def names(indexes):
    return [f"c/{index}" for index in indexes]


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_a_run_is_read_ahead(step):
    layer = Prefetch(depth=4)
    store, below = array_over(layer)
    indexes = list(range(64))[::step]
    read(store, names(indexes))
    assert below.begun == [f"a/c/{index}" for index in indexes]
    assert layer.figures() == PrefetchStatistics(used=len(indexes) - 3, unused=0, waiting=0, bytes=0)
    assert 2 < below.most <= 5


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows_and_columns_of_a_grid_are_runs(zarr_format):
    for transposed in (False, True):
        layer = Prefetch(depth=4)
        store, below = array_over(layer, shape=(8, 8), chunks=(1, 1), zarr_format=zarr_format)
        array = zarr.open_array(store, path="a", mode="r")
        places = [(j, i) if transposed else (i, j) for i in range(8) for j in range(8)]
        assert [int(array[place]) for place in places] == [8 * i + j for i, j in places]
        assert len(below.begun) <= 64 + 8 * 4
        assert layer.figures().used >= 64 * 3 // 4 - 8


def test_several_runs_at_the_same_time_are_followed():
    layer = Prefetch(depth=6)
    store, below = array_over(layer, shape=(200,))
    indexes = [index for step in range(30) for index in (step, 100 + 2 * step, 199 - step)]
    read(store, names(indexes))
    assert layer.figures().used >= len(indexes) - 12
    assert not [key for key, count in Counter(below.begun).items() if count > 1]


def test_random_access_reads_hardly_anything_in_vain():
    layer = Prefetch()
    store, below = array_over(layer, shape=(1000,))
    order = np.random.default_rng(3).permutation(1000)[:200]
    read(store, names(order))
    assert len(below.begun) <= 200 * 1.1


def test_a_reader_that_turns_away_cancels_what_was_requested():
    layer = Prefetch(depth=4)
    store, below = array_over(layer, shape=(5000,))

    async def reading():
        await store.get("a/zarr.json", PROTOTYPE)
        for index in range(4):
            await store.get(f"a/c/{index}", PROTOTYPE)
        below.gate = asyncio.Event()
        asking = asyncio.create_task(store.get("a/c/4", PROTOTYPE))
        await asyncio.sleep(0.0)
        for index in (1, 4, 11, 13):  # quadratic residues have no three at equal distances nearby
            others = [
                asyncio.create_task(store.get(f"a/c/{1000 + 37 * n * n + index}", PROTOTYPE))
                for n in range(25)
            ]
            await asyncio.sleep(0)
            for other in others:
                other.cancel()
        below.gate.set()
        assert (await asking) is not None
        await asyncio.sleep(0)

    asyncio.run(reading())
    assert {f"a/c/{index}" for index in range(5, 9)} & set(below.cancelled)
    assert layer.figures().unused >= 1


def test_memory_and_requests_stay_within_their_bounds():
    layer = Prefetch(depth=8, memory_bytes=2000)
    store, _ = array_over(layer, shape=(64 * 100,), chunks=(100,), compressors=None)

    async def reading():
        await store.get("a/zarr.json", PROTOTYPE)
        for index in range(64):
            await store.get(f"a/c/{index}", PROTOTYPE)
            for _ in range(20):
                await asyncio.sleep(0)
            assert layer.figures().bytes <= 2000
            assert layer.figures().waiting <= 5

    asyncio.run(reading())
    assert layer.figures().used > 50


@pytest.mark.parametrize("change", ["set", "delete", "delete_dir", "clear"])
def test_a_change_through_the_layer_is_seen(change):
    layer = Prefetch(depth=4)
    store, _ = array_over(layer)
    new = cpu.Buffer.from_bytes(b"new")

    async def reading():
        await store.get("a/zarr.json", PROTOTYPE)
        for index in range(4):
            await store.get(f"a/c/{index}", PROTOTYPE)
        assert layer.figures().waiting > 0
        if change == "set":
            await store.set("a/c/5", new)
        elif change == "delete":
            await store.delete("a/c/5")
        elif change == "delete_dir":
            await store.delete_dir("a")
        else:
            await store.clear()
        value = await store.get("a/c/5", PROTOTYPE)
        return None if value is None else value.to_bytes()

    assert asyncio.run(reading()) == (b"new" if change == "set" else None)


def test_a_change_by_others_is_seen_after_some_seconds():
    clock = FakeClock()
    layer = Prefetch(depth=4, seconds=5, clock=clock)
    store, below = array_over(layer)

    async def reading():
        await store.get("a/zarr.json", PROTOTYPE)
        for index in range(4):
            await store.get(f"a/c/{index}", PROTOTYPE)
        for _ in range(20):
            await asyncio.sleep(0)
        await below.set("a/c/4", cpu.Buffer.from_bytes(b"new"))
        await below.set("a/c/5", cpu.Buffer.from_bytes(b"new"))
        early = await store.get("a/c/4", PROTOTYPE)
        clock.time += 6
        late = await store.get("a/c/5", PROTOTYPE)
        return early.to_bytes() == b"new", late.to_bytes() == b"new"

    assert asyncio.run(reading()) == (False, True)


def test_an_error_of_a_request_ahead_is_none_of_its_reader():
    layer = Prefetch(depth=4)

    class Failing(Slow):
        fails = True

        async def get(self, key, prototype=None, byte_range=None):
            value = await super().get(key, prototype, byte_range)
            if key == "a/c/5" and self.fails:
                Failing.fails = False
                raise OSError("once")
            return value

    below = Failing()
    zarr.create_array(below, name="a", shape=(8,), chunks=(1,), dtype="i4")[...] = np.arange(8)
    Failing.fails = True
    assert None not in read(stack(below, layer), names(range(1, 8)))
    assert not Failing.fails


def test_the_shards_below_are_read_ahead_and_ranges_pass():
    log = Log()
    store = stack(MemoryStore(), Prefetch(), log)
    array = zarr.create_array(store, name="a", shape=(64,), chunks=(1,), shards=(4,), dtype="i4")
    array[...] = np.arange(64)
    assert list(zarr.open_array(store, path="a", mode="r")[:]) == list(range(64))
    assert [int(zarr.open_array(store, path="a", mode="r")[index]) for index in range(64)] == list(range(64))


def test_arrays_in_shards_of_the_layer_are_read_ahead_by_chunk():
    layer = Prefetch(depth=4)
    store = stack(MemoryStore(), layer, Sharding(chunks_per_shard=[8], path="a"))
    array = zarr.create_array(store, name="a", shape=(64,), chunks=(1,), dtype="i4")
    array[...] = np.arange(64)
    assert [int(array[index]) for index in range(64)] == list(range(64))
    assert layer.figures().used > 50


def test_the_array_of_a_group_with_consolidated_metadata_is_found():
    layer = Prefetch(depth=4)
    store, below = array_over(layer)
    zarr.open_group(below, mode="a")
    with pytest.warns(UserWarning, match="Consolidated"):
        zarr.consolidate_metadata(below)
    array = zarr.open_group(store, mode="r")["a"]
    assert [int(array[index]) for index in range(64)] == list(range(64))
    assert layer.figures().used > 50


def test_a_resized_array_is_read_to_its_new_end():
    layer = Prefetch(depth=4)
    store = stack(MemoryStore(), layer)
    array = zarr.create_array(store, name="a", shape=(8,), chunks=(1,), dtype="i4")
    array[...] = np.arange(8)
    assert [int(array[index]) for index in range(8)] == list(range(8))
    array.resize((64,))
    array[...] = np.arange(64)
    used = layer.figures().used
    assert [int(array[index]) for index in range(64)] == list(range(64))
    assert layer.figures().used - used > 50


def test_closing_cancels_what_is_requested():
    layer = Prefetch(depth=4)
    store, below = array_over(layer)

    async def reading():
        await store.get("a/zarr.json", PROTOTYPE)
        for index in range(3):
            await store.get(f"a/c/{index}", PROTOTYPE)
        below.gate = asyncio.Event()
        waiting = layer.figures().waiting
        store.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return waiting

    waiting = asyncio.run(reading())
    assert waiting > 0
    assert layer.figures() == PrefetchStatistics(used=0, unused=waiting, waiting=0, bytes=0)


# ----- which chunk a key names

V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [5, 7],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default"},
}  # fmt: skip
V2 = {"zarr_format": 2, "shape": [5, 7], "chunks": [2, 3]}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (V3, "g/a/c/2/1"),
        ({**V3, "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}, "g/a/2.1"),
        (V2, "g/a/2.1"),
        ({**V2, "dimension_separator": "/"}, "g/a/2/1"),
    ],
    ids=str,
)
def test_a_key_names_a_chunk(document, key):
    array = ArrayChunks.of("g/a", document)
    assert array is not None
    assert array.chunk(key) == Chunk("g/a", (2, 1), (3, 3))
    assert (array.index(key), array.key(7)) == (7, key)
    assert [array.index(array.key(index)) for index in range(array.total)] == list(range(9))
    for other in ("g/a/zarr.json", "g/b/c/2/1", key + "0", key[:-1] + "3", "g/a/c/2", "g/a/c/02/1"):
        assert array.chunk(other) is None


@pytest.mark.parametrize(
    "document",
    [
        {"zarr_format": 3, "node_type": "group"},
        {**V3, "chunk_grid": {"name": "rectilinear"}},
        {**V3, "shape": [5]},
        {**V3, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 0]}}},
        {**V3, "chunk_key_encoding": {"name": "suffix"}},
        {},
    ],
    ids=str,
)
def test_what_is_no_array_in_a_regular_grid_has_no_chunks(document):
    assert ArrayChunks.of("a", document) is None


def test_a_layer_is_told_which_chunk_a_key_names():
    below = Log()
    layer = Log(label="above")
    store = stack(MemoryStore(), layer, below)
    zarr.create_group(store, path="h")
    array = zarr.create_array(store, name="g/a", shape=(4,), chunks=(1,), dtype="i4", zarr_format=2)
    assert asyncio.run(layer.chunk_of("g/b/3")) is None
    zarr.create_array(store, name="g/b", shape=(4,), chunks=(1,), dtype="i4")
    assert asyncio.run(layer.chunk_of("g/b/c/3")) == Chunk("g/b", (3,), (4,))
    below.reset()
    keys = ("g/a/3", "g/a/2", "g/a/4", "g/a/.zarray", "h/zarr.json", "h/c/0", "other")
    places = [asyncio.run(layer.chunk_of(key)) for key in keys]
    assert places == [Chunk("g/a", (3,), (4,)), Chunk("g/a", (2,), (4,)), *[None] * 5]
    count = below.figures().operations["get"].count
    assert asyncio.run(layer.chunk_of("g/a/1")) == Chunk("g/a", (1,), (4,))
    assert below.figures().operations["get"].count == count
    array.resize((5,))
    assert asyncio.run(layer.chunk_of("g/a/4")) == Chunk("g/a", (4,), (5,))

"""Chunks that wait in memory for their shard: seen by all stacks of the process, stored once, never lost."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import zarr
from tests.support.example_layers import Mask
from tests.support.stores import PROTOTYPE
from tests.support.stores import buffer as value
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import cpu
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import zarrstack
from zarrstack import Cache, Log, PerArray, Rekey, Sharding, StorageTransformer, stack
from zarrstack.base import registry
from zarrstack.core.errors import UsageError
from zarrstack.layers.sharding.buffer import CHUNK_COST, SHARD_COST

BUDGET = 10**6
ENTRY = {"name": "sharding", "configuration": {"chunks_per_shard": [4]}}
ARRAY = {"shape": (16,), "chunks": (1,), "dtype": "i4"}


def got(store, key, part=None):
    found = asyncio.run(store.get(key, PROTOTYPE, part))
    return None if found is None else found.to_bytes()


def put(store, key, data):
    asyncio.run(store.set(key, value(data)))


def listed(names):
    async def collect():
        return sorted([name async for name in names])

    return asyncio.run(collect())


def buffered(below, chunks=4, *layers, memory_bytes=BUDGET, path="a"):
    return stack(below, *layers, Sharding(chunks_per_shard=[chunks], path=path, memory_bytes=memory_bytes))


class Gate:
    """Where sets wait until it is opened."""

    def __init__(self):
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def pass_through(self):
        self.reached.set()
        await self.opened.wait()


class Noted(WrapperStore[Store]):
    """Notes sets and whole reads; sets fail with `error`, and wait at `gate`."""

    def __init__(self, store):
        super().__init__(store)
        self.sets, self.reads, self.error, self.gate = [], [], None, None

    async def get(self, key, prototype, byte_range=None):
        if byte_range is None:
            self.reads.append(key)
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key, data):
        if self.gate is not None:
            await self.gate.pass_through()
        if self.error is not None:
            raise self.error
        self.sets.append(key)
        await self._store.set(key, data)


@pytest.fixture
def objects():
    return {}


@pytest.fixture
def below(objects):
    return Noted(MemoryStore(objects))


# -- when a shard is stored -------------------------------------------------------------------------


def test_an_array_written_row_by_row_stores_each_shard_once_without_reading(below):
    data = np.arange(40 * 40, dtype="i4").reshape(40, 40)
    layer = Sharding(chunks_per_shard=[4, 4], path="a", memory_bytes=BUDGET)
    array = zarr.create_array(stack(below, layer), name="a", shape=(40, 40), chunks=(2, 2), dtype="i4")
    below.sets.clear()
    below.reads.clear()
    array[:] = data
    assert len(below.sets) == 25
    assert below.reads == []
    layer.flush_sync()  # only the shards at the edges waited
    assert sorted(below.sets) == sorted({f"a/c/{i}/{j}" for i in range(5) for j in range(5)})
    assert (array[:] == data).all()
    assert (layer.figures().whole, layer.figures().open_bytes) == (25, 0)


def test_a_whole_shard_is_stored_when_set_returns(below, objects):
    store = buffered(below)
    for number in range(3):
        put(store, f"a/c/{number}", b"x")
    assert objects == {}
    put(store, "a/c/3", b"x")
    assert below.sets == ["a/c/0"]
    assert below.reads == []
    assert store.figures().open_shards == 0


def test_a_shard_all_of_whose_chunks_are_removed_is_removed_without_reading(below, objects):
    store = buffered(below)
    asyncio.run(store._set_many((f"a/c/{number}", value(b"x")) for number in range(4)))
    for number in range(4):
        asyncio.run(store.delete(f"a/c/{number}"))
    assert objects == {}
    assert below.reads == []


def test_a_full_budget_stores_the_shard_that_was_touched_least_recently(below):
    size = 1000
    store = buffered(below, memory_bytes=10 * (size + CHUNK_COST + SHARD_COST))
    for shard in (0, 1, 2):
        put(store, f"a/c/{4 * shard}", bytes(size))
    put(store, "a/c/1", bytes(size))  # shard 0 again
    number = 3
    while not below.sets:
        put(store, f"a/c/{4 * number}", bytes(size))
        number += 1
    assert below.sets == ["a/c/1"]
    figures = store.figures()
    assert (figures.evictions, figures.partial) == (1, 1)
    assert figures.open_bytes <= figures.memory_bytes


def test_a_budget_without_room_for_a_row_of_shards_is_reported_in_the_figures(below):
    data = np.arange(40 * 40, dtype="i4").reshape(40, 40)
    for budget, warns in ((40_000, True), (10**6, False)):
        layer = Sharding(chunks_per_shard=[4, 4], path="a", memory_bytes=budget)
        store = stack(MemoryStore(), layer)
        array = zarr.create_array(
            store, name="a", shape=(40, 40), chunks=(2, 2), dtype="i4", compressors=None
        )
        array[:] = data
        assert (array[:] == data).all()
        assert (layer.figures().warning is not None) is warns
        if warns:
            assert "memory_bytes to one row of shards" in layer.figures().warning


def test_a_chunk_larger_than_the_budget_is_stored_at_once(below, objects):
    store = buffered(below, memory_bytes=1000)
    put(store, "a/c/0", bytes(5000))
    assert list(objects) == ["a/c/0"]
    assert got(store, "a/c/0") == bytes(5000)


def test_flush_stores_what_waits_and_keeps_what_was_stored(below):
    store = buffered(below)
    asyncio.run(store._set_many((f"a/c/{number}", value(b"old")) for number in range(4)))
    put(store, "a/c/1", b"new")
    asyncio.run(store.flush())
    plain = Sharding(below, chunks_per_shard=[4], path="a")
    assert [got(plain, f"a/c/{number}") for number in range(4)] == [b"old", b"new", b"old", b"old"]
    put(store, "a/c/2", b"newer")
    store.flush_sync()
    assert got(plain, "a/c/2") == b"newer"


def test_close_and_the_end_of_a_block_store_what_waits(objects):
    store = buffered(MemoryStore(objects))
    put(store, "a/c/0", b"x")
    store.close()
    assert list(objects) == ["a/c/0"]
    with buffered(MemoryStore(objects)) as store:
        put(store, "a/c/4", b"x")
        assert list(objects) == ["a/c/0"]
    assert list(objects) == ["a/c/0", "a/c/1"]


def test_a_value_is_copied_when_it_is_set(below):
    store = buffered(below)
    data = np.zeros(3, "u1")
    asyncio.run(store.set("a/c/0", cpu.Buffer.from_array_like(data)))
    data[:] = 7
    assert got(store, "a/c/0") == b"\0\0\0"


def test_what_another_writer_stored_meanwhile_is_kept(objects):
    """The shard is read when it is written, and read again if its index has changed in between."""
    memory = MemoryStore(objects)
    other = Sharding(WrapperStore(memory), chunks_per_shard=[4], path="a")

    class Raced(Noted):
        async def get(self, key, prototype, byte_range=None):
            found = await super().get(key, prototype, byte_range)
            if byte_range is None and len(self.reads) == 1:
                await write(b"other", 1)
            return found

    async def write(data, number):  # as another process does: around the locks of this one
        shard = other._shard("a/c/0")
        from zarrstack.layers.sharding.shard import ChunkChange

        await shard.rewrite([ChunkChange((number,), data)])

    store = buffered(Raced(memory))
    put(store, "a/c/0", b"mine")
    asyncio.run(write(b"earlier", 2))
    store.flush_sync()
    assert [got(store, f"a/c/{number}") for number in range(3)] == [b"mine", b"other", b"earlier"]


# -- every method sees what waits -----------------------------------------------------------------------


def test_reads_see_what_waits(below, objects):
    store = buffered(below)
    put(store, "a/c/0", b"stored")
    store.flush_sync()
    put(store, "a/c/1", b"waiting")
    asyncio.run(store.delete("a/c/0"))
    assert got(store, "a/c/1") == b"waiting"
    assert got(store, "a/c/1", RangeByteRequest(1, 3)) == b"ai"
    assert got(store, "a/c/1", OffsetByteRequest(4)) == b"ing"
    assert got(store, "a/c/1", SuffixByteRequest(2)) == b"ng"
    assert got(store, "a/c/0") is None
    assert asyncio.run(store.exists("a/c/1"))
    assert not asyncio.run(store.exists("a/c/0"))
    assert asyncio.run(store.getsize("a/c/1")) == 7
    with pytest.raises(FileNotFoundError):
        asyncio.run(store.getsize("a/c/0"))
    requests = [("a/c/1", RangeByteRequest(0, 2)), ("a/c/0", None), ("zarr.json", None)]
    found = asyncio.run(store.get_partial_values(PROTOTYPE, requests))
    assert [each and each.to_bytes() for each in found] == [b"wa", None, None]
    assert set(objects) == {"a/c/0"}  # nothing was stored for this


@pytest.mark.parametrize("ask", ["list", "list_prefix", "list_dir", "is_empty", "getsize_prefix"])
def test_listings_store_what_waits_first(objects, ask):
    store = buffered(MemoryStore(objects))
    put(store, "a/c/2", b"xyz")
    answers = {
        "list": lambda: listed(store.list()) == ["a/c/2"],
        "list_prefix": lambda: listed(store.list_prefix("a/c/")) == ["a/c/2"],
        "list_dir": lambda: listed(store.list_dir("a")) == ["c"],
        "is_empty": lambda: not asyncio.run(store.is_empty("a")),
        "getsize_prefix": lambda: asyncio.run(store.getsize_prefix("a")) == 3,
    }
    assert answers[ask]()
    assert list(objects) == ["a/c/0"]


def test_a_listing_elsewhere_stores_nothing(objects):
    store = buffered(MemoryStore(objects))
    put(store, "a/c/2", b"xyz")
    assert listed(store.list_dir("b")) == []
    assert objects == {}


@pytest.mark.parametrize("remove", ["delete_dir", "delete_dir of the array", "clear"])
def test_removing_the_array_drops_what_waits(below, objects, remove):
    store = buffered(below)
    for key in ("a/c/0", "a/c/4"):
        put(store, key, b"x")
    calls = {"delete_dir": store.delete_dir("a/c"), "delete_dir of the array": store.delete_dir("a")}
    asyncio.run(calls.pop(remove, None) or store.clear())
    for unused in calls.values():
        unused.close()
    store.flush_sync()
    assert objects == {}
    assert store.figures().open_shards == 0
    assert got(store, "a/c/0") is None


def test_a_set_during_a_removal_stays(objects):
    class Slow(WrapperStore[Store]):
        async def delete_dir(self, prefix):
            await self._store.delete_dir(prefix)
            await store.set("a/c/1", value(b"after"))

    store = buffered(Slow(MemoryStore(objects)))
    put(store, "a/c/0", b"before")
    asyncio.run(store.delete_dir("a"))
    assert (got(store, "a/c/0"), got(store, "a/c/1")) == (None, b"after")


def test_a_smaller_shape_removes_what_waits_outside_of_it(objects):
    store = buffered(MemoryStore(objects), 4)
    array = zarr.create_array(store, name="a", shape=(12,), chunks=(1,), dtype="i4", fill_value=-1)
    array[:6] = 7
    array.resize(5)
    array.resize(12)
    assert array[:].tolist() == [7] * 5 + [-1] * 7
    store.flush_sync()
    plain = Sharding(MemoryStore(objects), chunks_per_shard=[4], path="a")
    assert zarr.open_array(plain, path="a", mode="r")[:].tolist() == [7] * 5 + [-1] * 7


@pytest.mark.parametrize("change", ["set", "set_if_not_exists", "delete"])
def test_an_arrays_document_is_a_barrier(below, objects, change):
    """Nothing is described by a document before it is stored."""
    store = buffered(below)
    put(store, "a/c/0", b"x")
    call = {
        "set": lambda: store.set("a/zarr.json", value(b"{}")),
        "set_if_not_exists": lambda: store.set_if_not_exists("a/zarr.json", value(b"{}")),
        "delete": lambda: store.delete("a/zarr.json"),
    }[change]
    asyncio.run(call())
    assert below.sets[0] == "a/c/0"
    assert "a/c/0" in objects


def test_a_value_is_set_only_if_missing_waiting_or_stored(below):
    store = buffered(below)
    put(store, "a/c/0", b"stored")
    store.flush_sync()
    put(store, "a/c/1", b"waiting")
    asyncio.run(store.delete("a/c/0"))
    for number in range(3):
        asyncio.run(store.set_if_not_exists(f"a/c/{number}", value(b"new")))
    assert [got(store, f"a/c/{number}") for number in range(3)] == [b"new", b"waiting", b"new"]
    asyncio.run(store.set_if_not_exists("a/c/3", value(b"new")))
    assert store.figures().open_shards == 0  # the shard was whole


# -- who shares it -----------------------------------------------------------------------------------------


def test_a_second_stack_over_the_same_place_sees_it_and_adds_to_it(objects):
    one, other = buffered(MemoryStore(objects)), buffered(MemoryStore(objects), 4, Log())
    put(one, "a/c/0", b"1")
    put(other, "a/c/1", b"2")
    assert [got(each, f"a/c/{number}") for each in (one, other) for number in (0, 1)] == [b"1", b"2"] * 2
    assert objects == {}
    asyncio.run(other.flush())
    assert one.inner(Sharding).figures().open_shards == 0
    assert got(Sharding(MemoryStore(objects), chunks_per_shard=[4], path="a"), "a/c/0") == b"1"


def test_a_stack_without_a_buffer_stores_what_waits_before_it_answers_or_writes(objects):
    one = buffered(MemoryStore(objects))
    plain = Sharding(MemoryStore(objects), chunks_per_shard=[4], path="a")
    put(one, "a/c/0", b"1")
    assert got(plain, "a/c/0") == b"1"
    assert list(objects) == ["a/c/0"]
    put(one, "a/c/1", b"2")
    put(plain, "a/c/1", b"3")
    assert got(one, "a/c/1") == b"3"
    put(one, "a/c/2", b"4")
    asyncio.run(plain.delete("a/c/2"))
    assert got(one, "a/c/2") is None
    assert one.figures().open_shards == 0


@pytest.mark.parametrize("bottom", ["memory", "folder", "unknown"])
def test_a_read_only_twin_sees_it(tmp_path, bottom):
    stores = {
        "memory": MemoryStore,
        "folder": lambda: LocalStore(tmp_path),
        "unknown": lambda: Noted(MemoryStore()),
    }
    below = stores[bottom]()
    store = buffered(below)
    twin = store.with_read_only(True)
    put(store, "a/c/0", b"1")
    assert got(twin, "a/c/0") == b"1"
    assert store.figures().open_shards == 1
    with pytest.raises(ValueError, match="read-only"):
        put(twin, "a/c/0", b"2")
    zarrstack.create_array(below, name="b", **ARRAY, storage_transformers=[ENTRY])
    with zarrstack.open_array(below, path="b") as array:
        array[1] = 7
        assert array.store.figures().open_shards == 1
        twin = zarr.open_array(array.store.with_read_only(True), path="b", mode="r")
        assert twin[1] == 7


def test_an_array_is_the_same_by_its_path_and_by_that_of_its_group(tmp_path):
    zarrstack.create_array(tmp_path / "x", name="g/a", **ARRAY, storage_transformers=[ENTRY])
    with zarrstack.open_array(tmp_path / "x" / "g" / "a") as one:
        one[1] = 5
        assert one.store.figures().open_shards == 1
        assert zarrstack.open_array(tmp_path / "x", path="g/a")[1] == 5


def test_layers_that_translate_differently_share_nothing(objects):
    memory = MemoryStore(objects)
    one = buffered(memory)
    moved = stack(
        memory,
        Sharding(chunks_per_shard=[4], path="a", memory_bytes=BUDGET),
        Rekey(rules=[{"name": "prefix", "configuration": {"above": "", "below": "moved"}}]),
    )
    masked = stack(memory, Sharding(chunks_per_shard=[4], path="a", memory_bytes=BUDGET), Mask(mask=3))
    put(one, "a/c/0", b"1")
    assert got(moved, "a/c/0") is None
    assert got(masked, "a/c/0") is None


def test_threads_and_event_loops_write_one_shard(tmp_path):
    def write(first):
        store = buffered(LocalStore(tmp_path), 64)

        async def run():
            for number in range(first, 64, 4):
                await store.set(f"a/c/{number}", value(bytes([number])))

        asyncio.run(run())

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plain = Sharding(LocalStore(tmp_path), chunks_per_shard=[64], path="a")
    assert [got(plain, f"a/c/{number}") for number in range(64)] == [bytes([number]) for number in range(64)]


def test_another_process_sees_nothing_before_a_flush_and_everything_after_it(tmp_path):
    store = buffered(LocalStore(tmp_path))
    put(store, "a/c/1", b"x")
    code = f"""
        import asyncio
        from zarr.storage import LocalStore
        from zarrstack import Sharding
        layer = Sharding(LocalStore({str(tmp_path)!r}), chunks_per_shard=[4], path="a")
        print(asyncio.run(layer.exists("a/c/1")), flush=True)
        input()
        print(asyncio.run(layer.exists("a/c/1")))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "False\n"
        store.flush_sync()
        assert other.communicate("\n")[0] == "True\n"


def run_python(code, expect=0):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == expect, done.stderr
    return (done.stdout + done.stderr).strip()


# -- failures ----------------------------------------------------------------------------------------------


def test_a_failed_write_is_raised_and_the_chunks_stay(below, objects):
    store = buffered(below)
    put(store, "a/c/0", b"x")
    below.error = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        store.flush_sync()
    with pytest.raises(OSError, match="No space"):
        asyncio.run(store.flush())
    with pytest.raises(OSError, match="No space"):
        store.close()
    assert got(store, "a/c/0") == b"x"
    below.error = None
    store.flush_sync()
    assert list(objects) == ["a/c/0"]


def test_the_set_that_makes_a_shard_whole_raises_its_error(below, objects):
    store = buffered(below, 2)
    put(store, "a/c/0", b"x")
    below.error = OSError("full")
    with pytest.raises(OSError, match="full"):
        put(store, "a/c/1", b"y")
    assert (got(store, "a/c/0"), got(store, "a/c/1")) == (b"x", b"y")
    below.error = None
    put(store, "a/c/1", b"z")
    assert below.sets == ["a/c/0"]


def test_an_error_that_nobody_saw_is_raised_by_the_next_set(below):
    store = buffered(below, 2)

    async def run():
        await store.set("a/c/0", value(b"x"))
        below.gate = Gate()
        below.error = OSError("lost connection")
        task = asyncio.ensure_future(store.set("a/c/1", value(b"y")))
        await below.gate.reached.wait()
        task.cancel()
        below.gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OSError, match="lost connection"):
            await store.set("a/c/9", value(b"z"))
        below.error = below.gate = None
        await store.set("a/c/9", value(b"z"))  # raised once
        await store.flush()

    asyncio.run(run())
    plain = Sharding(below, chunks_per_shard=[2], path="a")
    assert [got(plain, f"a/c/{number}") for number in (0, 1, 9)] == [b"x", b"y", b"z"]


def test_a_value_set_while_its_shard_is_being_stored_is_kept(below):
    store = buffered(below, 2)

    async def run():
        await store.set("a/c/0", value(b"old"))
        below.gate = Gate()
        task = asyncio.ensure_future(store.flush())
        await below.gate.reached.wait()
        await store.set("a/c/0", value(b"new"))
        assert (await store.get("a/c/0", PROTOTYPE)).to_bytes() == b"new"
        below.gate.opened.set()
        await task
        below.gate = None
        assert (await store.get("a/c/0", PROTOTYPE)).to_bytes() == b"new"
        await store.flush()

    asyncio.run(run())
    assert got(Sharding(below, chunks_per_shard=[2], path="a"), "a/c/0") == b"new"


# -- event loops, exits, forks, pickles --------------------------------------------------------------------


def test_close_in_zarrs_own_event_loop_does_not_wait_for_itself(objects):
    store = buffered(MemoryStore(objects))

    async def run():
        await store.set("a/c/0", value(b"x"))
        store.close()

    sync(run(), timeout=60)
    store.flush_sync()
    assert list(objects) == ["a/c/0"]


def test_close_does_not_wait_for_a_task_of_the_same_loop_that_holds_the_shard(below, objects):
    store = buffered(below, 2)

    async def run():
        await store.set("a/c/0", value(b"x"))
        below.gate = Gate()
        task = asyncio.ensure_future(store.flush())
        await below.gate.reached.wait()
        store.close()  # the task is suspended inside its write
        with pytest.raises(UsageError, match=r"Await `store.flush\(\)` first"):
            store.flush_sync()
        with pytest.raises(UsageError, match=r"Await `store.flush\(\)` first"):
            pickle.dumps(store)
        below.gate.opened.set()
        await task

    asyncio.run(run())
    assert list(objects) == ["a/c/0"]


def test_a_block_ends_in_an_event_loop_as_in_a_notebook(objects):
    async def cell():
        with buffered(MemoryStore(objects)) as store:
            await store.set("a/c/0", value(b"x"))
        return list(objects)

    assert asyncio.run(cell()) == ["a/c/0"]


AT_EXIT = """
    import asyncio, sys
    from zarr.storage import LocalStore, WrapperStore
    from zarr.core.buffer import cpu
    from zarrstack import Sharding, stack

    class Broken(WrapperStore):
        async def set(self, key, value):
            raise OSError("disk is gone")

    below = LocalStore({folder!r})
    store = stack({below}, Sharding(chunks_per_shard=[4], path="a", memory_bytes="1MB"))
    asyncio.run(store.set("a/c/1", cpu.Buffer.from_bytes(b"x")))
    {end}
"""


@pytest.mark.parametrize(
    "end", ["", *(pytest.param(end, marks=pytest.mark.slow) for end in ("sys.exit(0)", "del store"))]
)
def test_what_waits_is_stored_when_the_interpreter_exits(tmp_path, end):
    assert run_python(AT_EXIT.format(folder=str(tmp_path), below="below", end=end)) == ""
    assert got(Sharding(LocalStore(tmp_path), chunks_per_shard=[4], path="a"), "a/c/1") == b"x"


def test_what_cannot_be_stored_at_exit_is_warned_of(tmp_path):
    text = run_python(AT_EXIT.format(folder=str(tmp_path), below="Broken(below)", end=""))
    assert "1 chunks of the shard 'a/c/0' were never written" in text
    assert "disk is gone" in text


def test_what_waits_outlives_its_stack(objects):
    put(buffered(MemoryStore(objects)), "a/c/0", b"x")
    gc.collect()
    assert got(buffered(MemoryStore(objects)), "a/c/0") == b"x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not everywhere: it forks")
def test_a_forked_child_drops_what_waits_in_its_parent_and_has_a_buffer_of_its_own(tmp_path):
    store = buffered(LocalStore(tmp_path))
    put(store, "a/c/0", b"parent")
    plain = Sharding(LocalStore(tmp_path), chunks_per_shard=[4], path="a")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert got(store, "a/c/0") is None
            assert store.figures().open_shards == 0
            put(store, "a/c/1", b"child")
            store.flush_sync()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert (got(plain, "a/c/0"), got(plain, "a/c/1")) == (b"parent", b"child")  # `plain` stores the parent's


def test_pickling_stores_what_waits_first(tmp_path):
    store = buffered(LocalStore(tmp_path), 4, Log())
    put(store, "a/c/0", b"x")
    there = pickle.loads(pickle.dumps(store))
    assert store.inner(Sharding).figures().open_shards == 0
    assert there == store
    assert got(Sharding(LocalStore(tmp_path), chunks_per_shard=[4], path="a"), "a/c/0") == b"x"
    assert pickle.loads(pickle.dumps(Sharding(chunks_per_shard=[4], memory_bytes=5))).buffers


# -- layers above and below --------------------------------------------------------------------------------


def test_a_layer_that_would_record_a_waiting_value_must_be_below(tmp_path):
    disk = tmp_path / "cache"
    with pytest.raises(UsageError, match="wait in memory; put it below"):
        stack(MemoryStore(), Cache(disk=disk), Sharding(chunks_per_shard=[4], memory_bytes=BUDGET))
    store = stack(
        LocalStore(tmp_path / "a"), Sharding(chunks_per_shard=[4], memory_bytes=BUDGET), Cache(disk=disk)
    )
    put(store, "c/0", b"x")
    store.flush_sync()
    assert got(store, "c/0") == b"x"


def test_a_cache_in_memory_above_sees_the_same_values(objects):
    store = buffered(MemoryStore(objects), 4, Cache(listings=True))
    put(store, "a/c/0", b"x")
    assert got(store, "a/c/0") == b"x"
    assert listed(store.list()) == ["a/c/0"]
    asyncio.run(store.delete("a/c/0"))
    assert got(store, "a/c/0") is None


def test_shards_of_shards_are_flushed_from_the_array_down(objects):
    store = stack(
        MemoryStore(objects),
        Sharding(chunks_per_shard=[2], path="a", memory_bytes=BUDGET),
        Sharding(chunks_per_shard=[2], path="a", memory_bytes=BUDGET),
    )
    for number in range(3):
        put(store, f"a/c/{number}", bytes([number]))
    assert objects == {}
    store.flush_sync()
    assert list(objects) == ["a/c/0"]
    assert [got(store, f"a/c/{number}") for number in range(3)] == [b"\0", b"\1", b"\2"]


# -- zarrstack.open ----------------------------------------------------------------------------------------


def test_chunks_wait_inside_a_block_and_not_outside_of_it(below, objects):
    array = zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    array[0] = 1
    assert "a/c/0" in objects
    below.sets.clear()
    with array:
        array[1] = 2
        array[4] = 3
        assert below.sets == []
        assert array[:6].tolist() == [1, 2, 0, 0, 3, 0]
    assert below.sets == ["a/c/0", "a/c/1"]
    array[5] = 4
    assert below.sets == ["a/c/0", "a/c/1", "a/c/1"]
    assert array[:6].tolist() == [1, 2, 0, 0, 3, 4]


def test_the_arrays_of_a_group_share_the_budget_of_its_block(below):
    for name in ("a", "b"):
        zarrstack.create_array(below, name=name, **ARRAY, storage_transformers=[ENTRY])
    with zarrstack.open_group(below, memory_bytes="1MB") as group:
        below.sets.clear()
        for name in ("a", "b"):
            group[name][1] = 7
        assert group.store.figures().open_shards == 2
        assert group.store.figures().memory_bytes == 1_000_000
        assert below.sets == []
        assert [group[name][1] for name in ("a", "b")] == [7, 7]
        group["a"].attrs["unit"] = "m"  # a barrier for this array alone
        assert [key for key in below.sets if "/c/" in key] == ["a/c/0"]
    assert [key for key in below.sets if "/c/" in key] == ["a/c/0", "b/c/0"]


@pytest.mark.parametrize(("options", "waits"), [({}, False), ({"memory_bytes": "1MB"}, True)])
def test_chunks_wait_without_a_block_only_if_a_budget_is_given(below, options, waits):
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    array = zarrstack.open_array(below, path="a", **options)
    below.sets.clear()
    array[1] = 1
    assert (below.sets == []) is waits
    array.store.flush_sync()
    assert below.sets == ["a/c/0"]


def test_a_budget_that_is_no_size_is_refused(below):
    zarrstack.create_array(below, name="a", **ARRAY)
    with pytest.raises(UsageError, match="memory_bytes"):
        zarrstack.open(below, path="a", memory_bytes="much")


def test_metadata_may_not_ask_for_memory(below):
    entry = {"name": "sharding", "configuration": {"chunks_per_shard": [4], "memory_bytes": 5}}
    with pytest.raises(Exception, match=r"'memory_bytes' is not allowed .* Pass it to zarrstack.open"):
        zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[entry])


class Recording(StorageTransformer):
    """Stands for a layer of others that records each value, which must be stored by then."""

    name, in_metadata = "recording", True

    def check_below(self, layer):
        return "it records values" if layer.buffers else None


def test_below_a_layer_that_records_chunks_nothing_waits(below, objects, monkeypatch):
    known = registry.find
    monkeypatch.setattr(
        "zarrstack.layers.per_array.described.find",
        lambda name: Recording if name == "recording" else known(name),
    )
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=["recording", ENTRY])
    with zarrstack.open_array(below, path="a") as array:
        array[1] = 1
        assert "a/c/0" in objects
    zarrstack.create_array(below, name="b", **ARRAY, storage_transformers=[ENTRY, "recording"])
    with zarrstack.open_array(below, path="b") as array:
        array[1] = 1
        assert "b/c/0" not in objects
    assert "b/c/0" in objects


def test_a_failed_flush_ends_the_block_with_its_error_and_keeps_the_chunks(below):
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    array = zarrstack.open_array(below, path="a")

    def write():
        with array:
            array[1] = 1
            below.error = OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    below.error = None
    assert array[1] == 1
    array.store.flush_sync()
    assert zarrstack.open_array(below, path="a")[1] == 1


def test_a_pickled_array_is_stored_first_and_arrives_without_a_buffer(tmp_path):
    zarrstack.create_array(tmp_path / "x", name="a", **ARRAY, storage_transformers=[ENTRY])
    with zarrstack.open_array(tmp_path / "x", path="a") as array:
        array[1] = 1
        there = pickle.loads(pickle.dumps(array))
        assert array.store.figures().open_shards == 0
        assert there[1] == 1
        assert isinstance(there.store, PerArray)
        assert not there.store.buffers


def test_an_array_that_replaces_another_has_none_of_its_waiting_chunks(below):
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    with zarrstack.open_group(below) as group:
        group["a"][1] = 1
        new = zarrstack.create_array(
            group.store, name="a", **ARRAY, storage_transformers=[ENTRY], overwrite=True
        )
        assert new[1] == 0
    assert zarrstack.open_array(below, path="a")[1] == 0

"""Writes that wait in memory: seen by all stacks of the process, stored once and in order, never lost."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pickle
import subprocess
import sys
import textwrap

import dask.array
import numpy as np
import pytest
import zarr
from tests.support.example_layers import Mask
from tests.support.stores import PROTOTYPE, Gate, Noted, got, listed, put
from tests.support.stores import buffer as value
from zarr.abc.store import RangeByteRequest, Store
from zarr.buffer import cpu
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, WrapperStore, ZipStore

from zarrstack import Cache, Log, Rekey, WriteBack, stack
from zarrstack.base.locations import location_of
from zarrstack.core.errors import StorageError, UsageError
from zarrstack.layers.write_back.waiting import KEY_COST, OBJECT_COST
from zarrstack.testing import LayerTests, Place

ARRAY = {"shape": (12,), "chunks": (2,), "dtype": "i4", "compressors": None, "fill_value": -1}


@pytest.fixture
def objects():
    return {}


@pytest.fixture
def below(objects):
    return Noted(MemoryStore(objects))


class TestOverFiles(LayerTests):
    examples = steps = 5
    leaves_folders = True

    def layers(self):
        return [WriteBack(memory_bytes="20kB")]

    def below(self, place: Place, *, read_only: bool = False) -> Store:
        return LocalStore(place.folder, read_only=read_only)


# -- one store write per object --------------------------------------------------------------------


def by_rows(store, data):
    array = zarr.create_array(
        store, name="a", shape=data.shape, chunks=(8, 8), shards=(32, 32), dtype=data.dtype
    )
    for row in range(0, len(data), 2):
        array[row : row + 2] = data[row : row + 2]


def test_a_shard_that_is_written_by_rows_is_read_and_stored_once_where_zarr_does_it_for_each_row(below):
    data = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    plain = Noted(MemoryStore())
    by_rows(plain, data)
    store = stack(below, WriteBack())
    by_rows(store, data)
    store.flush_sync()
    assert len([key for key in plain.sets if "/c/" in key]) == 64
    assert sorted(key for key in below.sets if "/c/" in key) == ["a/c/0/0", "a/c/0/1", "a/c/1/0", "a/c/1/1"]
    assert len([key for key in below.gets if "/c/" in key]) == 4
    assert (zarr.open_array(below, path="a", mode="r")[:] == data).all()


def test_small_appends_store_each_chunk_and_the_document_once(below):
    store = stack(below, WriteBack())
    array = zarr.create_array(store, name="a", **ARRAY | {"shape": (0,)})
    below.changes.clear()
    for number in range(20):
        array.append(np.array([number], "i4"))
    assert below.changes == []
    assert array[:].tolist() == list(range(20))
    store.flush_sync()
    assert sorted(below.sets[:-1]) == [f"a/c/{number}" for number in range(10)]
    assert below.sets[-1] == "a/zarr.json"
    assert zarr.open_array(below, path="a", mode="r")[:].tolist() == list(range(20))


def test_regions_of_a_dataset_that_xarray_writes_are_stored_once(below):
    xarray = pytest.importorskip("xarray")
    store = stack(below, WriteBack())
    data = xarray.Dataset({"v": ("x", np.arange(24.0))})
    data.to_zarr(store, encoding={"v": {"chunks": (8,)}}, compute=False, consolidated=False)
    for start in range(0, 24, 4):
        part = slice(start, start + 4)
        data.isel(x=part).to_zarr(store, region={"x": part}, consolidated=False, safe_chunks=False)
    store.flush_sync()
    assert sorted(key for key in below.sets if "/c/" in key) == ["v/c/0", "v/c/1", "v/c/2"]
    assert xarray.open_zarr(below, consolidated=False).equals(data)


# -- the order in which changes are stored ---------------------------------------------------------


def test_the_first_document_of_a_node_is_stored_at_once(below, objects):
    zarr.create_array(stack(below, WriteBack()), name="g/a", **ARRAY)
    assert sorted(objects) == ["g/a/zarr.json", "g/zarr.json", "zarr.json"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_documents_come_after_the_chunks_they_describe_and_those_of_groups_last(below, zarr_format):
    store = stack(below, WriteBack())
    group = zarr.create_group(store, zarr_format=zarr_format, attributes={"a": 1})
    array = group.create_array("a", **ARRAY, attributes={"a": 1})
    below.changes.clear()
    group.attrs["ended"] = array.attrs["ended"] = True
    array[:] = 7
    store.flush_sync()
    names = [key.rpartition("/")[2] for key in below.sets]
    chunks = len([name for name in names if name.isdigit()])
    assert chunks == 6
    assert all(name.isdigit() for name in names[:6])
    of_group = ["/" not in key for key in below.sets[6:]]
    assert of_group == sorted(of_group)
    assert set(of_group) == {False, True}


def test_a_smaller_shape_is_stored_before_its_chunks_are_removed(below):
    store = stack(below, WriteBack())
    array = zarr.create_array(store, name="a", **ARRAY)
    array[:] = 7
    store.flush_sync()
    below.changes.clear()
    array.resize(4)
    assert below.changes == []
    array[:2] = -1  # zarr removes a chunk that has only fill values: data, and not outside
    store.flush_sync()
    assert below.changes[:2] == [("delete", "a/c/0"), ("set", "a/zarr.json")]
    assert sorted(below.changes[2:]) == [("delete", f"a/c/{number}") for number in (2, 3, 4, 5)]


def test_a_full_memory_removes_no_chunk_before_the_document_of_the_smaller_shape(below):
    store = stack(below, WriteBack(memory_bytes=6 * (KEY_COST + OBJECT_COST + 400)))
    array = zarr.create_array(store, name="a", **ARRAY)
    array[:] = 7
    store.flush_sync()
    for number in (3, 4, 5):
        asyncio.run(store.delete(f"a/c/{number}"))
    below.changes.clear()
    for number in range(8):
        put(store, f"b/{number}", bytes(400))
    array.resize(6)
    store.flush_sync()
    of_array = [each for each in below.changes if each[1].startswith("a/")]
    assert of_array[0] == ("set", "a/zarr.json")


def test_a_document_is_not_stored_if_a_chunk_is_not(below, objects):
    store = stack(below, WriteBack())
    array = zarr.create_array(store, name="a", **ARRAY)
    array.append(np.array([1, 2], "i4"))
    below.fails = "a/c/6"
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            store.flush_sync()
    assert json.loads(objects["a/zarr.json"].to_bytes())["shape"] == [12]
    assert array[12:].tolist() == [1, 2]
    below.fails = None
    store.flush_sync()
    assert zarr.open_array(below, path="a", mode="r")[12:].tolist() == [1, 2]


def test_a_document_is_removed_after_what_waits_below_it(below):
    store = stack(below, WriteBack())
    zarr.create_array(store, name="a", **ARRAY)[:2] = 7
    asyncio.run(store.delete("a/zarr.json"))
    assert below.changes[-2:] == [("set", "a/c/0"), ("delete", "a/zarr.json")]


# -- reads see what waits --------------------------------------------------------------------------


def test_no_question_stores_what_waits(below, objects):
    """TestOverFiles compares the answers."""
    store = stack(below, WriteBack())
    put(store, "a/0", b"stored")
    store.flush_sync()
    put(store, "a/1", b"waiting")
    asyncio.run(store.delete("a/0"))
    assert got(store, "a/1", RangeByteRequest(1, 3)) == b"ai"
    assert listed(store.list()) == listed(store.list_prefix("a")) == ["a/1"]
    assert (listed(store.list_dir("a")), listed(store.list_dir(""))) == (["1"], ["a"])
    assert asyncio.run(store.getsize_prefix("a")) == 7
    asyncio.run(store.delete("a/1"))
    assert asyncio.run(store.is_empty("a"))
    assert set(objects) == {"a/0"}


def test_a_value_is_copied_when_it_is_set(below):
    store = stack(below, WriteBack())
    data = np.zeros(3, "u1")
    asyncio.run(store.set("a/0", cpu.Buffer.from_array_like(data)))
    data[:] = 7
    assert got(store, "a/0") == b"\0\0\0"


def test_a_value_is_set_only_if_missing_waiting_or_stored(below):
    store = stack(below, WriteBack())
    for key in ("a/0", "a/3"):
        put(store, key, b"stored")
    store.flush_sync()
    put(store, "a/1", b"waiting")
    asyncio.run(store.delete("a/0"))
    for number in range(4):
        asyncio.run(store.set_if_not_exists(f"a/{number}", value(b"new")))
    assert [got(store, f"a/{number}") for number in range(4)] == [b"new", b"waiting", b"new", b"stored"]


def test_a_removal_of_a_folder_drops_what_waits_but_not_what_is_set_meanwhile(objects):
    class Slow(WrapperStore[Store]):
        async def delete_dir(self, prefix):
            await self._store.delete_dir(prefix)
            await store.set("a/1", value(b"after"))

    store = stack(Slow(MemoryStore(objects)), WriteBack())
    put(store, "a/0", b"before")
    asyncio.run(store.delete_dir("a"))
    assert (got(store, "a/0"), got(store, "a/1")) == (None, b"after")
    asyncio.run(store.clear())
    store.flush_sync()
    assert objects == {}


@pytest.mark.parametrize("shards", [None, (4,)], ids=["chunks", "shards"])
@pytest.mark.parametrize("part", [slice(None), slice(4, 6), slice(8, 12)], ids=["all", "a chunk", "the last"])
def test_decoded_chunks_of_a_cache_below_are_not_those_of_a_value_that_waits(below, part, shards):
    with zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"}):
        store = stack(below, WriteBack(), Cache())
        array = zarr.create_array(store, name="a", **ARRAY, shards=shards)
    expected = np.zeros(12, "i4")
    for number in (1, 2, 3):
        wanted = slice(None) if number == 1 else part
        array[wanted] = expected[wanted] = number
        for _ in range(2):
            assert array[:].tolist() == expected.tolist()
        if number == 1:
            store.flush_sync()
            assert array[:].tolist() == [1] * 12
    store.flush_sync()
    assert array[:].tolist() == zarr.open_array(below, path="a", mode="r")[:].tolist() == expected.tolist()


# -- who shares it ---------------------------------------------------------------------------------


def test_places_are_those_of_objects_whatever_store_shows_them(objects, tmp_path):
    class Shifted(WrapperStore):
        """Another's, which may show other values."""

    one, other = location_of(MemoryStore(objects)), location_of(Shifted(MemoryStore(objects)))
    assert (one.place, one.base) == (other.place, other.base) and one.exact != other.exact
    files = [location_of(ZipStore(tmp_path / path)) for path in ("a.zip", "x/../a.zip", "b.zip")]
    assert files[0] == files[1] != files[2]
    assert files[0] != location_of(LocalStore(tmp_path / "a.zip"))


def test_a_second_stack_over_the_same_place_sees_it_and_replaces_it(objects):
    one = stack(MemoryStore(objects), WriteBack())
    other = stack(MemoryStore(objects), Log(), WriteBack())
    put(one, "a/0", b"1")
    assert got(other, "a/0") == b"1"
    put(other, "a/0", b"2")
    put(other, "a/1", b"3")
    assert [got(one, key) for key in ("a/0", "a/1")] == [b"2", b"3"]
    assert objects == {}
    asyncio.run(other.flush())
    assert objects["a/0"].to_bytes() == b"2"
    assert one.figures().waiting == 0


def test_a_stack_over_a_folder_of_it_sees_it(tmp_path):
    (tmp_path / "g").mkdir()
    one, other = stack(LocalStore(tmp_path), WriteBack()), stack(LocalStore(tmp_path / "g"), WriteBack())
    put(one, "g/a/0", b"1")
    assert got(other, "a/0") == b"1"
    put(other, "a/0", b"2")
    assert got(one, "g/a/0") == b"2"


def test_stacks_that_translate_differently_see_each_other(objects):
    move = {"name": "prefix", "configuration": {"above": "a", "below": "moved"}}
    one = stack(MemoryStore(objects), WriteBack())
    moved = stack(MemoryStore(objects), WriteBack(), Rekey(rules=[move]))
    masked = stack(MemoryStore(objects), WriteBack(), Mask(mask=3))
    put(one, "moved/0", b"\1")
    assert got(moved, "a/0") == b"\1"
    put(moved, "a/0", b"\2")
    assert got(masked, "moved/0") == b"\1"
    assert got(one, "moved/0") == b"\2"


@pytest.mark.parametrize("bottom", ["memory", "folder", "unknown"])
def test_a_read_only_copy_sees_it(tmp_path, bottom):
    stores = {
        "memory": MemoryStore,
        "folder": lambda: LocalStore(tmp_path),
        "unknown": lambda: Noted(MemoryStore()),
    }
    store = stack(stores[bottom](), WriteBack())
    twin = store.with_read_only(True)
    put(store, "a/0", b"1")
    assert got(twin, "a/0") == b"1"
    assert store.figures().waiting == 1
    with pytest.raises(ValueError, match="read-only"):
        put(twin, "a/0", b"2")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_writes_through_it(tmp_path, scheduler):
    store = stack(LocalStore(tmp_path), WriteBack())
    zarr.create_array(store, name="a", shape=(16,), chunks=(4,), dtype="i8")
    data = dask.array.arange(16, chunks=4)
    target = zarr.open_array(store, path="a", mode="r+")
    data.store(target, scheduler=scheduler, num_workers=1, lock=False)
    store.flush_sync()
    assert zarr.open_array(tmp_path, path="a", mode="r")[:].tolist() == list(range(16))


def test_above_another_it_passes_everything_on(below):
    store = stack(below, WriteBack(), WriteBack())
    put(store, "a/0", b"1")
    assert (store.buffers, store.below.buffers) == (False, True)
    assert (store.figures().waiting, store.below.figures().waiting) == (0, 1)
    store.flush_sync()
    assert below.sets == ["a/0"]


def test_a_cache_that_records_values_on_disk_must_be_below(tmp_path):
    with pytest.raises(UsageError, match="wait in memory; put it below"):
        stack(MemoryStore(), Cache(disk=tmp_path), WriteBack())


# -- memory ----------------------------------------------------------------------------------------


def test_a_full_budget_stores_the_object_that_was_changed_least_recently(below):
    store = stack(below, WriteBack(memory_bytes=3 * (1000 + KEY_COST + OBJECT_COST)))
    for key in ("a/0", "a/1", "a/2", "a/0", "a/3"):
        put(store, key, bytes(1000))
    assert below.sets == ["a/1"]
    figures = store.figures()
    assert (figures.evictions, figures.received, figures.stored, figures.waiting) == (1, 5, 1, 3)
    assert figures.waiting_bytes <= figures.memory_bytes


def test_a_value_larger_than_the_budget_is_stored_at_once(below):
    store = stack(below, WriteBack(memory_bytes=1000))
    put(store, "a/0", bytes(5000))
    assert below.sets == ["a/0"]
    assert store.figures().waiting == 0


def test_documents_and_removals_take_no_more_than_the_budget(below):
    store = stack(below, WriteBack(memory_bytes=20_000))
    for number in range(100):
        put(store, f"{number}/zarr.json", b"{}")
        put(store, f"{number}/zarr.json", b"{} ")
        asyncio.run(store.delete(f"a/{number}"))
        assert store.figures().waiting_bytes <= 20_000
    assert ("delete", "a/0") in below.changes


# -- failures --------------------------------------------------------------------------------------


def test_a_failed_flush_keeps_what_waits_and_raises_again(below, objects):
    store = stack(below, WriteBack())
    put(store, "a/0", b"x")
    put(store, "b/0", b"y")
    below.fails = "a/"
    for act in (store.flush_sync, lambda: asyncio.run(store.flush()), store.close, store.__exit__):
        with pytest.raises(OSError, match="No space"):
            act()
    assert (got(store, "a/0"), set(objects)) == (b"x", {"b/0"})
    below.fails = None
    store.flush_sync()
    assert set(objects) == {"a/0", "b/0"}


def test_an_error_that_nobody_saw_is_raised_by_the_next_change(below):
    store = stack(below, WriteBack())

    async def run():
        await store.set("a/0", value(b"x"))
        below.gate, below.fails = Gate(), "a/"
        task = asyncio.ensure_future(store.flush())
        await below.gate.reached.wait()
        task.cancel()
        below.gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OSError, match="No space"):
            await store.set("a/9", value(b"z"))
        below.fails = below.gate = None
        await store.set("a/9", value(b"z"))  # raised once
        await store.flush()

    asyncio.run(run())
    assert sorted(below.sets) == ["a/0", "a/9"]


@pytest.mark.parametrize("at_once", [True, False], ids=["a flush meanwhile", "a later flush"])
def test_a_value_set_while_its_object_is_being_stored_is_kept_and_stored_after_it(below, objects, at_once):
    class Counted(Gate):
        entered = 0

        async def pass_through(self):
            self.entered += 1
            await super().pass_through()

    store = stack(below, WriteBack())

    async def run():
        await store.set("a/0", value(b"old"))
        below.gate = gate = Counted()
        first = asyncio.ensure_future(store.flush())
        await gate.reached.wait()
        await store.set("a/0", value(b"new"))
        second = asyncio.ensure_future(store.flush()) if at_once else None
        for _ in range(100):
            await asyncio.sleep(0)
        assert gate.entered == 1
        gate.opened.set()
        await first
        assert (await store.get("a/0", PROTOTYPE)).to_bytes() == b"new"
        await (second or store.flush())

    asyncio.run(run())
    assert objects["a/0"].to_bytes() == b"new"


def test_a_layer_below_refuses_a_document_when_it_is_set(below):
    class Strict(Log):
        name = "strict"

        async def check_set(self, key, value):
            if b"bad" in value.to_bytes():
                raise UsageError("refused", key=key)

    store = stack(below, WriteBack(), Strict())
    put(store, "zarr.json", b"{}")
    with pytest.raises(UsageError, match="refused"):
        put(store, "zarr.json", b"bad")
    assert got(store, "zarr.json") == b"{}"


# -- event loops, exits, forks, pickles ------------------------------------------------------------


def test_a_block_and_close_store_what_waits_also_in_an_event_loop(objects):
    with stack(MemoryStore(objects), WriteBack()) as store:
        put(store, "a/0", b"x")
        assert objects == {}
    assert list(objects) == ["a/0"]

    async def cell():
        with stack(MemoryStore(objects), WriteBack()) as store:
            await store.set("a/1", value(b"x"))
        return list(objects)

    assert asyncio.run(cell()) == ["a/0", "a/1"]


def test_zarrs_own_event_loop_is_told_to_flush_first(objects):
    store = stack(MemoryStore(objects), WriteBack())

    async def run():
        await store.set("a/0", value(b"x"))
        with pytest.raises(UsageError, match=r"Await `store.flush\(\)` first"):
            store.flush_sync()
        with pytest.raises(UsageError, match=r"Await `store.flush\(\)` first"):
            pickle.dumps(store)
        with pytest.raises(UsageError, match=r"Await `store.flush\(\)` first"):
            store.close()
        await store.flush()
        store.close()

    sync(run(), timeout=60)
    assert list(objects) == ["a/0"]


AT_EXIT = """
    import asyncio, sys
    from zarr.storage import LocalStore, WrapperStore
    from zarr.buffer import cpu
    from zarrstack import WriteBack, stack

    class Broken(WrapperStore):
        async def set(self, key, value):
            raise {error}

    below = LocalStore({folder!r})
    store = stack({below}, WriteBack())
    asyncio.run(store.set("a/1", cpu.Buffer.from_bytes(b"x")))
    {end}
"""


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).strip()


@pytest.mark.parametrize(
    "end", ["", *(pytest.param(end, marks=pytest.mark.slow) for end in ("sys.exit(0)", "del store"))]
)
def test_what_waits_is_stored_when_the_interpreter_exits(tmp_path, end):
    assert run_python(AT_EXIT.format(folder=str(tmp_path), below="below", error="OSError", end=end)) == ""
    assert got(LocalStore(tmp_path), "a/1") == b"x"


SILENT = "import zarrstack.layers.write_back.waiting as w; w.Budget.store = lambda *_, **__: asyncio.sleep(0)"


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("error", "end", "why"),
    [
        ("OSError('disk is gone')", "", "disk is gone"),
        ("asyncio.CancelledError", "", "the store broke off a change"),
        ("OSError", SILENT, "a flush did not store them"),
    ],
    ids=["an error", "broken off", "nothing happens"],
)
def test_what_cannot_be_stored_at_exit_is_warned_of_by_its_key(tmp_path, error, end, why):
    code = AT_EXIT.format(folder=str(tmp_path), below="Broken(below)", error=error, end=end)
    text = run_python(code)
    assert "1 changes were never stored" in text
    assert "Their keys: a/1" in text
    assert why in text


def test_a_flush_whose_store_breaks_off_does_not_seem_to_succeed(objects):
    class BreaksOff(WrapperStore[Store]):
        async def set(self, key, value):
            raise asyncio.CancelledError

    store = stack(BreaksOff(MemoryStore(objects)), WriteBack())
    put(store, "a/0", b"x")
    with pytest.raises(StorageError, match="the store broke off a change"):
        store.flush_sync()
    assert got(store, "a/0") == b"x"
    asyncio.run(store.clear())


def test_what_waits_outlives_its_stack(objects):
    put(stack(MemoryStore(objects), WriteBack()), "a/0", b"x")
    gc.collect()
    assert got(stack(MemoryStore(objects), WriteBack()), "a/0") == b"x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not everywhere: it forks")
def test_a_forked_child_drops_what_waits_in_its_parent_and_keeps_its_own(tmp_path):
    store = stack(LocalStore(tmp_path), WriteBack())
    put(store, "a/0", b"parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert got(store, "a/0") is None
            assert store.figures().waiting == 0
            put(store, "a/1", b"child")
            store.flush_sync()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert got(LocalStore(tmp_path), "a/0") is None
    store.flush_sync()
    assert [got(LocalStore(tmp_path), key) for key in ("a/0", "a/1")] == [b"parent", b"child"]


def test_pickling_stores_what_waits_and_the_copy_keeps_its_own(tmp_path):
    store = stack(LocalStore(tmp_path), Log(), WriteBack())
    put(store, "a/0", b"x")
    there = pickle.loads(pickle.dumps(store))
    assert got(LocalStore(tmp_path), "a/0") == b"x"
    assert there == store
    assert there.below.buffers

"""Chunks that wait in memory for their shard: each is stored once, also of arrays that name their layers."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import zarr
from tests.support.stores import Noted, got, put
from tests.support.stores import buffer as value
from zarr.storage import MemoryStore

import zarrstack
from zarrstack import Log, PerArray, Sharding, WriteBack, stack
from zarrstack.core.errors import UsageError

ENTRY = {"name": "sharding", "configuration": {"chunks_per_shard": [4]}}
ARRAY = {"shape": (16,), "chunks": (1,), "dtype": "i4"}


def kept(below, chunks=4, *layers, memory_bytes=10**6):
    return stack(
        below, WriteBack(memory_bytes=memory_bytes), *layers, Sharding(chunks_per_shard=[chunks], path="a")
    )


@pytest.fixture
def objects():
    return {}


@pytest.fixture
def below(objects):
    return Noted(MemoryStore(objects))


# -- when a shard is stored ----------------------------------------------------------------------


@pytest.mark.parametrize("between", [[], [Log()]], ids=["directly", "a layer between"])
def test_an_array_written_row_by_row_stores_each_shard_once_without_reading(below, between):
    data = np.arange(24 * 24, dtype="i4").reshape(24, 24)
    between = [type(each)() for each in between]
    store = stack(below, WriteBack(), *between, Sharding(chunks_per_shard=[4, 4], path="a"))
    array = zarr.create_array(store, name="a", shape=(24, 24), chunks=(2, 2), dtype="i4")
    below.changes.clear()
    below.whole.clear()
    array[:] = data
    assert len(below.sets) == 9
    assert below.whole == []
    assert store.figures().waiting == 0
    assert sorted(below.sets) == sorted({f"a/c/{i}/{j}" for i in range(3) for j in range(3)})
    assert (array[:] == data).all()


def test_a_shard_all_of_whose_chunks_are_removed_is_removed_without_reading(below, objects):
    store = kept(below)
    asyncio.run(store._set_many((f"a/c/{number}", value(b"x")) for number in range(4)))
    for number in range(4):
        asyncio.run(store.delete(f"a/c/{number}"))
    assert objects == {}
    assert below.whole == []


def test_shards_that_were_stored_early_for_lack_of_memory_are_counted():
    data = np.arange(24 * 24, dtype="i4").reshape(24, 24)
    for budget, early in ((20_000, True), (10**6, False)):
        store = stack(
            MemoryStore(), WriteBack(memory_bytes=budget), Sharding(chunks_per_shard=[4, 4], path="a")
        )
        array = zarr.create_array(
            store, name="a", shape=(24, 24), chunks=(2, 2), dtype="i4", compressors=None
        )
        array[:] = data
        assert (array[:] == data).all()
        assert store.figures().waiting_bytes <= budget
        assert (store.figures().evictions > 0) is early


@pytest.mark.parametrize("folder", ["a/c", "a", ""])
def test_removing_the_array_drops_what_waits(below, objects, folder):
    store = kept(below)
    for key in ("a/c/0", "a/c/4"):
        put(store, key, b"x")
    asyncio.run(store.delete_dir(folder))
    store.flush_sync()
    assert objects == {}
    assert got(store, "a/c/0") is None


def test_a_smaller_shape_removes_what_waits_outside_of_it(objects):
    store = kept(MemoryStore(objects))
    array = zarr.create_array(store, name="a", shape=(12,), chunks=(1,), dtype="i4", fill_value=-1)
    array[:6] = 7
    array.resize(5)
    array.resize(12)
    assert array[:].tolist() == [7] * 5 + [-1] * 7
    store.flush_sync()
    plain = Sharding(MemoryStore(objects), chunks_per_shard=[4], path="a")
    assert zarr.open_array(plain, path="a", mode="r")[:].tolist() == [7] * 5 + [-1] * 7


def test_the_set_that_makes_a_shard_whole_raises_its_error(below):
    store = kept(below, 2)
    put(store, "a/c/0", b"x")
    below.fails = "a/"
    with pytest.raises(OSError, match="No space"):
        put(store, "a/c/1", b"y")
    assert (got(store, "a/c/0"), got(store, "a/c/1")) == (b"x", b"y")
    below.fails = None
    put(store, "a/c/1", b"z")
    assert below.sets == ["a/c/0"]


# -- arrays whose metadata names their layers ---------------------------------------------------------


def waits(below, **options):
    """A stack in which changes to arrays with layers of their own wait."""
    return stack(below, WriteBack(**options), PerArray())


@pytest.mark.parametrize("entries", [[ENTRY], []], ids=["sharding", "no layers"])
def test_chunks_wait_above_the_layers_of_an_array(below, objects, entries):
    array = zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=entries)
    array[0] = 1
    assert "a/c/0" in objects
    below.changes.clear()
    store = waits(below)
    array = zarrstack.open_array(store, path="a")
    assert array.store is store
    array[1] = 2
    array[4] = 3
    assert below.sets == []
    assert array[:6].tolist() == [1, 2, 0, 0, 3, 0]
    assert zarr.open_array(store.with_read_only(True), path="a", mode="r")[1] == 2
    store.close()
    assert below.sets == (["a/c/0", "a/c/1"] if entries else ["a/c/1", "a/c/4"])
    assert zarrstack.open_array(below, path="a")[:6].tolist() == [1, 2, 0, 0, 3, 0]


def test_an_array_is_the_same_by_its_path_and_by_that_of_its_group(tmp_path):
    zarrstack.create_array(tmp_path / "x", name="g/a", **ARRAY, storage_transformers=[ENTRY])
    one, other = waits(tmp_path / "x" / "g" / "a"), waits(tmp_path / "x")
    zarrstack.open_array(one)[1] = 5
    assert one.figures().waiting == 1
    assert zarrstack.open_array(other, path="g/a")[1] == 5


def test_the_arrays_of_a_group_share_the_budget(below):
    for name in ("a", "b"):
        zarrstack.create_array(below, name=name, **ARRAY, storage_transformers=[ENTRY])
    store = waits(below, memory_bytes="1MB")
    group = zarrstack.open_group(store)
    below.changes.clear()
    for name in ("a", "b"):
        group[name][1] = 7
    group["a"].attrs["unit"] = "m"
    assert store.figures().waiting == 3
    assert store.figures().memory_bytes == 1_000_000
    assert below.sets == []
    assert [group[name][1] for name in ("a", "b")] == [7, 7]
    store.close()
    assert sorted(below.sets[:2]) == ["a/c/0", "b/c/0"]
    assert below.sets[2:] == ["a/zarr.json"]
    assert zarrstack.open_array(below, path="a").attrs["unit"] == "m"


def test_an_array_that_replaces_another_has_none_of_its_waiting_chunks(below):
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    with waits(below) as store:
        zarrstack.open_group(store)["a"][1] = 1
        new = zarrstack.create_array(store, name="a", **ARRAY, storage_transformers=[ENTRY], overwrite=True)
        assert new[1] == 0
    assert zarrstack.open_array(below, path="a")[1] == 0


def test_a_change_that_a_layer_of_the_array_refuses_is_an_error_when_it_is_made(below):
    zarrstack.create_array(below, name="a", **ARRAY, storage_transformers=[ENTRY])
    with waits(below) as store:
        array = zarrstack.open_array(store, path="a")
        document = got(store, "a/zarr.json").replace(b'"separator": "/"', b'"separator": "."')
        with pytest.raises(UsageError, match="cannot follow this change"):
            put(store, "a/zarr.json", document)
        array[0] = 5
    assert zarrstack.open_array(below, path="a")[0] == 5

"""`zarrstack.decoded.DecodedChunks`: chunks are decoded once, and never served after a change."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stores import Hours
from zarr.buffer import cpu
from zarr.codecs import BytesCodec, Crc32cCodec, TransposeCodec, ZstdCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import zarrstack
from zarrstack import Cache, Log, PerArray, Retry, Sharding, WriteBack, stack
from zarrstack.core.errors import UsageError
from zarrstack.decoded import DecodedChunks

DATA = np.arange(48, dtype="i4").reshape(8, 6)


@contextmanager
def decoded():
    with zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"}):
        yield


@pytest.fixture
def decodes(monkeypatch):
    """The number of chunks that were decoded."""
    counted: list[int] = []
    real = BatchedCodecPipeline.decode_batch

    async def decode_batch(self: Any, chunks: Any) -> Any:
        chunks = list(chunks)
        counted.extend(1 for data, _ in chunks if data is not None)
        return await real(self, chunks)

    monkeypatch.setattr(BatchedCodecPipeline, "decode_batch", decode_batch)
    return counted


def written(store, data=DATA, chunks=(4, 3), **options):
    array = zarr.create_array(store, name="a", shape=data.shape, chunks=chunks, dtype=data.dtype, **options)
    array[...] = data
    return array


def opened(store, mode="r+"):
    with decoded():
        return zarr.open_array(store, path="a", mode=mode)


# -- what is kept -----------------------------------------------------------------------------------


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize(
    "options",
    [
        {"compressors": ZstdCodec()},
        {"compressors": None},
        {"filters": TransposeCodec(order=(1, 0)), "serializer": BytesCodec(endian="big")},
        {"compressors": [ZstdCodec(), Crc32cCodec()]},
        {"zarr_format": 2},
        {"zarr_format": 2, "order": "F", "filters": None, "compressors": None},
    ],
    ids=["zstd", "bytes", "transposed", "checksum", "v2", "v2 in F order"],
)
@pytest.mark.parametrize("dtype", ["i4", ">f8", "bool", "U3", "M8[s]"])
def test_a_chunk_is_decoded_once(options, dtype, decodes):
    if dtype == "bool":
        options = {**options, "fill_value": False}
    data = DATA.astype(dtype)
    below = MemoryStore()
    try:
        written(below, data, **options)
    except (ValueError, TypeError, NotImplementedError) as error:
        pytest.skip(f"zarr does not write this: {error}")
    array = opened(Cache(below))
    for _ in range(2):
        np.testing.assert_array_equal(array[...], data)
        np.testing.assert_array_equal(array[1:7, 5], data[1:7, 5])
        np.testing.assert_array_equal(array.oindex[[0, 7], [1, 4]], data[np.ix_([0, 7], [1, 4])])
        np.testing.assert_array_equal(array.vindex[[0, 7], [1, 4]], data[[0, 7], [1, 4]])
    assert len(decodes) == 4


def test_the_budget_of_the_memory_tier_holds(decodes):
    below = MemoryStore()
    written(below, np.arange(64 * 64).reshape(64, 64), (16, 16))
    cache = Cache(below, memory_bytes=10_000)
    array = opened(cache)
    for _ in range(2):
        array[...]
        assert cache.figures().memory_bytes <= 10_000
    assert 16 < len(decodes) <= 32
    assert cache.figures().evictions > 0


def test_missing_chunks_are_fill_values_and_take_no_room():
    cache = Cache(MemoryStore())
    array = zarr.create_array(cache, name="a", shape=(10_000,), chunks=(1000,), dtype="f8", fill_value=7)
    array[3] = 1
    array = opened(cache)
    for _ in range(2):
        assert array[:100].tolist() == [7] * 3 + [1] + [7] * 96
        assert (array[1000:] == 7).all()
    assert cache.figures().memory_bytes < 8000 + 13 * 700


def test_what_was_read_belongs_to_the_reader():
    below = MemoryStore()
    given_data = DATA.copy()
    written(below, given_data, DATA.shape, compressors=None)
    array = opened(Cache(below))
    read = array[...]
    read[...] = -1
    given_data[...] = -2  # zarr's MemoryStore may hold views of it
    np.testing.assert_array_equal(array[...], DATA)


# -- what is read as without it ---------------------------------------------------------------------


def test_texts_of_any_length_are_read(decodes):
    cache = Cache(MemoryStore())
    array = zarr.create_array(cache, name="a", shape=(4,), chunks=(2,), dtype="str")
    array[...] = np.array(["a", "bb", "", "long" * 50], dtype=object)
    array = opened(cache)
    for _ in range(2):
        assert list(array[...]) == ["a", "bb", "", "long" * 50]
    assert len(decodes) == 4


SELECTIONS = {
    "all": lambda a: a[...],
    "a number": lambda a: a[5, 7],
    "a row": lambda a: a[9],
    "across shards": lambda a: a[3:11, 2:14],
    "steps": lambda a: a[1:12:5, 3::2],
    "backwards": lambda a: a.oindex[slice(1, 9, 3), [7, 2]],
    "lists": lambda a: a.oindex[[0, 8], [1, 11]],
    "points": lambda a: a.vindex[[0, 8], [1, 11]],
    "a mask": lambda a: a.get_mask_selection(np.arange(192).reshape(12, 16) % 7 == 0),
    "blocks": lambda a: a.blocks[1, 0],
    "nothing": lambda a: a[4:4],
}


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("missing", [False, True], ids=["all shards", "a missing shard"])
def test_inner_chunks_of_shards_are_what_zarr_reads(selection, missing):
    data = np.arange(192, dtype="i4").reshape(12, 16)
    below = MemoryStore()
    written(below, data, (2, 4), shards=(6, 8))
    if missing:
        asyncio.run(below.delete("a/c/0/1"))
    array, plain = opened(Cache(below)), zarr.open_array(below, path="a", mode="r")
    for _ in range(2):
        np.testing.assert_array_equal(selection(array), selection(plain))


def test_an_inner_chunk_of_a_shard_is_requested_and_decoded_once(decodes):
    data = np.arange(192, dtype="i4").reshape(12, 16)
    below = MemoryStore()
    written(below, data, (2, 4), shards=(6, 8))
    log = Log()
    array = opened(stack(below, Cache(), log))
    array[0, 0], array[3:5, 5:7]
    before, requests = len(decodes), log.figures().operations["get"].count
    for _ in range(3):
        np.testing.assert_array_equal(array[:2, :4], data[:2, :4])
        assert array[4, 6] == data[4, 6]
        np.testing.assert_array_equal(array[2:6, 4:8], data[2:6, 4:8])
    assert len(decodes) == before
    assert log.figures().operations["get"].count == requests
    np.testing.assert_array_equal(array[0, :], data[0])
    assert len(decodes) > before


def test_a_shard_that_is_read_whole_takes_one_request(decodes):
    below = MemoryStore()
    written(below, np.arange(192, dtype="i4").reshape(12, 16), (2, 4), shards=(12, 16))
    log = Log()
    array = opened(stack(below, Cache(), log))
    log.reset()
    for _ in range(2):
        array[...]
    assert log.figures().operations["get"].count == 1
    count = len(decodes)
    array[...]
    assert len(decodes) == count


@pytest.mark.parametrize("layers", [(), (Sharding(chunks_per_shard=[2, 2]),)], ids=["plain", "sharding"])
def test_open_array_keeps_decoded_chunks(layers, decodes, tmp_path):
    place = tmp_path / "a.zarr"
    array = zarrstack.create_array(
        place, storage_transformers=layers, shape=(8, 6), chunks=(4, 3), dtype="i4"
    )
    array[...] = DATA
    array = zarrstack.open_array(place, decoded="1MB")
    np.testing.assert_array_equal(array[...], DATA)
    count = len(decodes)
    np.testing.assert_array_equal(array[...], DATA)
    assert len(decodes) == count == 4
    array[0, 0] = 99
    assert array[0, 0] == 99
    with stack(place, WriteBack(), PerArray()) as store:
        array = zarrstack.open_array(store, decoded="1MB")
        array[0, 1] = 98
        assert array[0, 1] == 98
    assert zarrstack.open_array(place, mode="r")[0, :2].tolist() == [99, 98]
    with pytest.raises(UsageError, match="memory_bytes"):
        zarrstack.open_array(place, decoded="much")


def test_without_a_cache_and_below_a_layer_that_changes_keys_it_is_zarrs_pipeline(decodes):
    class Other(WrapperStore):
        pass

    for top in (
        lambda store: store,
        lambda store: Other(Cache(store)),
        lambda store: stack(store, Sharding(chunks_per_shard=[2, 2], path="a"), Cache()),
    ):
        store = top(MemoryStore())
        written(store)
        array = opened(store)
        for _ in range(2):
            np.testing.assert_array_equal(array[...], DATA)
    assert len(decodes) == 3 * 2 * 4


@pytest.mark.parametrize("above", [(Retry, Log), (PerArray,)], ids=["log and retry", "per array"])
def test_layers_that_keep_keys_and_bytes_may_be_above_the_cache(above, decodes):
    below = MemoryStore()
    written(below)
    array = opened(stack(below, *(each() for each in above), Cache()))
    for _ in range(2):
        np.testing.assert_array_equal(array[...], DATA)
    assert len(decodes) == 4


# -- changes ----------------------------------------------------------------------------------------


CHANGES = {
    "this array": lambda array, cache: array.__setitem__((0, 0), -5),
    "another array": lambda array, cache: zarr.open_array(cache, path="a").__setitem__((0, 0), -5),
    "the store": lambda array, cache: copied_chunk(cache, "a/c/1/1", "a/c/0/0"),
    "a removal": lambda array, cache: asyncio.run(cache.delete("a/c/0/0")),
    "a removal of all": lambda array, cache: asyncio.run(cache.delete_dir("a/c")),
    "behind its back": lambda array, cache: (
        copied_chunk(cache._store, "a/c/1/1", "a/c/0/0"),
        cache.invalidate("a"),
    ),
}


def copied_chunk(store, source, target):
    async def body():
        value = await store.get(source, cpu.buffer_prototype)
        await store.set(target, value)

    asyncio.run(body())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("disk", [False, True], ids=["memory", "folder"])
def test_a_change_is_seen_at_once(change, disk, tmp_path):
    below = MemoryStore()
    written(below)
    cache = Cache(below, **({"disk": tmp_path / "tier", "source": "x"} if disk else {}))
    array = opened(cache)
    np.testing.assert_array_equal(array[...], DATA)
    change(array, cache)
    expected = zarr.open_array(below, path="a", mode="r")[...]
    assert not np.array_equal(expected, DATA)
    np.testing.assert_array_equal(array[...], expected)


def test_an_array_with_other_codecs_in_the_same_place_is_not_confused():
    below = MemoryStore()
    written(below, compressors=None)
    cache = Cache(below)
    old = opened(cache)
    np.testing.assert_array_equal(old[...], DATA)
    document = asyncio.run(cache.get("a/zarr.json", cpu.buffer_prototype)).to_bytes()
    asyncio.run(below.set("a/zarr.json", cpu.Buffer.from_bytes(document.replace(b"little", b"big"))))
    cache.invalidate("a/zarr.json")
    np.testing.assert_array_equal(opened(cache)[...], DATA.byteswap())
    np.testing.assert_array_equal(old[...], DATA)


def test_a_chunk_is_no_younger_than_its_bytes():
    clock, below = Hours(), MemoryStore()
    written(below)
    cache = Cache(below, ttl=100, clock=clock)
    asyncio.run(cache.get("a/c/0/0", cpu.buffer_prototype))
    array = opened(cache)
    copied_chunk(below, "a/c/1/1", "a/c/0/0")
    clock.seconds += 99
    assert array[0, 0] == DATA[0, 0]
    clock.seconds += 2
    assert array[0, 0] == DATA[4, 3]


def test_a_write_during_the_decoding_is_not_lost(monkeypatch):
    below = MemoryStore()
    written(below)
    cache = Cache(below)
    array = opened(cache)
    real, changed = DecodedChunks.decode, []

    async def decode(self, chunks):
        found = await real(self, chunks)
        if not changed:
            changed.append(1)
            await cache.set("a/c/0/0", await below.get("a/c/1/1", cpu.buffer_prototype))
        return found

    monkeypatch.setattr(DecodedChunks, "decode", decode)
    assert array[0, 0] == DATA[0, 0]  # as it was when the read began
    assert array[0, 0] == DATA[4, 3]


def _write_elsewhere(place: str, folder: str) -> None:
    cache = Cache(LocalStore(place), disk=folder)
    zarr.open_array(cache, path="a")[0, 0] = -5
    cache.close()


def test_a_process_that_shares_the_folder_changes_a_chunk(tmp_path):
    below = LocalStore(tmp_path / "store")
    written(below)
    cache = Cache(below, disk=tmp_path / "tier")
    array = opened(cache)
    for _ in range(2):
        np.testing.assert_array_equal(array[...], DATA)
    other = multiprocessing.get_context("spawn").Process(
        target=_write_elsewhere, args=(str(tmp_path / "store"), str(tmp_path / "tier"))
    )
    other.start()
    other.join()
    assert other.exitcode == 0
    assert array[0, 0] == -5


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "read", "other", "delete", "clear", "resize"]),
        st.integers(0, 9),
        st.integers(1, 10),
        st.integers(-9, 9),
    ),
    max_size=12,
)


@given(
    steps=STEPS,
    budget=st.sampled_from([1000, 2000, 10**6]),
    size=st.sampled_from([1, 3, 4]),
    per_shard=st.sampled_from([None, 1, 2]),
)
def test_whatever_changes_an_array_reads_as_without_a_cache(steps, budget, size, per_shard):
    below = MemoryStore()
    cache = Cache(below, memory_bytes=budget)
    with decoded():
        shards = None if per_shard is None else (size * per_shard,)
        array = zarr.create_array(
            cache, name="a", shape=(10,), chunks=(size,), shards=shards, dtype="i2", fill_value=1
        )
    other = zarr.open_array(cache, path="a")
    for step, start, length, value in steps:
        part = slice(start, start + length)
        if step == "write":
            array[part] = value
        elif step == "other":
            other[part] = value
        elif step == "delete":
            asyncio.run(cache.delete(f"a/c/{start}"))
        elif step == "clear":
            cache.clear_cache()
        elif step == "resize":
            array.resize((length,))
            other = zarr.open_array(cache, path="a")
        plain = zarr.open_array(below, path="a", mode="r")
        np.testing.assert_array_equal(array[part], plain[part])


def test_the_array_is_pickled():
    below = MemoryStore()
    written(below)
    array = opened(Cache(below))
    array[...]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], DATA)

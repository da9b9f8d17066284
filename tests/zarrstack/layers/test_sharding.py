"""`Sharding`: chunk keys above, shards below."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import check, examples, fewer, sequences
from tests.support.stores import PROTOTYPE, Gate, InAFolder, Noted, got
from tests.support.stores import buffer as value
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import WriteBack, stack
from zarrstack.base.byte_ranges import cut
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import ChunkError, MetadataError, UsageError
from zarrstack.core.shard_index import MISSING, IndexFormat, ShardIndex
from zarrstack.layers.sharding import stored_shard
from zarrstack.layers.sharding.layer import Sharding
from zarrstack.system.shared_locks import SharedLock
from zarrstack.testing import LayerTests

RATIFIED = IndexFormat().to_json()
LAYERS = {
    "the array at the root": {"chunks_per_shard": [2, 3]},
    "one axis": {"chunks_per_shard": [4], "path": "a"},
    "no axes": {"chunks_per_shard": [], "path": "a"},
    "a group on the way": {"chunks_per_shard": [2, 2], "path": "c/0"},
    "ratified index": {"chunks_per_shard": [2, 2], "path": "a", **RATIFIED},
    "index at the start": {
        "chunks_per_shard": [2, 2],
        "path": "a",
        "index_location": "start",
        "index_codecs": RATIFIED["index_codecs"],
    },
    "big-endian index at the start": {
        "chunks_per_shard": [2],
        "index_location": "start",
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
    },
    "dots": {
        "chunks_per_shard": [2, 2],
        "path": "a",
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
    },
    "v2": {"chunks_per_shard": [2, 2], "path": "a", "chunk_key_encoding": "v2"},
    "v2 in folders": {
        "chunks_per_shard": [2, 2],
        "path": "a",
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
    },
    "v2 in folders at the root": {
        "chunks_per_shard": [2, 1],
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
    },
}

indexes = st.integers(0, 5)


def keys(layer: Sharding) -> st.SearchStrategy[str]:
    """Chunk keys of the layer's array, and keys that look like them and are none."""
    names = layer._names
    chunks = st.tuples(*[indexes] * names.ndim).map(names.key)
    words = st.sampled_from(["c", "0", "1", "c0", "00", "a", "data", "root", "zarr.json", "0.0", "c.1", "x"])
    others = st.lists(words, min_size=1, max_size=5).map("/".join)
    near = st.builds(lambda key, more: key + more, chunks, st.sampled_from(["/0", ".0", "x", "/zarr.json"]))
    inside = others.map(lambda key: names.folder + key)
    return chunks | chunks | chunks | inside | others | near


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
@examples(30)
@given(data=st.data())
@pytest.mark.slow(one_in=5)
def test_any_operations_leave_what_a_dictionary_would_hold(options, data) -> None:
    below: dict = {}
    layer = Sharding(MemoryStore(below), **options)
    model = check(layer, data.draw(sequences(keys(layer))))
    chunks = {key: layer._names.coordinates(key) for key in model}
    # A shard whose last chunk went is gone.
    shards = {
        layer._names.key(layer._form.locate(chunk)[0]) for chunk in chunks.values() if chunk is not None
    }
    assert set(below) == shards | {key for key, chunk in chunks.items() if chunk is None}


class TestKeysInsideAndOutside(LayerTests):
    examples = fewer(10)

    def layers(self):
        return [Sharding(chunks_per_shard=[2], path="a/c"), Sharding(chunks_per_shard=[2, 3], path="a")]


@pytest.mark.slow
class TestTheStoreItselfIsTheArray(LayerTests):
    """zarr's tests write c/0 and c/0/0: here the first are chunks and the others are none."""

    examples = steps = 5

    def layers(self):
        return [Sharding(chunks_per_shard=[4], **RATIFIED)]


@pytest.mark.slow
class TestOverFiles(InAFolder, LayerTests):
    examples = steps = 5

    def layers(self):
        return [Sharding(chunks_per_shard=[2, 2], path="a", index_location="start")]


async def listed(keys) -> list[str]:
    return sorted([key async for key in keys])


def test_a_chunk_far_away_goes_to_its_shard_whatever_int64_holds() -> None:
    below: dict = {}
    far = 10**18 + 1
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2])
    check(layer, [("set", f"c/{far}", b"1"), ("list",)])
    assert list(below) == [f"c/{far // 2}"]


def test_a_ratified_shard_is_that_of_zarr_python() -> None:
    below: dict = {}
    data = np.arange(64, dtype="i4").reshape(8, 8)
    options = {"shape": (8, 8), "dtype": "i4", "compressors": None}
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2, 2], **RATIFIED)
    zarr.create_array(layer, chunks=(2, 2), **options)[...] = data
    inner = zarr.create_array(MemoryStore(), chunks=(2, 2), shards=(4, 4), **options)
    inner[...] = data
    document = below["zarr.json"]
    below["zarr.json"] = inner.store._store_dict["zarr.json"]
    assert (zarr.open_array(MemoryStore(below), mode="r")[...] == data).all()
    below = {**inner.store._store_dict, "zarr.json": document}
    assert (zarr.open_array(Sharding(MemoryStore(below), **layer.options), mode="r")[...] == data).all()


# -- what is asked of the store below ---------------------------------------------------------------


class Counting(WrapperStore[Store]):
    """Notes what it is asked for; reads take a turn of the event loop, so that others get theirs."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked: list[tuple] = []

    async def get(self, key, prototype, byte_range=None):
        self.asked.append(("get", key, byte_range))
        found = await self._store.get(key, prototype, byte_range)
        await asyncio.sleep(0)
        return found

    async def set(self, key, value):
        self.asked.append(("set", key))
        await asyncio.sleep(0)
        await self._store.set(key, value)

    async def delete(self, key):
        self.asked.append(("delete", key))
        await self._store.delete(key)


async def test_chunks_written_at_the_same_time_are_one_rewrite_of_their_shard() -> None:
    below = Counting(MemoryStore())
    layer = Sharding(below, chunks_per_shard=[8])
    await asyncio.gather(*(layer.set(f"c/{i}", value(bytes([i]))) for i in range(16)))
    # The whole shard is new: nothing old is read.
    assert below.asked == [("set", "c/0"), ("set", "c/1")]
    below.asked.clear()
    await asyncio.gather(*(layer.set(f"c/{i}", value(b"new")) for i in range(3)))
    assert below.asked == [("get", "c/0", None), ("set", "c/0")]
    below.asked.clear()
    await asyncio.gather(*(layer.delete(f"c/{i}") for i in range(8)))
    assert below.asked == [("delete", "c/0")]


async def test_a_read_is_two_ranged_reads() -> None:
    below = Counting(MemoryStore())
    layer = Sharding(below, chunks_per_shard=[4])
    await layer._set_many((f"c/{i}", value(bytes([i]) * 100)) for i in range(4))
    below.asked.clear()
    assert (await layer.get("c/1", PROTOTYPE, RangeByteRequest(10, 12))).to_bytes() == b"\1\1"
    assert len(below.asked) == 2


async def test_a_name_that_leads_to_empty_shards_only_is_not_listed() -> None:
    empty = value(ShardIndex.empty((2, 2)).to_bytes(IndexFormat.DRAFT))
    below = {"a/c/0/0": empty, "a/c/3/1": empty}
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2, 2], path="a")
    assert await listed(layer.list()) == []
    assert await listed(layer.list_dir("")) == []
    assert await layer.is_empty("")
    await layer.set("a/c/7/3", value(b"x"))
    assert await listed(layer.list_dir("a/c")) == ["7"]
    assert await listed(layer.list_dir("a/c/7")) == ["3"]
    assert await listed(layer.list_dir("a")) == ["c"]


# -- one writer per shard ---------------------------------------------------------------------------


@pytest.mark.parametrize("above", [(), (WriteBack,)], ids=["alone", "below write-back"])
def test_layers_over_the_same_place_lock_each_other_out_whatever_their_thread(above, tmp_path) -> None:
    def write(first: int) -> None:
        below = Counting(LocalStore(tmp_path))
        layer = stack(below, *(each() for each in above), Sharding(chunks_per_shard=[64]))

        async def run() -> None:
            for i in range(first, 64, 4):
                await layer.set(f"c/{i}", value(bytes([i])))

        asyncio.run(run())
        layer.flush_sync()

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    layer = Sharding(LocalStore(tmp_path), chunks_per_shard=[64])
    assert [got(layer, f"c/{i}") for i in range(64)] == [bytes([i]) for i in range(64)]


async def test_a_reader_never_meets_the_index_of_one_shard_with_the_chunks_of_the_next() -> None:
    layer = Sharding(Counting(MemoryStore()), chunks_per_shard=[4])

    async def write() -> None:
        for n in range(1, 40):
            await layer.set(f"c/{n % 3}", value(b"x" * n))
            await layer.delete(f"c/{(n + 1) % 3}")

    async def read() -> None:
        for _ in range(80):
            assert (await layer.get("c/3", PROTOTYPE)).to_bytes() == b"stays"

    await layer.set("c/3", value(b"stays"))
    await asyncio.gather(write(), read(), read())


places = st.integers(-15, 15)
PARTS = st.one_of(
    st.builds(RangeByteRequest, places, places),
    st.builds(OffsetByteRequest, places),
    st.builds(SuffixByteRequest, places),
)


@given(part=PARTS, first=st.binary(max_size=9), second=st.binary(max_size=9))
def test_no_range_of_a_chunk_reaches_into_its_neighbours(part, first, second) -> None:
    """Negative starts did: a chunk's bytes are those of a slice in Python, whatever is asked for."""
    layer = Sharding(MemoryStore(), chunks_per_shard=[2])

    async def run() -> bytes:
        await layer._set_many([("c/0", value(first)), ("c/1", value(second))])
        return (await layer.get("c/1", PROTOTYPE, part)).to_bytes()

    assert asyncio.run(run()) == cut(value(second), part).to_bytes()


async def test_who_waits_in_an_event_loop_that_ends_does_not_hold_up_the_others() -> None:
    lock = SharedLock()

    async def held() -> None:
        async with lock.writing():
            pass

    async with lock.reading():
        waiting = held()
        waiting.send(None)
        waiting.close()  # as if its loop ran no more: nobody cancels it
    await asyncio.wait_for(held(), 10)


async def test_who_is_cancelled_leaves_the_shard_to_the_next() -> None:
    layer = Sharding(Counting(MemoryStore()), chunks_per_shard=[4])
    await layer.set("c/0", value(b"0"))
    for turns in range(12):
        tasks = [asyncio.ensure_future(layer.set(f"c/{i}", value(bytes([turns])))) for i in (1, 2, 3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[1:] == [None, None]
        assert (await layer.get("c/2", PROTOTYPE)).to_bytes() == bytes([turns])
    assert (await layer.get("c/0", PROTOTYPE)).to_bytes() == b"0"
    assert layer._writers._waiting == {}


async def test_who_waited_with_one_whose_event_loop_ends_writes_the_shard_itself() -> None:
    """The end of a loop cancels all of its tasks, also the one that is writing for several."""
    below = Noted(MemoryStore())
    below.gate = Gate()
    layer = Sharding(below, chunks_per_shard=[4])
    tasks = [asyncio.ensure_future(layer.set(f"c/{i}", value(bytes([i])))) for i in (1, 2)]
    await below.gate.reached.wait()
    (writing,) = asyncio.all_tasks() - {*tasks, asyncio.current_task()}
    writing.cancel()
    below.gate.opened.set()
    ended, written = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError) and written is None
    assert (await layer.get("c/2", PROTOTYPE)).to_bytes() == b"\2"
    assert await layer.get("c/1", PROTOTYPE) is None


async def test_a_failed_write_is_told_to_all_who_waited_for_it_and_the_next_one_works() -> None:
    class Full(Counting):
        full = True

        async def set(self, key, value):
            if self.full:
                raise OSError(28, "No space left on device")
            await super().set(key, value)

    below = Full(MemoryStore())
    layer = Sharding(below, chunks_per_shard=[4])
    tasks = [layer.set(f"c/{i}", value(b"x")) for i in range(3)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    below.full = False
    await layer.set("c/1", value(b"y"))
    assert await listed(layer.list()) == ["c/1"]


# -- bad input --------------------------------------------------------------------------------------


def index(*pairs: tuple[int, int]) -> ShardIndex:
    """An index of two chunks."""
    found = ShardIndex.empty((2,))
    for place, (offset, length) in enumerate(pairs):
        found.offsets[place], found.lengths[place] = offset, length
    return found


PAYLOAD = b"firstother"
SOUND = ((0, 5), (5, 5))
BAD = {
    "an empty object": b"",
    "shorter than the index": b"x" * 20,
    "an offset past the end": (11, 1),
    "an offset into the index": (8, 8),
    "a length past the end": (0, 100),
    "a length of almost 2^64": (1, 2**64 - 2),
    "an offset of almost 2^64": (2**64 - 2, 1),
    "a missing offset with a length": (MISSING, 5),
    "an offset with a missing length": (0, MISSING),
    "two chunks that overlap": (3, 5),
}
FORMS = {
    "draft": IndexFormat.DRAFT,
    "ratified": IndexFormat(),
    "ratified at the start": IndexFormat(location="start"),
}


def bad_shard(bad: bytes | tuple[int, int], form: IndexFormat) -> bytes:
    if isinstance(bad, bytes):
        return bad
    at_start = form.location == "start"
    ahead = form.size((2,)) if at_start else 0
    pairs = [(o + ahead if o < 2**32 else o, n) for o, n in (bad, SOUND[1])]
    encoded = index(*pairs).to_bytes(form)
    return encoded + PAYLOAD if at_start else PAYLOAD + encoded


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("proof", [2**16, 0], ids=["one read", "a read apart"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_damaged_shard_is_an_error_with_key_and_layer(bad, form, proof, monkeypatch) -> None:
    if form.location == "start" and bad == (8, 8):
        bad = (-8, 8)  # back into the index
    monkeypatch.setattr(stored_shard, "PROOF_BYTES", proof)
    below = {"a/c/1": value(bad_shard(bad, form))}
    before = below["a/c/1"].to_bytes()
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2], path="a", **form.to_json())
    for attempt in (
        layer.get("a/c/2", PROTOTYPE),
        layer.get("a/c/2", PROTOTYPE, RangeByteRequest(0, 1)),
        layer.get_partial_values(PROTOTYPE, [("a/c/2", None)]),
        layer.getsize("a/c/2"),
        layer.set("a/c/3", value(b"new")),
        layer.delete("a/c/3"),
    ):
        with pytest.raises(ChunkError) as caught:
            await attempt
        assert caught.value.problem.key == "a/c/1"
        assert caught.value.problem.node == "a"
        assert caught.value.problem.message.startswith("layer 'sharding': ")
    assert below["a/c/1"].to_bytes() == before
    # It can be replaced as a whole, and removed.
    await layer._set_many([("a/c/2", value(b"x")), ("a/c/3", value(b"y"))])
    assert (await layer.get("a/c/3", PROTOTYPE)).to_bytes() == b"y"
    below["a/c/1"] = value(before)
    await layer.delete_dir("a")
    assert below == {}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(cut=st.integers(1, 60), flip=st.none() | st.tuples(st.integers(0, 400), st.integers(1, 255)))
def test_no_cut_of_a_shard_gives_wrong_bytes(form, cut, flip) -> None:
    """A shard cut short is an error; a flipped bit of the index is one where a checksum guards it."""
    below: dict = {}
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2], **form.to_json())

    async def run() -> None:
        chunks = {"c/0": b"a" * 7, "c/1": b"b" * 20}
        await layer._set_many((key, value(data)) for key, data in chunks.items())
        whole = below["c/0"].to_bytes()
        if flip is None:
            damaged = whole[:-cut]
        elif form.checksum:
            place = flip[0] % form.size((2,)) + (
                len(whole) - form.size((2,)) if form.location == "end" else 0
            )
            damaged = whole[:place] + bytes([whole[place] ^ flip[1]]) + whole[place + 1 :]
        else:
            return
        below["c/0"] = value(damaged)
        for key, data in chunks.items():
            try:
                found = await layer.get(key, PROTOTYPE)
            except ChunkError:
                continue
            assert found is not None
            # What lies before the cut may still be read where the index is at the start.
            assert found.to_bytes() == data
            assert form.location == "start"

    asyncio.run(run())


BAD_OPTIONS = {
    "no chunks": {"chunks_per_shard": [0]},
    "a negative number": {"chunks_per_shard": [2, -1]},
    "no whole number": {"chunks_per_shard": [1.5]},
    "a truth value": {"chunks_per_shard": [True]},
    "no list": {"chunks_per_shard": "22"},
    "an index of terabytes": {"chunks_per_shard": [10**6, 10**6]},
    "more numbers than axes": {"chunks_per_shard": [2, 2], "ndim": 1},
    "a path that leaves the store": {"chunks_per_shard": [2], "path": "../a"},
    "a path with an empty part": {"chunks_per_shard": [2], "path": "a//b"},
}
BAD_METADATA = {
    "an unknown key encoding": {"chunks_per_shard": [2], "chunk_key_encoding": "n5"},
    "an unknown separator": {
        "chunks_per_shard": [2],
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "-"}},
    },
    "an unknown place of the index": {"chunks_per_shard": [2], "index_location": "middle"},
    "compressed indexes": {
        "chunks_per_shard": [2],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip"}],
    },
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_are_refused(options) -> None:
    with pytest.raises(UsageError):
        Sharding(**options)


@pytest.mark.parametrize("options", BAD_METADATA.values(), ids=BAD_METADATA)
def test_what_would_change_keys_or_bytes_is_refused(options) -> None:
    with pytest.raises((MetadataError, ValueError)):
        Sharding(**options)


# -- arrays -----------------------------------------------------------------------------------------

DOCUMENT = {
    "shape": [4, 4, 4],
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
}


def test_missing_trailing_numbers_are_1() -> None:
    layer = Sharding.for_array({"chunks_per_shard": [2]}, "a", DOCUMENT)
    assert layer.options == {"chunks_per_shard": [2, 1, 1], "path": "a"}


def test_an_array_says_its_path_and_keys_itself() -> None:
    with pytest.raises(UsageError, match="path"):
        Sharding.for_array({"chunks_per_shard": [2], "path": "b"}, "a", DOCUMENT)


def test_a_shape_may_change_but_not_the_number_of_axes() -> None:
    layer: StorageTransformer = Sharding.for_array({"chunks_per_shard": [2]}, "a", DOCUMENT)
    assert layer.check_change(DOCUMENT, {**DOCUMENT, "shape": [1, 0, 9]}) is None
    assert layer.check_change(DOCUMENT, {**DOCUMENT, "shape": [4, 4]}) is not None
    assert layer.check_change(DOCUMENT, {**DOCUMENT, "chunk_key_encoding": {"name": "v2"}}) is not None

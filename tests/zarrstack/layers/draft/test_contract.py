"""`Draft` keeps the contract of layers: zarr's tests, the conformance suite, any keys and values."""

from __future__ import annotations

import asyncio
import inspect
import json

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.support.chances import examples, fewer
from tests.support.folders import InAFolder
from tests.support.sequences import check, sequences
from zarr.codecs import BytesCodec, ShardingCodec
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import MemoryStore
from zarr.testing.stateful import ZarrHierarchyStateMachine
from zarr.testing.strategies import node_names

from zarrstack.core.draft_v3.nodes import Dialect, bad_node_name
from zarrstack.core.errors import UnsupportedError, UsageError
from zarrstack.layers.draft.keys import ChunkKeyAxes, DraftArchive
from zarrstack.layers.draft.layer import Draft
from zarrstack.testing import PIPELINES, LayerTests

PROTOTYPE = default_buffer_prototype()
DIALECTS = {"text": Dialect.TEXT, "zarr-python": Dialect.ZARR_PYTHON}
ARRAYS = {
    "a": ChunkKeyAxes(2, "/"),
    "b": ChunkKeyAxes(1, "."),
    "c": ChunkKeyAxes(1, "/"),
    "g/c0": ChunkKeyAxes(2, "."),
    "g/n": ChunkKeyAxes(0, "/"),
}
"""Arrays that keys may lie in; `g` is a group."""


class Hierarchies(ZarrHierarchyStateMachine):
    """zarr's machine, with the names of nodes that the draft allows."""

    def can_add(self, path):
        return super().can_add(path) and not any(map(bad_node_name, path.split("/")))


if "array_and_chunks" not in inspect.signature(ZarrHierarchyStateMachine.add_array).parameters:
    # From zarr 3.3 on the machine makes arrays of every kind; those that the draft has not are refused.

    class Hierarchies(Hierarchies):
        @rule(data=st.data(), name=node_names)
        def add_array(self, data, name):
            try:
                super().add_array(data, name)
            except UnsupportedError as error:
                path = error.problem.node
                self._sync(self.model.delete_dir(path))
                assert self._sync(self.store.is_empty(path))


class DraftTests(LayerTests):
    examples = fewer(10)
    # zarr-python's shards have a checksum by default, which the draft's have not; the next test has those.
    test_both_codec_pipelines_store_the_same = None

    @pytest.mark.hypothesis
    def test_zarr_hierarchy_state_machine(self):
        self._machine(Hierarchies)

    @pytest.mark.parametrize("sharded", [False, True], ids=["chunks", "shards"])
    def test_both_codec_pipelines_store_the_same_draft(self, place, sharded):
        serializer = "auto"
        if sharded:
            serializer = ShardingCodec(chunk_shape=(2, 2), index_codecs=[BytesCodec()])
        stored = {}
        for name, path in PIPELINES.items():
            below = {}
            with zarr.config.set({"codec_pipeline.path": path}):
                store = Draft(MemoryStore(below), **self.layers()[0].options)
                array = zarr.create_array(
                    store,
                    name="a",
                    shape=(10, 6),
                    chunks=(4, 4) if sharded else (2, 2),
                    dtype="i4",
                    serializer=serializer,
                    compressors=None,
                )
                array[:] = 7
                array[3:5, 1:4] = 8
                array[8:, :] = 0
                read = zarr.open_array(Draft(MemoryStore(below)), path="a", mode="r")
                assert int(read[...].sum()) == 7 * 48 + 6
            stored[name] = {key: value.to_bytes() for key, value in below.items()}
        assert all(each == stored["batched"] for each in stored.values())
        chunks = [key for key in stored["batched"] if key.startswith("data/")]
        assert len(chunks) == (4 if sharded else 12)


class TestText(DraftTests):
    def layers(self):
        return [Draft()]


class TestZarrPython(DraftTests):
    def layers(self):
        return [Draft(dialect="zarr-python")]


class TestOverFiles(InAFolder, DraftTests):
    examples = 5

    def layers(self):
        return [Draft()]


# -- any keys, over arrays of every kind ------------------------------------------------------------

indexes = st.integers(0, 11).map(str)
heads = st.sampled_from(
    ["", "a/", "b/", "c/", "c/0/", "g/", "g/c0/", "g/n/", "g/n/c/", "x/", "x/c/", "data/"]
)
tails = st.builds(
    lambda head, sep, parts: head + sep.join(parts),
    st.sampled_from(["", "c/", "c.", "c"]),
    st.sampled_from("/."),
    st.lists(indexes, max_size=3),
).filter(lambda tail: tail and not tail.endswith(("/", ".")))
words = st.sampled_from("a c 0 00 c0 c1 c0.1 0.1 c.0.1 c.0 data root meta x zarr.json foo".split())
keys = st.builds(str.__add__, heads, tails) | st.lists(words, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(300)
@given(key=keys)
def test_each_key_that_has_a_place_comes_back_from_it(dialect, key) -> None:
    archive = DraftArchive(dialect, dict(ARRAYS))
    for place in archive.places(key):
        assert archive.shown(place) == key
    assert archive.only_place(key) in {None, *archive.places(key)}
    below = archive.data + key
    shown = archive.shown(below)
    assert below in archive.places(shown)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(300)
@given(key=keys, end=st.integers(0, 12))
def test_a_listing_looks_into_every_folder_that_may_hold_the_answer(dialect, key, end) -> None:
    archive = DraftArchive(dialect, dict(ARRAYS))
    folders = archive.folders(key[:end])
    assert all(place.startswith(tuple(folders)) for place in archive.places(key))
    assert all(folder.endswith("/") for folder in folders)
    assert not any(one.startswith(other) for one in folders for other in folders if one is not other)


def documents() -> dict[str, bytes]:
    """The documents of ARRAYS, written by zarr-python."""
    store = MemoryStore()
    for path, axes in ARRAYS.items():
        zarr.create_array(
            store,
            name=path,
            shape=(3,) * axes.ndim,
            chunks=(2,) * axes.ndim,
            dtype="u1",
            compressors=None,
            chunk_key_encoding={"name": "default", "configuration": {"separator": axes.separator}},
        )
    found = {key: value.to_bytes() for key, value in store._store_dict.items()}
    return {key: value for key, value in found.items() if json.loads(value)["node_type"] == "array"}


DOCUMENTS = documents()


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(60)
@given(data=st.data())
def test_any_operations_among_arrays_leave_what_a_dictionary_would_hold(dialect, data) -> None:
    # Implicit groups would be shown beside: all groups here are explicit ones, and stay.
    below: dict = {}
    layer = Draft(MemoryStore(below), dialect=dialect)
    archive = DraftArchive(DIALECTS[dialect], dict(ARRAYS))
    outer = {**DOCUMENTS, **{f"{path}zarr.json": GROUP for path in ("", "g/")}}

    async def start() -> None:
        for key, value in outer.items():
            await layer.set(key, cpu.Buffer.from_bytes(value))

    asyncio.run(start())
    shown = {key: asyncio.run(layer.get(key, PROTOTYPE)).to_bytes() for key in outer}

    def plain(key: str) -> bool:
        """A key that has a place, with the data of just those nodes that it is a key of."""
        places = archive.places(key)
        pairs = [(f"{path}/", f"{archive.data}{path}/") for path in (*ARRAYS, "g")]
        apart = any(
            key.startswith(above) != place.startswith(below) for above, below in pairs for place in places
        )
        looks = [f"{archive.data}{path}/c" for path in ARRAYS if archive.array_of(key) != path]
        apart |= any(place.startswith(each) for each in looks for place in places)
        name = key.rpartition("/")[2]
        return name != "zarr.json" and bool(places) and not archive.homeless(key) and not apart

    free = keys.filter(plain)
    found = [("set", key, value) for key, value in shown.items()]
    sequence = data.draw(sequences(free))
    kept = [each for each in sequence if each[0] not in {"clear", "delete_dir", "getsize_prefix"}]
    model = check(layer, found + kept)
    assert set(model) == {key for place in below if (key := archive.shown(place)) is not None} | set(outer)


GROUP = b'{\n  "zarr_format": 3,\n  "node_type": "group",\n  "attributes": {}\n}\n'


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("separator", "/.")
def test_arrays_of_no_axis_and_of_one_work_under_every_pipeline(dialect, separator, pipeline) -> None:
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        store = Draft(MemoryStore(), dialect=dialect)
        encoding = {"name": "default", "configuration": {"separator": separator}}
        for ndim in (0, 1):
            options = {"shape": (3,) * ndim, "chunks": (1,) * ndim, "chunk_key_encoding": encoding}
            zarr.create_array(store, name=f"a{ndim}", dtype="i2", **options)[...] = 7
            array = zarr.open_array(Draft(store.below), path=f"a{ndim}")
            array[...] += 1
            assert (zarr.open_array(store, path=f"a{ndim}", mode="r")[...] == 8).all()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_that_would_be_lost_with_the_next_array_is_refused(dialect) -> None:
    layer = Draft(MemoryStore(), dialect=dialect)
    with pytest.raises(UsageError) as caught:
        asyncio.run(layer.set("a/c.5", cpu.Buffer.from_bytes(b"1")))
    assert caught.value.problem.key == "a/c.5"
    assert not asyncio.run(layer.exists("a/c.5"))
    array = zarr.create_array(
        layer,
        name="a",
        shape=(9,),
        chunks=(1,),
        dtype="u1",
        chunk_key_encoding={"name": "default", "configuration": {"separator": "."}},
    )
    array[5] = 1
    assert asyncio.run(layer.exists("a/c.5"))


def test_chunks_may_come_before_their_array() -> None:
    """As those do that a migration writes."""
    below: dict = {}
    layer = Draft(MemoryStore(below))
    source: dict = {}
    array = zarr.create_array(MemoryStore(source), name="a", shape=(4, 4), chunks=(2, 2), dtype="i2")
    array[...] = np.arange(16).reshape(4, 4)
    for key in sorted(source, reverse=True):
        asyncio.run(layer.set(key, source[key]))
    assert (zarr.open_array(layer, path="a", mode="r")[...] == array[...]).all()
    assert set(below) >= {"zarr.json", "meta/a.array.json", "data/a/c1/1"}

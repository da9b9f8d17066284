"""`Sharding`: chunk keys above, shards below."""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from transformers.dictionary import check, operations
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore
from zarrstack.core.shard import IndexFormat
from zarrstack.sharding import Sharding

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
    "draft": {"chunks_per_shard": [2, 2], "path": "a/c0", "chunk_key_encoding": "draft"},
    "draft at the root": {"chunks_per_shard": [3], "chunk_key_encoding": "draft"},
    "draft of May 2022": {
        "chunks_per_shard": [2],
        "path": "a",
        "chunk_key_encoding": {"name": "draft", "configuration": {"root": "data", "separator": "."}},
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
@given(data=st.data())
def test_any_operations_leave_what_a_dictionary_would_hold(options, data) -> None:
    below: dict = {}
    layer = Sharding(MemoryStore(below), **options)
    sequence = data.draw(operations(keys(layer)))

    def a_shard_that_holds_nothing_is_gone(model) -> None:
        shards = {layer._locate(c)[0] for c in map(layer._names.coordinates, model.data) if c is not None}
        others = {key for key in model.data if layer._names.coordinates(key) is None}
        assert set(below) == shards | others

    check(layer, sequence, a_shard_that_holds_nothing_is_gone)


def test_a_chunk_far_away_goes_to_its_shard_whatever_int64_holds() -> None:
    below: dict = {}
    far = 10**18 + 1
    layer = Sharding(MemoryStore(below), chunks_per_shard=[2])
    check(layer, data_of(("set", (f"c/{far}", b"1")), ("list", ())))
    assert list(below) == [f"c/{far // 2}"]


def data_of(*calls):
    from transformers.dictionary import Operation

    return [Operation(method, arguments) for method, arguments in calls]

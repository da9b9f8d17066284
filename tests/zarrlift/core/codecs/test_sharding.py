"""`sharding_indexed` as an array codec, held to zarr-python."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codecs.base import HeadAndTail
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.bits import same_bits
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.errors import ChunkError, MetadataError

VALUES = np.arange(96, dtype="i4").reshape(8, 12)
VALUES[:2, :3] = 7  # all fill: a missing inner chunk


def sharded(location="end", inner=((2, 3), "gzip")):
    store: dict = {}
    array = zarr.create_array(
        MemoryStore(store),
        shape=(8, 12),
        chunks=inner[0],
        shards={"shape": (8, 12), "index_location": location},
        dtype="i4",
        fill_value=7,
        compressors={"name": inner[1], "configuration": {}},
    )
    array[:] = VALUES
    chain = Chain.from_json(json.loads(store["zarr.json"].to_bytes())["codecs"])
    return array, store, Pipeline(chain, (8, 12), DataType("int32"), fill_value=7)


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_go_both_ways_between_here_and_zarr(location):
    # zstd: two libraries of gzip differ in length by a few bytes
    array, store, pipeline = sharded(location, ((2, 3), "zstd"))
    payload = store["c/0/0"].to_bytes()
    assert same_bits(pipeline.decode(payload), VALUES)
    mine = bytes(memoryview(pipeline.encode(VALUES)))
    assert len(mine) == len(payload)
    store["c/0/0"] = default_buffer_prototype().buffer.from_bytes(mine)
    assert np.array_equal(array[:], VALUES)


def test_a_shard_whose_chunks_are_all_missing_is_its_index():
    *_, pipeline = sharded()
    empty = np.full((8, 12), 7, "i4")
    payload = pipeline.encode(empty)
    assert len(payload) == 16 * 16 + 4
    assert same_bits(pipeline.decode(payload), empty)


def test_fill_is_compared_bit_for_bit():
    chain = Chain.from_json(
        [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [1],
                    "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
                    "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
                },
            }
        ]
    )
    values = np.array([0.0, -0.0, np.nan])
    pipeline = Pipeline(chain, (3,), DataType("float64"), fill_value=0.0)
    payload = pipeline.encode(values)
    assert len(payload) == 2 * 8 + 3 * 16
    assert same_bits(pipeline.decode(payload), values)


def test_shards_of_text_and_shards_in_shards_come_back():
    def shard(shape, codecs):
        index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        return {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": shape, "codecs": codecs, "index_codecs": index},
        }

    texts = np.array(["a", "", "", "", "ä", "bcd"], dtype=object).reshape(2, 3)
    pipeline = Pipeline(Chain.from_json([shard([1, 3], ["vlen-utf8", "zstd"])]), (2, 3), DataType("string"))
    assert pipeline.decode(pipeline.encode(texts)).tolist() == texts.tolist()

    inner = shard([2, 3], [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", "blosc"])
    pipeline = Pipeline(Chain.from_json([shard([4, 6], [inner]), "crc32c"]), (8, 12), DataType("int32"))
    assert same_bits(pipeline.decode(pipeline.encode(VALUES)), VALUES)


@given(edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_damaged_shard_is_a_chunk_error(edits):
    *_, pipeline = sharded()
    payload = pipeline.encode(VALUES)
    damaged = bytearray(payload)
    for place, mask in edits:
        damaged[place % len(damaged)] ^= mask
    for broken in (bytes(damaged), bytes(damaged[: edits[0][0] % len(damaged)])):
        with contextlib.suppress(ChunkError):
            assert pipeline.decode(broken).shape == (8, 12)


def test_a_shard_can_only_be_judged_whole():
    *_, pipeline = sharded()
    payload = pipeline.encode(VALUES)
    assert pipeline.check(HeadAndTail.of(payload)) is False
    pipeline.check_whole(payload)
    with pytest.raises(ChunkError):
        pipeline.check(HeadAndTail.of(payload[:100]))
    with pytest.raises(ChunkError):
        pipeline.check_whole(bytes(300) + bytes(payload)[300:])


@pytest.mark.parametrize("shape", [[3, 3], [2], [0, 3], "2", [True, 3], [2.0, 3]], ids=str)
def test_an_inner_shape_that_does_not_divide_the_shard_is_refused(shape):
    codec = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": shape, "codecs": ["bytes"], "index_codecs": ["bytes"]},
    }
    with pytest.raises(MetadataError):
        Pipeline(Chain.from_json([codec]), (8, 12), DataType("int32"))

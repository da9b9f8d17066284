"""Inner chunks of shards, read and packed here, held to zarr-python."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import v3_array
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarrlift.archive.shard_reader import ShardReader, chunk_reader
from zarrlift.core.codecs.base import HeadAndTail
from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.grid.frames import Shards
from zarrlift.formats.describe import describe
from zarrlift.formats.zarr_v3 import V3ArrayDescriber
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrlift.transfer.relink import payload_check
from zarrstack.core.errors import ChunkError

VALUES = np.arange(96, dtype="i4").reshape(8, 12)
VALUES[:2, :3] = 7  # all fill: a missing inner chunk
TEXTS = np.array(["a", "", "", "", "ä", "bcd"], dtype=object).reshape(2, 3)


def sharded(values=VALUES, inner=(2, 3), location="end", **options):
    """A shard of zarr-python in a dictionary, its array, and our reader of it."""
    store: dict = {}
    array = zarr.create_array(
        MemoryStore(store),
        shape=values.shape,
        chunks=inner,
        shards={"shape": values.shape, "index_location": location},
        **{"dtype": "i4", "fill_value": 7, "compressors": {"name": "zstd", "configuration": {}}} | options,
    )
    array[:] = values
    storage = StoreStorage(MemoryStore(store))
    (node,) = describe(storage, format="zarr3").nodes
    reader = chunk_reader(storage, "", node.layout)
    assert isinstance(reader, ShardReader)
    return array, store, reader


def read(reader: ShardReader, chunks) -> np.ndarray:
    """The values of inner chunks, in an array of the fill value."""
    layout = reader.layout
    result = np.full(layout.shape, layout.fill_value, layout.data_type.numpy)
    for chunk in chunks:
        result[layout.grid.region(layout.grid.coordinates(chunk.number))] = reader.decode(chunk)
    return result


def packed(reader: ShardReader, payload: bytes) -> bytes:
    frame, grid = reader.layout.frame, reader.layout.grid
    assert isinstance(frame, Shards)
    chunks = reader.split(0, payload)
    return frame.packed((frame.inner(grid.coordinates(chunk.number)), chunk.payload) for chunk in chunks)


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_go_both_ways_between_here_and_zarr(location: str) -> None:
    array, store, reader = sharded(location=location)
    payload = store["c/0/0"].to_bytes()
    assert same_bits(read(reader, reader.encoded(0)), VALUES)
    assert same_bits(read(reader, reader.split(0, payload)), VALUES)
    mine = packed(reader, payload)
    assert len(mine) == len(payload)
    store["c/0/0"] = default_buffer_prototype().buffer.from_bytes(mine)
    assert np.array_equal(array[:], VALUES)


def test_a_shard_without_chunks_is_its_index() -> None:
    *_, reader = sharded()
    assert isinstance(reader.layout.frame, Shards)
    empty = reader.layout.frame.packed([])
    assert len(empty) == 16 * 16 + 4
    assert list(reader.split(0, empty)) == []


def test_shards_of_text_and_of_transposed_chunks_come_back() -> None:
    *_, reader = sharded(TEXTS, (1, 3), dtype=str, fill_value="")
    assert read(reader, reader.encoded(0)).tolist() == TEXTS.tolist()
    *_, reader = sharded(filters={"name": "transpose", "configuration": {"order": [1, 0]}})
    assert same_bits(read(reader, reader.encoded(0)), VALUES)


@given(edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_damaged_shard_is_a_chunk_error(edits: list[tuple[int, int]]) -> None:
    _, store, reader = sharded()
    payload = store["c/0/0"].to_bytes()
    damaged = bytearray(payload)
    for place, mask in edits:
        damaged[place % len(damaged)] ^= mask
    for broken in (bytes(damaged), bytes(damaged[: edits[0][0] % len(damaged)])):
        with contextlib.suppress(ChunkError):
            assert read(reader, reader.split(0, broken)).shape == (8, 12)


def test_a_shard_can_only_be_judged_whole() -> None:
    _, store, reader = sharded()
    payload = store["c/0/0"].to_bytes()
    check = payload_check(reader)
    assert check.check(HeadAndTail.of(payload)) is False
    assert check.check_whole(payload) == payload
    with pytest.raises(ChunkError):
        check.check(HeadAndTail.of(payload[:100]))
    with pytest.raises(ChunkError):
        check.check_whole(bytes(300) + payload[300:])


@pytest.mark.parametrize("shape", [[3, 3], [2], [0, 3], "2", [True, 3], [2.5, 3]], ids=str)
def test_an_inner_shape_that_does_not_divide_the_shard_is_refused(shape: object) -> None:
    inner = {"chunk_shape": shape, "codecs": ["bytes"], "index_codecs": ["bytes"]}
    document = v3_array([8, 12], codecs=[{"name": "sharding_indexed", "configuration": inner}])
    assert V3ArrayDescriber().describe(document).layout is None

"""Shards in the place of N5 blocks are recognised by their index, and blocks are not taken for them."""

from __future__ import annotations

import random
import struct

import pytest
from tests.support.fixture_objects import FixtureObjects
from tests.support.fixtures_index import archive, archives

from zarrlift.core.n5.unstated_shards import chunks_in_shard
from zarrstack.core.shard_index import IndexFormat, ShardIndex

SHARDS = archive("n5/java-4.0.2/shards")
FORMS = [
    IndexFormat(endian=endian, checksum=checksum, location=location)
    for endian in ("little", "big")
    for checksum in (True, False)
    for location in ("start", "end")
]
BLOCK = struct.pack(">HHII", 0, 2, 4, 2) + bytes(range(16))
PLACES = {"axes1": 3, "axes3": 4, "nested": 2, "one_chunk": 1}
"""Chunks along all axes of the shards of some datasets; four in all others."""


def shard(chunks: list[bytes | None], form: IndexFormat) -> bytes:
    """A shard as Java's n5 makes it: the chunks in order, and the index."""
    index = ShardIndex.empty((len(chunks),))
    at = form.size((len(chunks),)) if form.location == "start" else 0
    for number, chunk in enumerate(chunks):
        if chunk is not None:
            index.offsets[number], index.lengths[number] = at, len(chunk)
            at += len(chunk)
    body = b"".join(chunk for chunk in chunks if chunk is not None)
    return index.to_bytes(form) + body if form.location == "start" else body + index.to_bytes(form)


def places(data: bytes) -> int | None:
    """What is recognised in an object."""
    return chunks_in_shard(lambda start, length: data[start : start + length], len(data))


def objects_of(name: str) -> dict[str, bytes]:
    """All blocks below a dataset of a fixture, by key."""
    storage = FixtureObjects(SHARDS.path)
    keys = [f"{name}/{x}" for x in range(9)]
    keys += [f"{key}/{y}" for key in keys for y in range(9)]
    keys += [f"{key}/{z}" for key in keys for z in range(9)]
    found = {key: storage.get(key) for key in keys}
    return {key: data for key, data in found.items() if data is not None}


@pytest.mark.parametrize("array", SHARDS.arrays.values(), ids=str)
def test_every_shard_that_java_wrote_is_recognised_and_no_block_is(array) -> None:
    objects = objects_of(array.path)
    assert len(objects) == array.stored_chunks
    expected = None if array.path == "plain" else PLACES.get(array.path, 4)
    assert {places(data) for data in objects.values()} == {expected}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("missing", [set(), {0}, {5}, {0, 5}, {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}], ids=str)
def test_every_form_of_an_index_is_recognised(form: IndexFormat, missing: set[int]) -> None:
    chunks = [None if number in missing else BLOCK[: 12 + number] for number in range(6)]
    assert places(shard(chunks, form)) == 6


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_index_of_many_missing_chunks_is_recognised(form: IndexFormat) -> None:
    assert places(shard([None] * 5000 + [BLOCK] + [None] * 5000, form)) == 10001


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_damaged_index_is_not_an_index(form: IndexFormat) -> None:
    whole = shard([BLOCK, None, BLOCK], form)
    assert places(whole[:-1]) is None
    assert places(whole[1:]) is None
    assert places(whole + b"\0") is None
    at = form.place((3,), len(whole)).start
    assert places(whole[:at] + b"\x01\x02" + whole[at + 2 :]) is None


def test_blocks_of_every_writer_and_random_bytes_are_not_shards() -> None:
    rng = random.Random(0)
    for size in (0, 1, 15, 16, 17, 20, 31, 32, 33, 36, 64, 1000):
        assert places(rng.randbytes(size)) is None
        assert places(bytes(size)) is None
        assert places(b"\xff" * size) is None
    for one in archives("n5"):
        if one == SHARDS:
            continue
        storage = FixtureObjects(one.path)
        for array in one.arrays.values():
            data = storage.get("/".join(filter(None, (array.path, *["0"] * len(array.shape)))))
            assert data is None or places(data) is None, array

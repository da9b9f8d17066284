"""The layer of "Encrypt by blocks" reads parts as they were written, and nothing that was changed since."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stores import PROTOTYPE, buffer, read
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.storage import LocalStore, MemoryStore

from zarrstack import Log, Sharding, stack
from zarrstack.base.byte_ranges import slice_of
from zarrstack.errors import ChunkError
from zarrstack.testing import LayerTests

FILE = Path(__file__).parents[3] / "docs" / "transformers" / "example" / "zarrstack_encrypt_blocks.py"
spec = importlib.util.spec_from_file_location("zarrstack_encrypt_blocks", FILE)
blocks = sys.modules["zarrstack_encrypt_blocks"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(blocks)
HEADER, TAG = blocks.HEADER.size, blocks.TAG


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("ZARR_KEY", 32 * "5a")


@pytest.fixture
def short(monkeypatch):
    """Blocks of 16 bytes, so that short values have several."""
    monkeypatch.setattr(blocks, "BLOCK", 16)


class TestEncryptBlocks(LayerTests):
    def layers(self):
        return [blocks.EncryptBlocks()]


@pytest.mark.usefixtures("short")
class TestShortBlocks(LayerTests):
    examples = 5

    def layers(self):
        return [blocks.EncryptBlocks()]


def get(store, name, part=None):
    value = asyncio.run(store.get(name, PROTOTYPE, part))
    return None if value is None else value.to_bytes()


parts = st.one_of(
    st.builds(
        lambda first, more: RangeByteRequest(first, first + more), st.integers(0, 90), st.integers(0, 90)
    ),
    st.builds(OffsetByteRequest, st.integers(0, 90)),
    st.builds(SuffixByteRequest, st.integers(0, 90)),
)


@pytest.mark.parametrize("kind", [MemoryStore, LocalStore])
def test_any_part_of_any_value(kind, short, tmp_path):
    store = blocks.EncryptBlocks(kind(tmp_path) if kind is LocalStore else kind())

    @given(st.binary(max_size=80), st.lists(parts, max_size=5))
    def check(value, asked):
        asyncio.run(store.set("a", buffer(value)))
        found = asyncio.run(store.get_partial_values(PROTOTYPE, [("a", part) for part in asked]))
        assert [each.to_bytes() for each in found] == [value[slice_of(part)] for part in asked]
        assert asyncio.run(store.getsize("a")) == len(value)
        assert get(store, "a") == value

    check()


VALUE = bytes(range(100))
SIZE = 16 + TAG
TAMPERED = {
    "the format": lambda data: b"x" + data[1:],
    "the id of the key": lambda data: data[:8] + b"x" + data[9:],
    "the salt": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "the length": lambda data: data[:48] + bytes([data[48] - 1]) + data[49:],
    "a byte of a block": lambda data: (
        data[: HEADER + 70] + bytes([data[HEADER + 70] ^ 1]) + data[HEADER + 71 :]
    ),
    "a byte of a tag": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "blocks swapped": lambda data: (
        data[:HEADER]
        + data[HEADER + SIZE : HEADER + 2 * SIZE]
        + data[HEADER : HEADER + SIZE]
        + data[HEADER + 2 * SIZE :]
    ),
    "the last block cut off": lambda data: data[: HEADER + 6 * SIZE],
    "a byte cut off": lambda data: data[:-1],
    "a block appended": lambda data: data + data[HEADER : HEADER + SIZE],
    "a byte appended": lambda data: data + b"x",
    "nothing but the header": lambda data: data[:HEADER],
    "nothing": lambda data: b"",
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_changed_is_an_error_or_not_read(what):
    below = MemoryStore()
    store = blocks.EncryptBlocks(below)
    asyncio.run(store.set("a", buffer(VALUE)))
    asyncio.run(below.set("a", buffer(TAMPERED[what](get(below, "a")))))
    with pytest.raises(ChunkError):
        get(store, "a")
    refused = 0
    for part in [RangeByteRequest(n, n + 10) for n in range(0, 100, 10)] + [SuffixByteRequest(20)]:
        try:
            assert get(store, "a", part) == VALUE[slice_of(part)]
        except ChunkError:
            refused += 1
    assert refused > 0 or "appended" in what


@pytest.mark.usefixtures("short")
def test_blocks_of_others_are_refused(monkeypatch):
    below = MemoryStore()
    store = blocks.EncryptBlocks(below)
    asyncio.run(store.set("a", buffer(VALUE)))
    first = get(below, "a")
    asyncio.run(store.set("a", buffer(VALUE)))
    second = get(below, "a")
    blocks_of = [{data[at : at + SIZE] for at in range(HEADER, len(data), SIZE)} for data in (first, second)]
    assert not blocks_of[0] & blocks_of[1] and len(blocks_of[0]) == 7  # each rewrite has other keys
    mixed = second[: HEADER + SIZE] + first[HEADER + SIZE :]
    for name, data in (("b", first), ("a", mixed)):  # another object, another version
        asyncio.run(below.set(name, buffer(data)))
        with pytest.raises(ChunkError, match="changed since it was written"):
            get(store, name)
    monkeypatch.setenv("ZARR_KEY", 32 * "5b")
    with pytest.raises(ChunkError, match="another key"):
        get(blocks.EncryptBlocks(below), "b", RangeByteRequest(0, 5))


@pytest.mark.parametrize("layers", [list, lambda: [Sharding(chunks_per_shard=[2, 2], path="a")]])
def test_chunks_of_shards_are_read_in_parts(layers):
    log = Log()
    store = stack(MemoryStore(), *layers(), blocks.EncryptBlocks(), log)
    shards = None if layers is not list else (512, 512)
    array = zarr.create_array(
        store, name="a", shape=(1024, 1024), chunks=(256, 256), shards=shards, dtype="u1", compressors=None
    )
    values = np.random.default_rng(1).integers(0, 256, array.shape, dtype="u1")
    array[:] = values
    array[10:300, 700:1000] = values[10:300, 700:1000] = 7
    np.testing.assert_array_equal(array[:], values)
    log.reset()
    assert array[600, 600] == values[600, 600]
    assert 65_536 < log.figures().operations["get"].bytes < 3 * 65_536


async def rewrite(store):
    """Rewrite between the two requests of a read."""
    await store.set("a", buffer(VALUE))
    both = store.below.get_partial_values

    async def slow(prototype, ranges):
        header, part = list(ranges)
        [before] = await both(prototype, [header])
        await store.set("a", buffer(VALUE[::-1]))
        return [before, *(await both(prototype, [part]))]

    store.below.get_partial_values = slow
    return (await store.get("a", PROTOTYPE, RangeByteRequest(40, 50))).to_bytes()


def test_a_read_during_a_rewrite(short):
    assert asyncio.run(rewrite(blocks.EncryptBlocks(MemoryStore()))) == VALUE[::-1][40:50]


def test_a_missing_key(short):
    assert asyncio.run(read(blocks.EncryptBlocks(MemoryStore()), "a")) is None
    assert get(blocks.EncryptBlocks(MemoryStore()), "a", SuffixByteRequest(4)) is None

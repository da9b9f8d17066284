"""Shard indexes: read as the specification says, and nothing in them is believed unchecked."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import of_three

from zarrstack.core.crc32c import crc32c
from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError
from zarrstack.core.shard_index import MISSING, IndexFormat, ShardIndex

FORMS = [
    IndexFormat(endian=endian, checksum=with_checksum, location=location)
    for endian in ("little", "big")
    for with_checksum in (True, False)
    for location in ("end", "start")
]
forms = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: json.dumps(form.to_json()["index_codecs"])[:40]
)


def index_of(*pairs, shape=None):
    """An index from (offset, length) pairs; None is a missing chunk."""
    index = ShardIndex.empty((len(pairs),) if shape is None else shape)
    for place, pair in enumerate(pairs):
        if pair is not None:
            index.offsets.ravel()[place], index.lengths.ravel()[place] = pair
    return index


@pytest.mark.parametrize(
    "form",
    [bytes, memoryview, lambda data: memoryview(bytearray(data)), lambda data: np.frombuffer(data, "u1")],
)
def test_crc32c_is_the_castagnoli_checksum(form):
    # RFC 3720, appendix B.4
    assert crc32c(form(bytes(32))) == 0x8A9136AA
    assert crc32c(form(b"\xff" * 32)) == 0x62A8AB43
    assert crc32c(form(b"")) == 0
    assert crc32c(form(b"56789"), crc32c(form(b"1234"))) == 0xE3069283


def test_the_layout_of_an_index():
    form = IndexFormat()
    data = index_of((16, 3), None).to_bytes(form)
    assert data[:32].hex() == "10000000000000000300000000000000" + "ff" * 16
    assert int.from_bytes(data[32:], "little") == crc32c(data[:32])
    assert len(data) == form.size((2,)) == 36


@forms
def test_json_survives_reading_and_writing(form):
    assert IndexFormat.from_json(json.loads(json.dumps(form.to_json()))) == form


@forms
@given(data=st.data())
def test_bytes_survive_reading_and_writing(form, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    count = int(np.prod(shape))
    numbers = st.integers(0, MISSING - 1)
    pairs = data.draw(st.lists(st.none() | st.tuples(numbers, numbers), min_size=count, max_size=count))
    index = index_of(*pairs, shape=shape)
    raw = index.to_bytes(form)
    assert len(raw) == form.size(shape)
    again = ShardIndex.from_bytes(raw, shape, form)
    assert again.offsets.tolist() == index.offsets.tolist()
    assert again.lengths.tolist() == index.lengths.tolist()
    assert again.offsets.shape == again.lengths.shape == shape
    assert again.to_bytes(form) == raw


def test_the_draft_is_the_ratified_index_without_a_checksum():
    assert IndexFormat(endian="little", checksum=False, location="end") == IndexFormat.DRAFT
    index = index_of((0, 5), None)
    assert index.to_bytes(IndexFormat())[:-4] == index.to_bytes(IndexFormat.DRAFT)


def test_a_chunk_is_a_slice_of_its_shard():
    index = index_of((10, 5), None)
    assert index.get((0,)) == slice(10, 15)
    assert index.get((1,)) is None
    assert index.present.tolist() == [True, False]


def test_where_the_index_lies():
    assert IndexFormat().place((2, 3), 1000) == slice(900, 1000)
    assert IndexFormat(location="start").place((2, 3), 1000) == slice(0, 100)
    with pytest.raises(ChunkError):
        IndexFormat().place((2, 3), 99)


@pytest.mark.parametrize("keep", [0, 35, 37])
def test_an_index_of_the_wrong_length_is_refused(keep):
    data = (index_of((0, 1), None).to_bytes(IndexFormat()) + b"\0")[:keep]
    with pytest.raises(ChunkError) as caught:
        ShardIndex.from_bytes(data, (2,), IndexFormat())
    assert caught.value.problem.expected == "36 bytes"


@given(st.integers(0, 36 * 8 - 1))
def test_any_flipped_bit_is_noticed(bit):
    data = bytearray(index_of((0, 1), None).to_bytes(IndexFormat()))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ChunkError, match="checksum"):
        ShardIndex.from_bytes(bytes(data), (2,), IndexFormat())


@pytest.mark.parametrize("pair", [(MISSING, 3), (3, MISSING)])
def test_a_half_missing_chunk_is_refused(pair):
    with pytest.raises(ChunkError, match=r"chunk \(1,\)"):
        ShardIndex.from_bytes(index_of(None, pair).to_bytes(IndexFormat()), (2,), IndexFormat())


FINE = {
    "out of order": ((50, 10), (0, 50)),
    "gap": ((0, 10), (40, 20)),
    "empty chunk inside another": ((0, 60), (30, 0)),
    "two empty chunks in one place": ((60, 0), (60, 0)),
    "none": (None, None),
}


@pytest.mark.parametrize("pairs", FINE.values(), ids=FINE)
def test_what_an_index_may_say(pairs):
    index_of(*pairs).check(60 + 36, IndexFormat())
    moved = [pair and (pair[0] + 36, pair[1]) for pair in pairs]
    index_of(*moved).check(60 + 36, IndexFormat(location="start"))


WRONG = {
    "into the index": ((0, 61), "outside"),
    "begins in the index": ((61, 0), "outside"),
    "beyond the object": ((2**40, 1), "outside"),
    "enormous length": ((0, 2**63), "outside"),
    "sum wraps around": ((10, 2**64 - 5), "outside"),
    "overlap": ((9, 2), "overlap"),
    "same place": ((10, 10), "overlap"),
}


@pytest.mark.parametrize(("pair", "word"), WRONG.values(), ids=WRONG)
def test_what_an_index_may_not_say(pair, word):
    with pytest.raises(ChunkError, match=word) as caught:
        index_of((10, 10), pair).check(60 + 36, IndexFormat())
    assert caught.value.problem.found


def test_an_index_in_front_is_no_place_for_chunks():
    with pytest.raises(ChunkError, match="outside"):
        index_of((0, 10), None).check(60 + 36, IndexFormat(location="start"))


def test_the_overlap_names_both_chunks():
    with pytest.raises(ChunkError, match=r"\(1, 0\) and \(0, 1\)"):
        index_of(None, (5, 9), (0, 6), None, shape=(2, 2)).check(200, IndexFormat())


def test_an_overlap_behind_other_chunks_is_found_and_told():
    with pytest.raises(ChunkError, match=r"\(0, 1\) and \(1, 0\)") as caught:
        index_of((0, 10), (20, 10), (25, 6), (40, 3), shape=(2, 2)).check(200, IndexFormat())
    assert caught.value.problem.found == "bytes 20 to 30 and from 25"


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        ({}, MetadataError),
        ({"index_codecs": []}, MetadataError),
        ({"index_codecs": "bytes"}, MetadataError),
        ({"index_codecs": [{"name": "bytes", "configuration": {"endian": None}}]}, MetadataError),
        ({"index_codecs": [BYTES], "index_location": "middle"}, MetadataError),
        ({"index_codecs": [BYTES, "crc32c", "crc32c"]}, UnsupportedError),
        ({"index_codecs": [BYTES, {"name": "crc32c", "configuration": {"order": "big"}}]}, UnsupportedError),
        ({"index_codecs": [BYTES, {"name": "gzip", "configuration": {"level": 1}}]}, UnsupportedError),
    ],
    ids=str,
)
def test_other_index_codecs_are_refused(configuration, error):
    with pytest.raises(error):
        IndexFormat.from_json(configuration)


@pytest.mark.parametrize("codec", ["bytes", {"name": "bytes"}], ids=str)
def test_an_index_without_a_byte_order_is_little_endian(codec):
    form = IndexFormat.from_json({"index_codecs": [codec, "crc32c"]})
    assert form == IndexFormat(endian="little", checksum=True)
    assert form.to_json()["index_codecs"][0] == BYTES


INNER = 2 * 3 * 2  # bytes of an inner chunk of uint16


@forms
class TestReaders:
    """A shard of (4, 6) uint16 with inner chunks (2, 3), one of them missing, in odd places."""

    values = np.arange(24, dtype="<u2").reshape(4, 6)

    def sharded(self, form):
        inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
        configuration = {"chunk_shape": [2, 3], "codecs": inner} | form.to_json()
        return of_three(
            "uint16",
            7,
            shape=[4, 6],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
            codecs=[{"name": "sharding_indexed", "configuration": configuration}],
        )

    def shard(self, form):
        first = form.size((2, 2)) if form.location == "start" else 0
        index = ShardIndex.empty((2, 2))
        body = bytearray()
        for place in ((1, 1), (0, 0), (0, 1)):
            body += b"gap"
            index.offsets[place], index.lengths[place] = first + len(body), INNER
            rows, columns = (slice(n * at, n * at + n) for n, at in zip((2, 3), place, strict=True))
            body += self.values[rows, columns].tobytes()
        encoded = index.to_bytes(form)
        data = encoded + bytes(body) if form.location == "start" else bytes(body) + encoded
        index.check(len(data), form)
        return data

    @property
    def expected(self):
        result = self.values.copy()
        result[2:, :3] = 7
        return result

    def test_zarr_python_finds_every_chunk(self, form):
        from zarr import open_array
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        content = {"zarr.json": self.sharded(form), "c/0/0": self.shard(form)}
        of_bytes = default_buffer_prototype().buffer.from_bytes
        store = MemoryStore({key: of_bytes(value) for key, value in content.items()})
        assert np.array_equal(open_array(store, mode="r")[...], self.expected)

    def test_tensorstore_finds_every_chunk(self, form):
        import tensorstore

        context = tensorstore.Context()
        kvstore = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
        kvstore.write("zarr.json", self.sharded(form)).result()
        kvstore.write("c/0/0", self.shard(form)).result()
        spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}}
        opened = tensorstore.open(spec, context=context, open=True).result()
        assert np.array_equal(opened.read().result(), self.expected)

    def test_what_zarr_python_wrote_is_found(self, form):
        from zarr import open_array
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        store = MemoryStore({"zarr.json": default_buffer_prototype().buffer.from_bytes(self.sharded(form))})
        open_array(store, mode="r+")[...] = self.expected
        data = store._store_dict["c/0/0"].to_bytes()
        index = ShardIndex.from_bytes(data[form.place((2, 2), len(data))], (2, 2), form)
        index.check(len(data), form)
        assert index.present.tolist() == [[True, True], [False, True]]
        assert data[index.get((1, 1))] == self.values[2:, 3:].tobytes()

"""N5: block headers, keys, and what `attributes.json` says in v3 terms."""

from __future__ import annotations

import contextlib
import json
import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.fixtures_index import FixtureObjects, archive, archives

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.grid.chunk_keys import N5Keys, reverse_axes
from zarrlift.core.n5.block_pipeline import BlockPipeline
from zarrlift.core.n5.blocks import (
    DEFAULT,
    OBJECT,
    VARLENGTH,
    BlockHeader,
    has_shard_index,
    head_bytes,
    pad_block,
    split,
)
from zarrlift.core.n5.dataset import STANDARD, describe_dataset, is_dataset, user_attributes, version_problem
from zarrstack.core.errors import ChunkError, MetadataError, ZarrstackError
from zarrstack.core.shard_index import IndexFormat, ShardIndex

AXES = ("reversed", "kept")


def block(mode: int, ndim: int, *numbers: int, payload: bytes = b"") -> bytes:
    """A block whose header says what it is told to say."""
    return struct.pack(f">HH{len(numbers)}I", mode, ndim, *numbers) + payload


# ----- block headers


def test_the_specifications_own_example():
    """A uint16 block of 1 x 2 x 3 with the values 1 to 6, uncompressed (README, point 9)."""
    data = bytes.fromhex("0000 0003 00000001 00000002 00000003 0001 0002 0003 0004 0005 0006")
    header, payload = split(data, (4, 4, 4))
    assert header == BlockHeader(shape=(1, 2, 3), elements=6)
    assert np.frombuffer(payload, ">u2").tolist() == [1, 2, 3, 4, 5, 6]


HEADERS = st.integers(0, 5).flatmap(
    lambda ndim: st.tuples(
        st.sampled_from((DEFAULT, VARLENGTH, OBJECT)),
        st.tuples(*[st.integers(1, 2**31 - 1)] * ndim),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=9),
    )
)


@given(HEADERS)
def test_a_header_reads_as_it_was_written(parts):
    mode, shape, elements, rest = parts
    header = BlockHeader.of(shape)
    if mode != DEFAULT:
        header = BlockHeader(mode=mode, shape=shape if mode == VARLENGTH else (), elements=elements)
    data = header.to_bytes()
    assert len(data) == header.size <= head_bytes(len(shape)) + 2
    # What follows does not matter, nor does the kind of buffer.
    for buffer in (data + rest, memoryview(data + rest), np.frombuffer(data + rest, np.uint8)):
        assert BlockHeader.parse(buffer, shape) == header


BAD_HEADERS = {
    "nothing": (b"", "at least 4 bytes"),
    "half a mode": (b"\0", "at least 4 bytes"),
    "lengths cut short": (block(0, 2, 4), "at least 12 bytes"),
    "a varlength count cut short": (block(1, 2, 4, 3), "at least 16 bytes"),
    "an object's length cut short": (b"\0\2\0\0", "at least 6 bytes"),
    "an unknown mode": (block(3, 2, 4, 3), "0 (default)"),
    "mode 65535": (block(65535, 2, 4, 3), "0 (default)"),
    "fewer axes": (block(0, 1, 4), "2"),
    "more axes": (block(0, 3, 4, 3, 1), "2"),
    "65535 axes": (block(0, 65535, 4, 3), "2"),
    "no axes": (block(0, 0), "2"),
    "one element too many": (block(0, 2, 5, 3), "at most 4 x 3"),
    "2^31-1 each": (block(0, 2, 2**31 - 1, 2**31 - 1), "at most 4 x 3"),
    "negative to Java": (block(0, 2, 2**32 - 1, 3), "at most 4 x 3"),
    "lengths turned round": (block(0, 2, 3, 4), "at most 4 x 3"),
    "varlength beyond the block": (block(1, 2, 4, 4, 1), "at most 4 x 3"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_a_header_that_lies_is_refused_before_it_is_believed(case):
    data, expected = BAD_HEADERS[case]
    with pytest.raises(ChunkError) as caught:
        BlockHeader.parse(data, (4, 3))
    assert expected in caught.value.problem.expected
    assert caught.value.problem.found is not None


@given(st.binary(max_size=40), st.lists(st.integers(1, 2**31 - 1), max_size=4).map(tuple))
def test_nothing_but_a_chunk_error_comes_of_any_bytes(data, block_size):
    try:
        header, payload = split(data, block_size)
    except ChunkError:
        return
    assert header.to_bytes() + bytes(payload) == data
    assert all(0 <= n <= most for n, most in zip(header.shape, block_size, strict=True))


def test_a_block_of_variable_length_is_refused_by_what_it_is():
    with pytest.raises(ChunkError, match="label multisets") as caught:
        split(block(1, 2, 4, 3, 500), (4, 3))
    assert caught.value.problem.found == "500 values for 4 x 3 elements"


def test_a_block_that_only_says_it_varies_is_read():
    header, payload = split(block(1, 2, 4, 3, 12, payload=b"x"), (4, 3))
    assert (header.mode, header.shape, bytes(payload)) == (VARLENGTH, (4, 3), b"x")


def test_an_object_block_is_refused_by_what_it_is():
    with pytest.raises(ChunkError, match="mode 2"):
        split(struct.pack(">HI", 2, 10), (4, 3))


def test_a_block_without_elements_is_zeros_if_nothing_follows():
    """As Java 3.5.1 and 4.0.2 write it when asked to."""
    dataset, _ = described()
    header, payload = split(block(0, 2, 0, 0), dataset.block_size)
    pipeline = Pipeline(dataset.chain("kept"), reverse_axes(header.shape, "kept"), dataset.data_type)
    assert pad_block(pipeline.decode(payload), (2, 2)).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ChunkError):
        pipeline.decode(b"\0\0")


def test_a_block_with_elements_needs_a_payload_and_one_without_has_none():
    dataset, _ = described()
    pipeline = BlockPipeline(dataset.chain("kept"), (2, 2), dataset.data_type, "kept")
    assert pipeline.decode_part((0, 2), b"").shape == (0, 2)
    for shape, payload in (((1, 2), b""), ((2, 2), b""), ((0, 2), b"\0\0")):
        with pytest.raises(ChunkError):
            pipeline.decode_part(shape, payload)


def test_what_a_shorter_block_leaves_open_is_zero():
    assert pad_block(np.array([[1, 2]]), (2, 3)).tolist() == [[1, 2, 0], [0, 0, 0]]
    whole = np.ones((2, 3))
    assert pad_block(whole, (2, 3)) is whole


# ----- keys

COORDINATES = st.lists(st.integers(0, 10**6), max_size=4).map(tuple)


@given(COORDINATES, st.sampled_from(AXES))
def test_a_key_names_its_chunk_and_no_other(coordinates, axes):
    keys = N5Keys(axes)
    key = keys.key(coordinates)
    assert keys.coordinates(key, len(coordinates)) == coordinates
    assert keys.coordinates(key + "/0", len(coordinates)) is None
    assert keys.keys(np.array([coordinates, coordinates], dtype=np.int64).reshape(2, -1)) == [key, key]
    assert N5Keys.from_json(json.loads(json.dumps(keys.to_json()))) == keys


def test_keys_are_in_n5s_order_whatever_is_shown():
    assert N5Keys("reversed").key((1, 2, 3)) == "3/2/1"
    assert N5Keys("kept").key((1, 2, 3)) == "1/2/3"
    # zarr-python 2.18 and tensorstore 0.1.64 both call the block of a 0-d dataset `0`.
    assert N5Keys("reversed").key(()) == N5Keys("kept").key(()) == "0"


@pytest.mark.parametrize("key", ["", "0", "1.2", "c/1/2", "01/2", "1/-2", "1/2/", "/1/2", "1/\uff12"])
def test_other_names_are_no_keys(key):
    assert N5Keys().coordinates(key, 2) is None


@pytest.mark.parametrize(
    "data",
    [
        *(None, "n5", {}, {"name": "n5"}),
        {"name": "v2", "configuration": {"axes": "kept"}},
        {"name": "n5", "configuration": {"axes": []}},
    ],
    ids=str,
)
def test_keys_of_a_saved_plan_are_checked(data):
    with pytest.raises(MetadataError):
        N5Keys.from_json(data)


# ----- datasets

PLAIN = {
    "dimensions": [7, 5],
    "blockSize": [4, 3],
    "dataType": "uint16",
    "compression": {"type": "raw"},
}


def described(**changes):
    """The dataset that a plain one becomes with changes, and what is said of it."""
    return describe_dataset({**PLAIN, **changes})


def refusal(**changes):
    """Why a dataset is refused."""
    dataset, problems = described(**changes)
    assert dataset is None
    return " ".join(str(problem) for problem in problems if problem.severity == "refusal")


def test_axes_reversed_are_c_order_and_axes_kept_a_transpose():
    dataset, problems = described()
    assert problems == ()
    assert (dataset.shape("reversed"), dataset.chunk_shape("reversed")) == ((5, 7), (3, 4))
    assert (dataset.shape("kept"), dataset.chunk_shape("kept")) == ((7, 5), (4, 3))
    big = CodecSpec("bytes", {"endian": "big"})
    assert dataset.chain("reversed").codecs == (big,)
    assert dataset.chain("kept").codecs == (CodecSpec("transpose", {"order": [1, 0]}), big)
    assert dataset.fill_value == 0
    assert dataset.keys("kept") == N5Keys("kept")


def time(name, unit, scale):
    """A v3 data type of times."""
    return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}


@pytest.mark.parametrize(
    ("name", "v3", "zero"),
    [
        ("bool", "bool", False),
        ("float16", "float16", 0.0),
        ("complex64", "complex64", [0.0, 0.0]),
        ("datetime64[ns]", time("numpy.datetime64", "ns", 1), 0),
        ("timedelta64[25s]", time("numpy.timedelta64", "s", 25), 0),
    ],
    ids=str,
)
def test_data_types_beyond_the_specification_are_zarr_pythons_and_said_so(name, v3, zero):
    dataset, problems = described(dataType=name)
    assert (dataset.data_type.to_json(), dataset.fill_value) == (v3, zero)
    assert [problem.severity for problem in problems] == ["note"]


def xz(preset, kind=1):
    """numcodecs' codec for xz, and for its cousins."""
    return "numcodecs.lzma", {"format": kind, "check": -1, "preset": preset, "filters": None}


COMPRESSIONS = [  # others are in described.txt of tests/zarrlift/formats
    ("gzip without level", {"type": "gzip"}, ("gzip", {"level": 6})),
    ("zlib", {"type": "gzip", "level": 3, "useZlib": True}, ("numcodecs.zlib", {"level": 3})),
    ("bzip2", {"type": "bzip2", "blockSize": 7}, ("numcodecs.bz2", {"level": 7})),
    ("bzip2 without level", {"type": "bzip2"}, ("numcodecs.bz2", {"level": 9})),
    ("xz", {"type": "xz", "preset": 4}, xz(4)),
    ("xz without preset", {"type": "xz"}, xz(6)),
    ("Java lz4 without size", {"type": "lz4"}, ("lz4_block", {"blockSize": 65536})),
    ("zstd", {"type": "zstd", "level": 5, "nbWorkers": 2}, ("zstd", {"level": 5, "checksum": False})),
    ("zarr-python zstd", {"checksum": True, "id": "zstd", "level": 1, "type": "zstd"},
     ("zstd", {"level": 1, "checksum": True})),
    ("zarr-python blosc", {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 9},
     ("blosc", {"cname": "zstd", "clevel": 1, "shuffle": "shuffle", "typesize": 2, "blocksize": 9})),
    ("Java blosc's defaults", {"type": "blosc"},
     ("blosc", {"cname": "blosclz", "clevel": 6, "shuffle": "noshuffle", "typesize": 2, "blocksize": 0})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("compression", "codec"), [row[1:] for row in COMPRESSIONS], ids=[r[0] for r in COMPRESSIONS]
)
def test_compressions_and_the_codecs_they_are(compression, codec):
    dataset, problems = described(compression=compression)
    assert dataset.compression == (None if codec is None else CodecSpec(*codec))
    assert all(problem.severity == "note" for problem in problems)
    # Each is one that is compiled here.
    Pipeline(dataset.chain("kept"), (4, 3), dataset.data_type)


def test_automatic_shuffle_of_single_bytes_is_of_bits():
    dataset, _ = described(dataType="uint8", compression={"type": "blosc", "cname": "lz4", "shuffle": -1})
    assert dataset.compression.configuration["shuffle"] == "bitshuffle"


def test_bare_lz4_is_noted_as_z5s():
    _, problems = described(compression={"type": "lz4", "blockSize": 6})
    assert "z5" in problems[0].message


def test_members_of_a_compression_that_nobody_knows_are_told():
    dataset, problems = described(compression={"type": "gzip", "level": 1, "speed": 3})
    assert dataset.compression == CodecSpec("gzip", {"level": 1})
    assert [(p.severity, p.found) for p in problems] == [("warning", '["speed"]')]


REFUSED = {
    "40 axes": ({"dimensions": [1] * 40, "blockSize": [1] * 40}, "too many axes"),
    "a time without unit": ({"dataType": "datetime64"}, "without unit"),
    "an unknown unit": ({"dataType": "datetime64[eon]"}, "eon"),
    "an unknown compression": ({"compression": {"type": "lzo", "speed": 3}}, '{"speed":3,"type":"lzo"}'),
    "useZlib as text": ({"compression": {"type": "gzip", "useZlib": "yes"}}, "true or false"),
    "an unknown blosc compressor": ({"compression": {"type": "blosc", "cname": "lz5"}}, "lz5"),
    "a list of codecs": ({"codecs": []}, "list of codecs"),
    "label multisets": ({"isLabelMultiset": True}, "label multisets"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_described_is_refused_by_name(case):
    changes, says = REFUSED[case]
    assert says in refusal(**changes)


def test_every_problem_comes_at_once():
    text = refusal(dimensions="x", blockSize=[0], dataType="y", compression={"type": "z"})
    for word in ("dimensions", "blockSize", "dataType", "compression"):
        assert word in text


WORDS = (*sorted(STANDARD), "datetime64[0s]", "raw", "gzip", "lz4", "blosc", "xz", "lzma", "zstd", "bzip2")
KEYS = ("type", "level", "blockSize", "cname", "clevel", "shuffle", "useZlib", "acceleration", "preset", "id")
MEMBERS = (*PLAIN, "compressionType", "isLabelMultiset", "n5")


@given(st.dictionaries(st.sampled_from(MEMBERS), json_values(WORDS, keys=KEYS), max_size=4))
def test_nothing_escapes_whatever_a_document_holds(changes):
    document = {**PLAIN, **changes}
    dataset, problems = describe_dataset(document)
    assert (dataset is None) == any(problem.severity == "refusal" for problem in problems)
    assert is_dataset(document) or user_attributes(document).keys() >= document.keys() - {"n5"}
    version_problem(document)
    if dataset is not None:
        assert dataset.chain("kept").codecs
        with contextlib.suppress(ZarrstackError):
            Pipeline(dataset.chain("kept"), dataset.chunk_shape("kept"), dataset.data_type)


# ----- groups and versions


def test_a_bigdataviewer_group_with_a_data_type_is_no_dataset():
    assert not is_dataset({"dataType": "uint16", "downsamplingFactors": [[1, 1, 1]]})
    assert is_dataset(PLAIN)
    assert is_dataset({"dimensions": [1], "blockSize": [1]})


def test_the_users_attributes_are_what_neither_the_dataset_nor_the_version_is():
    mine = {"resolution": [4, 4, 40], "axes": ["x", "y"]}
    assert user_attributes({**PLAIN, "n5": "2.0.0", **mine}) == mine
    # A group's own `dataType` is the user's; so is an `n5` that is no version.
    assert user_attributes({"dataType": "uint16", "n5": {"a": 1}}) == {"dataType": "uint16", "n5": {"a": 1}}


# Shards in the place of N5 blocks are recognised by their index, and blocks are not taken for them.


SHARDS = archive("n5/java-4.0.2/shards")
FORMS = [
    IndexFormat(endian=endian, checksum=checksum, location=location)
    for endian in ("little", "big")
    for checksum in (True, False)
    for location in ("start", "end")
]
BLOCK = struct.pack(">HHII", 0, 2, 4, 2) + bytes(range(16))


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


def is_shard(data: bytes, ends: int = 1 << 20) -> bool:
    """Whether an object is recognised as a shard."""
    return has_shard_index(data[:ends], data[-ends:], len(data))


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
    assert {is_shard(data) for data in objects.values()} == {array.path != "plain"}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("missing", [set(), {0}, {5}, {0, 5}, {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}], ids=str)
def test_every_form_of_an_index_is_recognised(form: IndexFormat, missing: set[int]) -> None:
    chunks = [None if number in missing else BLOCK[: 12 + number] for number in range(6)]
    assert is_shard(shard(chunks, form))
    assert is_shard(shard(chunks, form), ends=104), "the index is all that is read"


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_damaged_index_is_not_an_index(form: IndexFormat) -> None:
    whole = shard([BLOCK, None, BLOCK], form)
    assert not is_shard(whole[:-1])
    assert not is_shard(whole[1:])
    assert not is_shard(whole + b"\0")
    at = form.place((3,), len(whole)).start + 8
    assert not is_shard(whole[:at] + b"\x01\x02" + whole[at + 2 :])


def test_blocks_of_every_writer_and_random_bytes_are_not_shards() -> None:
    rng = random.Random(0)
    for size in (0, 1, 15, 16, 17, 20, 31, 32, 33, 36, 64, 1000):
        assert not is_shard(rng.randbytes(size))
        assert not is_shard(bytes(size))
        assert not is_shard(b"\xff" * size)
    for one in archives("n5"):
        if one == SHARDS:
            continue
        storage = FixtureObjects(one.path)
        for array in one.arrays.values():
            data = storage.get("/".join(filter(None, (array.path, *["0"] * len(array.shape)))))
            assert data is None or not is_shard(data), array


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_index_of_many_missing_chunks_is_recognised(form: IndexFormat) -> None:
    assert is_shard(shard([None] * 5000 + [BLOCK] + [None] * 5000, form))

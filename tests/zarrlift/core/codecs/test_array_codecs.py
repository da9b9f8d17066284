"""Array-to-bytes codecs: what numcodecs and zarr write is read, and the other way round."""

from __future__ import annotations

import json
import struct

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fixtures_index import archive, same

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.base import HeadAndTail, InnerChunk, Options
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import compile_array_codec
from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.grid.grid import Grid
from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError

OBJECT = DataType("object")


def objects(items, shape=None) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array if shape is None else array.reshape(shape)


def compiled(name, shape, configuration=None, *, data_type=OBJECT, **options):
    return compile_array_codec(
        CodecSpec(name, configuration or {}), InnerChunk(shape, data_type), Options(**options)
    )


TEXTS = objects(["", "a", "zebra", "日本語", "🦓", "with \0 inside"], (2, 3))
BLOBS = objects([b"", b"\0", b"\xff\xfe", b"abc"], (4,))
MIXED = objects([1, 2.5, None, "x", [1, 2], {"a": [True]}, [], [[3], 4]], (2, 4))
ARRAYS = objects([np.array([1, 2, 3], "<i2"), np.array([], "<i2"), np.array([-7], "<i2")])

CASES = [
    ("vlen-utf8", {}, numcodecs.VLenUTF8(), TEXTS),
    ("vlen-bytes", {}, numcodecs.VLenBytes(), BLOBS),
    ("numcodecs.vlen-array", {"dtype": "<i2"}, numcodecs.VLenArray("<i2"), ARRAYS),
    ("numcodecs.json2", {}, numcodecs.JSON(), TEXTS),
    ("numcodecs.json2", {}, numcodecs.JSON(), MIXED),
    ("numcodecs.json2", {"encoding": "utf-16", "indent": 2}, numcodecs.JSON("utf-16", indent=2), MIXED),
    ("numcodecs.msgpack2", {}, numcodecs.MsgPack(), TEXTS),
    ("numcodecs.msgpack2", {}, numcodecs.MsgPack(), objects([1, 2.5, None, b"x", {"a": 1}])),
    ("numcodecs.msgpack2", {"raw": True}, numcodecs.MsgPack(raw=True), BLOBS),
    (
        "numcodecs.object-categorize",
        {"labels": ["a", "日本語"], "dtype": "|O", "astype": "|u1"},
        numcodecs.Categorize(["a", "日本語"], "O"),
        objects(["a", "日本語", "", "a"], (2, 2)),
    ),
]
IDS = [f"{case[0]}-{index}" for index, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "configuration", "theirs", "array"), CASES, ids=IDS)
def test_it_reads_what_numcodecs_writes_and_the_other_way_round(name, configuration, theirs, array):
    ours = compiled(name, array.shape, configuration)
    payload = numcodecs.compat.ensure_bytes(theirs.encode(array))
    assert same_bits(ours.decode(payload), array)
    assert ours.check(HeadAndTail.of(payload))

    if name.startswith("numcodecs."):
        with pytest.raises(UnsupportedError, match="is read, but not written"):
            ours.encode(array)
        return
    assert bytes(memoryview(ours.encode(array))) == payload
    assert same_bits(theirs.decode(payload).reshape(array.shape), array)


@pytest.mark.parametrize(("name", "configuration", "theirs", "array"), CASES, ids=IDS)
@given(edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_damaged_payload_gives_a_chunk_error_or_an_array_of_the_shape(
    name, configuration, theirs, array, edits
):
    damaged = bytearray(numcodecs.compat.ensure_bytes(theirs.encode(array)))
    for place, mask in edits:
        damaged[place % len(damaged)] ^= mask
    ours = compiled(name, array.shape, configuration)
    for payload in (bytes(damaged), bytes(damaged[: edits[0][0] % len(damaged)])):
        try:
            ours.check(HeadAndTail.of(payload))
            assert ours.decode(payload).shape == array.shape
        except ChunkError:
            pass


@given(st.lists(st.text(max_size=9), max_size=12))
def test_any_text_comes_back(items):
    codec = compiled("vlen-utf8", (len(items),), data_type=DataType("string"))
    try:
        payload = codec.encode(objects(items))
    except CastError:
        assert any("\ud800" <= character <= "\udfff" for text in items for character in text)
    else:
        assert codec.decode(payload).tolist() == items


@given(st.lists(st.binary(max_size=9), max_size=12))
def test_any_bytes_come_back(items):
    codec = compiled("vlen-bytes", (len(items),), data_type=DataType("bytes"))
    assert codec.decode(codec.encode(objects(items))).tolist() == items


@pytest.mark.parametrize(
    ("name", "written"), [("vlen-utf8", numcodecs.VLenUTF8()), ("vlen-bytes", numcodecs.VLenBytes())]
)
def test_missing_items_were_written_as_empty_ones_and_are_refused_today(name, written):
    nothing = objects([None, 0])
    empty = "" if name == "vlen-utf8" else b""
    codec = compiled(name, (2,))
    assert codec.decode(written.encode(nothing)).tolist() == [empty, empty]
    with pytest.raises(CastError):
        codec.encode(nothing)


@pytest.mark.parametrize("name", ["vlen-utf8", "vlen-bytes", "numcodecs.vlen-array"])
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02\0\0",
        struct.pack("<I", 3) + bytes(12),
        struct.pack("<I", 0xFFFFFFFF) + bytes(8),
        struct.pack("<III", 2, 0xFFFFFFFF, 0),
        struct.pack("<III", 2, 0, 4),
        struct.pack("<III", 2, 0, 0) + b"behind",
    ],
    ids=["empty", "short", "another-count", "absurd-count", "absurd-length", "cut-short", "trailing"],
)
def test_a_frame_that_does_not_fit_is_refused(name, payload):
    codec = compiled(name, (2,), {"dtype": "<i2"} if name.endswith("array") else {})
    with pytest.raises(ChunkError):
        codec.decode(payload)


def test_text_that_is_no_utf8_is_refused():
    with pytest.raises(ChunkError):
        compiled("vlen-utf8", (1,)).decode(struct.pack("<II", 1, 2) + b"\xff\xfe")


def test_variable_length_data_stays_within_its_limit():
    codec = compiled("vlen-bytes", (1,), object_limit=100)
    with pytest.raises(ChunkError, match="length"):
        codec.decode(struct.pack("<II", 1, 200) + bytes(200))
    with pytest.raises(ChunkError, match="too large"):
        compiled("numcodecs.json2", (1,), object_limit=10).decode(b'["xxxxxxxxxxxxxx","|O",[1]]')


def test_text_may_lie_in_an_array_of_fixed_width():
    codec = compiled("vlen-utf8", (2,), data_type=DataType("fixed_length_utf32", {"length_bytes": 12}))
    payload = numcodecs.VLenUTF8().encode(objects(["abc", "d"]))
    assert codec.decode(payload).dtype == np.dtype("=U3")
    with pytest.raises(ChunkError, match="longer"):
        codec.decode(numcodecs.VLenUTF8().encode(objects(["abcd", "d"])))


@pytest.mark.parametrize(
    "document",
    [
        [1, 2],
        {"a": 1},
        ["|O", [1]],
        ["a", "b", "|O", [1]],
        [["a"], ["b"], "|O", [1, 2]],
        [["a", "b", "c"], "|O", [1, 2]],
        ["a", "b", "|O", [-2]],
        ["a", "b", "|O", "2"],
        ["a", "b", "|O", [2.0]],
    ],
    ids=json.dumps,
)
def test_a_document_that_does_not_fit_its_shape_is_refused(document):
    with pytest.raises(ChunkError):
        compiled("numcodecs.json2", (2,)).decode(json.dumps(document).encode())


def test_a_document_nested_too_deep_is_refused():
    for name, payload in (("json2", b"[" * 100000), ("msgpack2", b"\x91" * 100000)):
        with pytest.raises(ChunkError):
            compiled(f"numcodecs.{name}", (2,)).decode(payload)


def test_items_that_are_lists_stay_lists():
    # numcodecs writes them and cannot read them back: it takes them for another axis.
    lists = objects([[1, 2], [3, 4]])
    codec = compiled("numcodecs.json2", (2,))
    assert codec.decode(numcodecs.JSON().encode(lists)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["numcodecs.json2", "numcodecs.msgpack2"])
def test_documents_of_numbers_are_read_as_the_arrays_own_type(name):
    values = np.array([[1, -2], [3, 4]], "<i2")
    theirs = numcodecs.JSON() if name.endswith("json2") else numcodecs.MsgPack()
    decoded = compiled(name, (2, 2), data_type=DataType("int16")).decode(theirs.encode(values))
    assert same_bits(decoded, values)


def test_a_pickle_is_loaded_only_where_it_is_allowed(monkeypatch):
    with pytest.raises(UnsupportedError, match="--allow-pickle"):
        compiled("numcodecs.pickle", (2, 4))
    codec = compiled("numcodecs.pickle", (4, 2), allow_pickle=True)
    # The inner chunk of an F-order chunk is transposed; a pickle keeps the array's own memory order.
    payload = numcodecs.Pickle().encode(np.asfortranarray(MIXED))
    assert same_bits(codec.decode(payload), MIXED.T)
    assert same_bits(codec.decode(numcodecs.Pickle().encode(np.ascontiguousarray(MIXED.T))), MIXED.T)
    for wrong in (b"", b"garbage", numcodecs.Pickle().encode(TEXTS), numcodecs.Pickle().encode("x")):
        with pytest.raises(ChunkError):
            codec.decode(wrong)


@pytest.mark.parametrize(
    ("name", "data_type", "array"),
    [
        ("vlen-utf8", "object", objects([b"x"])),
        ("vlen-bytes", "object", objects(["x"])),
        ("bytes", "int16", np.array([70000], "i4")),
    ],
)
def test_what_a_codec_cannot_hold_is_a_cast_error(name, data_type, array):
    with pytest.raises(CastError):
        compiled(name, array.shape, data_type=DataType(data_type)).encode(array)


@pytest.mark.parametrize(
    ("name", "configuration", "data_type"),
    [
        ("bytes", {}, DataType("string")),
        ("bytes", {"endian": "middle"}, DataType("int16")),
        ("numpy_bytes", {"dtype": "<f8"}, DataType("int16")),
        ("numpy_bytes", {}, DataType("int16")),
        ("numcodecs.vlen-array", {"dtype": "|O"}, OBJECT),
        ("numcodecs.vlen-array", {"dtype": "<i2"}, DataType("int16")),
        ("numcodecs.json2", {"separators": 3}, OBJECT),
        ("numcodecs.json2", {"surprise": 3}, OBJECT),
        ("vlen-utf8", {"surprise": 3}, OBJECT),
    ],
)
def test_a_configuration_that_makes_no_sense_is_an_error_of_the_metadata(name, configuration, data_type):
    with pytest.raises(MetadataError):
        compiled(name, (2,), configuration, data_type=data_type)


def test_an_unknown_codec_is_refused_with_its_name_and_configuration():
    with pytest.raises(UnsupportedError) as refusal:
        compiled("zfpy", (2,), {"mode": 4})
    assert refusal.value.problem.found == '{"configuration":{"mode":4},"name":"zfpy"}'


F_ORDER = [
    *(f"zarr-2.18/dtypes:F/{name}" for name in ("json2_mixed", "json2_str")),
    *(f"zarr-2.18/dtypes:F/msgpack2_{name}" for name in ("bytes", "mixed", "str")),
    *(f"zarr-{old}/old:dtypes/F/{name}" for old in ("2.2", "2.4", "2.10") for name in ("json2", "msgpack2")),
]


@pytest.mark.parametrize("name", F_ORDER)
def test_objects_in_f_order_come_back_as_zarr_2_4_to_2_18_misread_them(name):
    """What they read, not what was written, counts (see codecs/objects.py); formats refuse such arrays."""
    writer, path = name.split(":")
    array = archive(writer)[path]
    document = json.loads((array.archive.path / path / ".zarray").read_bytes())
    specs = [CodecSpec("transpose", {"order": "F"})]
    for config in filter(None, (*document["filters"], document["compressor"])):
        members = {key: value for key, value in config.items() if key != "id"}
        specs.append(CodecSpec(f"numcodecs.{config['id']}".replace("numcodecs.blosc", "blosc"), members))
    pipeline = Pipeline(Chain(tuple(specs)), array.chunks, OBJECT)
    # The bytes that zarr 2.2 wrote are the same, and it alone read them right.
    values = archive("zarr-2.4/old")[path].values if "2.2" in writer else array.values
    grid = Grid(array.shape, array.chunks)
    for number in range(grid.total):
        place = grid.coordinates(number)
        chunk = pipeline.decode((array.archive.path / path / ".".join(map(str, place))).read_bytes())
        assert same(chunk[(*grid.valid(place), ...)], values[(*grid.region(place), ...)])

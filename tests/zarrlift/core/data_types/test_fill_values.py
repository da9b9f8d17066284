"""Fill values: what stands in the document is the value, bit for bit."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.documents import of_three, read_by_tensorstore, read_by_zarr

from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.data_types.numpy_types import CORE
from zarrlift.core.data_types.v3 import NAT, DataType, fill_from_json, fill_to_json, zero_fill
from zarrstack.core.errors import CastError, MetadataError, UnsupportedError


def named(name, **configuration):
    return DataType(name, configuration)


def plain(*names):
    return [DataType(name) for name in names]


U3 = named("fixed_length_utf32", length_bytes=12)
S3 = named("null_terminated_bytes", length_bytes=3)
V3 = named("raw_bytes", length_bytes=3)
NS = named("numpy.datetime64", unit="ns", scale_factor=1)
SPAN = named("numpy.timedelta64", unit="s", scale_factor=10)
TIMELESS = named("numpy.datetime64", unit="generic", scale_factor=1)
PAIR = named("structured", fields=[["a", "int32"], ["b", "float64"]])
DEEP = named(
    "structured",
    fields=[
        ["n", "uint16"],
        [
            "in",
            {"name": "structured", "configuration": {"fields": [["t", NS.to_json()], ["u", U3.to_json()]]}},
        ],
    ],
)
BOOL, I1, U8, F2, F4, F8, C8, C16, STRING, BYTES = plain(
    "bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128", "string", "bytes"
)

# data type, JSON, the bytes of the value (little-endian)
EXACT = {
    "true": (BOOL, True, "01"),
    "negative": (I1, -128, "80"),
    "2^64 - 1": (U8, 2**64 - 1, "ff" * 8),
    "-0.0": (F4, -0.0, "00000080"),
    "0.1 as float32": (F4, 0.10000000149011612, "cdcccc3d"),
    "the NaN": (F4, "NaN", "0000c07f"),
    "negative NaN": (F4, "0xffc00000", "0000c0ff"),
    "NaN with a payload": (F4, "0x7fc00001", "0100c07f"),
    "signalling NaN": (F4, "0x7fa00001", "0100a07f"),
    "NaN of float16": (F2, "0x7e01", "017e"),
    "NaN of float64": (F8, "0x7ff8000000000001", "010000000000f87f"),
    "infinity": (F8, "-Infinity", "000000000000f0ff"),
    "largest float16": (F2, 65504.0, "ff7b"),
    "smallest float64": (F8, 5e-324, "0100000000000000"),
    "complex": (C8, ["0x7fa00001", -0.0], "0100a07f00000080"),
    "complex NaN": (C16, ["NaN", "Infinity"], "000000000000f87f000000000000f07f"),
    "text": (U3, "aé", "61000000e900000000000000"),
    "half a surrogate pair": (U3, "\ud800", "00d800000000000000000000"),
    "terminated bytes": (S3, "YWI=", "616200"),
    "zero inside": (S3, "YQBi", "610062"),
    "raw bytes": (V3, "AAEC", "000102"),
    "not a time": (NS, NAT, "0000000000000080"),
    "time": (NS, 5, "0500000000000000"),
    "span": (SPAN, -7, "f9ffffffffffffff"),
    "not a time, no unit": (TIMELESS, "NaT", "0000000000000080"),
    "struct": (PAIR, "AQAAAAAAAAAAAPA/", "01000000000000000000f03f"),
    "nested struct": (
        DEEP,
        "AQAAAAAAAAAAgGEAAAAAAAAAAAAAAA==",
        "01000000000000000080610000000000000000000000",
    ),
}
exact = pytest.mark.parametrize(("data_type", "data", "raw"), EXACT.values(), ids=EXACT)


@exact
def test_json_holds_every_bit(data_type, data, raw):
    value = fill_from_json(json.loads(json.dumps(data)), data_type)
    little = np.asarray(value).astype(data_type.numpy.newbyteorder("<"))
    assert little.tobytes().hex() == raw
    again = fill_to_json(value, data_type)
    assert json.dumps(again) == json.dumps(data)


# zarr-python 3.1.6 and 3.4.2 pass NaNs through Python's float: a signalling NaN comes out quiet, and
# float16 loses its payload before Python 3.14. The document is right; tensorstore 0.1.86 shows every bit.
ZARR_LOSES = {"signalling NaN", "complex"} | ({"NaN of float16"} if sys.version_info < (3, 14) else set())


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # zarr 3.4.2 with numpy 2.5
@pytest.mark.parametrize("name", EXACT)
def test_zarr_python_reads_the_same_value(name):
    data_type, data, raw = EXACT[name]
    seen = read_by_zarr(of_three(data_type.to_json(), data))[:1]
    same = seen.astype(data_type.numpy.newbyteorder("<")).tobytes().hex() == raw
    assert same == (name not in ZARR_LOSES)


TENSORSTORE = {name: row for name, row in EXACT.items() if row[0].name in (*CORE, "raw_bytes")}


@pytest.mark.parametrize(("data_type", "data", "raw"), TENSORSTORE.values(), ids=TENSORSTORE)
def test_tensorstore_reads_the_same_value(data_type, data, raw):
    seen = read_by_tensorstore(of_three(data_type.to_json(), data))[:1]
    if data_type is V3:
        assert seen.shape == (1, 3)  # and numpy shows none of it: the items are of type V0
    else:
        assert seen.tobytes().hex() == raw


@pytest.mark.parametrize(
    ("data_type", "value"), [(STRING, "é\0"), (STRING, ""), (BYTES, b"\x00\xff"), (BYTES, b"")]
)
def test_values_of_any_length_keep_their_type(data_type, value):
    data = fill_to_json(value, data_type)
    assert fill_from_json(data, data_type) == value
    seen = read_by_zarr(of_three(data_type.to_json(), data))[0]
    assert (str(seen) if data_type is STRING else seen) == value


def test_values_of_object_pass_as_they_are():
    assert fill_to_json(0, DataType("object")) == 0
    assert fill_from_json(None, DataType("object")) is None


ZEROS = {
    "bool": (BOOL, False),
    "int": (I1, 0),
    "float": (F4, 0.0),
    "complex": (C8, [0.0, 0.0]),
    "text": (U3, ""),
    "terminated bytes": (S3, ""),
    "raw bytes": (V3, "AAAA"),
    "time": (NS, NAT),
    "span": (SPAN, NAT),
    "struct": (PAIR, "AAAAAAAAAAAAAAAA"),
    "string": (STRING, ""),
    "bytes": (BYTES, ""),
    "object": (DataType("object"), None),
}


@pytest.mark.parametrize(("data_type", "data"), ZEROS.values(), ids=ZEROS)
def test_the_zero_of_a_type(data_type, data):
    assert fill_to_json(zero_fill(data_type), data_type) == data


READ_TOO = {
    "whole float for an integer": (I1, 3.0, np.int8(3)),
    "NaT as text": (NS, "NaT", np.datetime64("NaT", "ns")),
    "bare NaN": (F4, float("nan"), np.float32("nan")),
    "upper-case digits": (F4, "0x7FC00001", np.uint32(0x7FC00001).view("f4")),
    "0 for bool": (BOOL, 0, np.False_),
    "1 for bool": (BOOL, 1, np.True_),
    "numbers of raw bytes": (V3, [1, 2, 3], np.void(b"\1\2\3")),
    "empty raw bytes": (V3, "", np.void(b"\0\0\0")),
    "an object per struct": (PAIR, {"b": 1.5, "a": 2}, np.array((2, 1.5), PAIR.numpy)[()]),
}


def test_bytes_are_read_as_numbers_as_registered_and_as_zarr_python_3_0_writes_them():
    assert fill_from_json([0, 255], BYTES) == b"\0\xff"
    for wrong in ([256], [-1], ["a"], [1.5]):
        with pytest.raises(MetadataError):
            fill_from_json(wrong, BYTES)


@pytest.mark.parametrize(("data_type", "data", "value"), READ_TOO.values(), ids=READ_TOO)
def test_forms_that_are_read_though_not_written(data_type, data, value):
    assert same_bits(fill_from_json(data, data_type), value)


BAD = {
    "null": (I1, None),
    "bool for an integer": (I1, True),
    "text for an integer": (I1, "1"),
    "part of an integer": (I1, 1.5),
    "integer too large": (I1, 128),
    "negative unsigned": (U8, -1),
    "2 for bool": (BOOL, 2),
    "bool for a float": (F4, False),
    "text for a float": (F4, "1.5"),
    "lower-case nan": (F4, "nan"),
    "float too large": (F4, 1e39),
    "huge integer for a float": (F8, 10**400),
    "too few digits": (F4, "0x7fc0"),
    "no digits": (F4, "0x7fc0000g"),
    "spaces": (F4, "0x 7fc0001"),
    "complex as a number": (C8, 1.0),
    "complex of three": (C8, [1, 2, 3]),
    "time as text": (NS, "2020-01-01"),
    "time too large": (NS, 2**63),
    "number for text": (U3, 0),
    "text too long": (U3, "abcd"),
    "not base64": (S3, "ab"),
    "bytes too long": (S3, "YWJjZA=="),
    "bytes too short": (V3, "AAE="),
    "list of larger numbers": (V3, [0, 1, 256]),
    "list of negative numbers": (V3, [0, 1, -1]),
    "list of fractions": (V3, [0, 1, 2.0]),
    "list too short": (V3, [0, 1]),
    "empty list": (V3, []),
    "not ASCII": (V3, "é"),
    "struct too short": (PAIR, "AQAAAA=="),
    "struct lacks a field": (PAIR, {"a": 1}),
    "struct with a bad field": (PAIR, {"a": 1, "b": "x"}),
    "number for string": (STRING, 0),
    "number for bytes": (BYTES, 0),
}


@pytest.mark.parametrize(("data_type", "data"), BAD.values(), ids=BAD)
def test_json_that_is_no_value_is_refused_with_what_was_found(data_type, data):
    with pytest.raises(MetadataError) as caught:
        fill_from_json(data, data_type)
    assert caught.value.problem.found is not None


@pytest.mark.parametrize(
    ("name", "message", "found", "expected"),
    [
        ("text too long", "a fill value is too long", '"abcd"', "3 characters"),
        ("bytes too long", "a fill value is too long", '"YWJjZA=="', "3 bytes"),
        ("bytes too short", "a fill value has the wrong length", "2 bytes", "3 bytes of base64"),
        ("struct too short", "a fill value has the wrong length", "4 bytes", "12 bytes of base64"),
        ("struct lacks a field", "bad fill value", '{"a":1}', str(PAIR)),
        ("struct with a bad field", "bad fill value", '"x"', "a value of dtype <f8"),
        ("integer too large", "bad fill value", "128", "int8"),
    ],
)
def test_the_part_that_is_wrong_is_named(name, message, found, expected):
    data_type, data = BAD[name]
    with pytest.raises(MetadataError) as caught:
        fill_from_json(data, data_type)
    problem = caught.value.problem
    assert (problem.message, problem.found, problem.expected) == (message, found, expected)


NO_VALUES = {
    "integer too large": (I1, 128),
    "float for an integer": (I1, 1.0),
    "number for bool": (BOOL, 1),
    "float too large": (F4, 1e39),
    "text for a float": (F4, "1"),
    "text too long": (U3, "abcd"),
    "text for bytes": (S3, "ab"),
    "time of another unit": (NS, np.datetime64(1, "s")),
    "another struct": (PAIR, np.zeros((), [("a", "i4"), ("b", "f4")])[()]),
    "raw bytes too short": (V3, b"ab"),
    "an array": (F4, np.zeros(2)),
    "bytes for string": (STRING, b"a"),
}


@pytest.mark.parametrize(("data_type", "value"), NO_VALUES.values(), ids=NO_VALUES)
def test_values_of_another_type_are_not_written(data_type, value):
    with pytest.raises(CastError):
        fill_to_json(value, data_type)


def test_a_datetime_without_unit_can_only_be_not_a_time():
    # zarr-python 3.1.6 fails on a number here.
    with pytest.raises(UnsupportedError):
        fill_to_json(np.array(5, "i8").view("M8")[()], TIMELESS)


@pytest.mark.parametrize("data_type", [F2, F4, F8], ids=str)
@given(data=st.data())
def test_every_float_survives(data_type, data):
    size = data_type.itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size))
    value = np.frombuffer(raw, data_type.numpy)[0]
    text = json.dumps(fill_to_json(value, data_type))
    assert fill_from_json(json.loads(text), data_type).tobytes() == raw
    assert "nan" not in text.lower().replace('"nan"', "")  # strict JSON


@given(st.binary(min_size=10, max_size=10), st.lists(st.integers(0, 0x10FFFF), min_size=3, max_size=3))
def test_every_struct_survives(head, characters):
    raw = head + np.array(characters, "<u4").tobytes()
    text = json.dumps(fill_to_json(np.frombuffer(raw, DEEP.numpy)[0], DEEP))
    assert fill_from_json(json.loads(text), DEEP).tobytes() == raw


JSON = json_values()


@given(JSON, st.sampled_from([row[0] for row in EXACT.values()]))
def test_any_json_is_a_value_or_one_clear_error(data, data_type):
    try:
        value = fill_from_json(data, data_type)
    except MetadataError:
        return
    if not (data_type is TIMELESS and not np.isnat(value)):
        assert same_bits(fill_from_json(fill_to_json(value, data_type), data_type), value)

"""Zarr v2 dtypes and fill values: what real writers leave is read, nothing else is guessed at."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values

from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.data_types.numpy_types import MAX_DEPTH
from zarrlift.core.data_types.v2 import parse_v2_dtype, v2_fill_to_scalar, v2_object_fill
from zarrlift.core.data_types.v3 import NAT, DataType
from zarrstack.core.errors import MetadataError, UnsupportedError

REFUSED = {
    "two types": "f4,i4",
    "old object": "|O8",
    "sized object": "<O8",
    "python name": "float",
    "numpy name": "float32",
    "v3 name": "int8",
    "no byte order": "i4",
    "native byte order": "=i4",
    "byte order left out": "|i4",
    "text without byte order": "|U3",
    "time without byte order": "|M8[ns]",
    "odd size": "<i3",
    "no size": "<f",
    "bool of four bytes": "<b4",
    "leading zero": "|S03",
    "newline": "<i4\n",
    "blank": " <i4",
    "unknown unit": "<M8[x]",
    "unit of a number": "<i4[ns]",
    "time of four bytes": "<M4[ns]",
    "fraction of a unit": "<M8[s/2]",
    "sub-array typestr": "(2,)i4",
    "bit field": "|t4",
    "too long": "|S2147483648",
    "too long text": "<U536870912",
    "digits without end": "|S" + "9" * 5000,
    "other digits": "|S٣",
    "null": None,
    "number": 4,
    "empty list": [],
    "object": {"a": "<i4"},
    "field of one": [["a"]],
    "field of four": [["a", "<i4", [1], 0]],
    "field is text": ["ab"],
    "title": [[["title", "a"], "<i4"]],
    "field twice": [["a", "<i4"], ["a", "<i4"]],
    "unnamed after f1": [["f1", "<i4"], ["", "<i4"]],
    "bad inner type": [["a", "f4,i4"]],
    "negative shape": [["a", "<i4", [-1]]],
    "bare shape": [["a", "<i4", 2]],
    "bool shape": [["a", "<i4", [True]]],
    "huge shape": [["a", "<i4", [65536, 65536]]],
    "many axes": [["a", "<i4", [1] * 33]],
    "huge struct": [["a", "|V2147483647"], ["b", "|V1"]],
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_with_what_was_found(data):
    with pytest.raises(MetadataError) as caught:
        parse_v2_dtype(data)
    assert caught.value.problem.found


def test_a_long_double_is_told_by_name():
    try:
        dtype = np.dtype("<f16")
    except TypeError:
        with pytest.raises(UnsupportedError):
            parse_v2_dtype("<f16")
    else:
        assert parse_v2_dtype("<f16") == dtype
        with pytest.raises(UnsupportedError, match=r"longdouble|float128"):
            DataType.from_numpy(dtype)
    with pytest.raises(UnsupportedError):
        parse_v2_dtype("<f12")


@pytest.mark.parametrize(
    "data", [[["a", "bfloat16"]], "float8_e4m3fn", "int4", "uint4", [["a", "|V0", [2]]]], ids=str
)
def test_types_that_numpy_lacks_are_told_by_name(data):
    with pytest.raises(UnsupportedError) as caught:
        parse_v2_dtype(data)
    assert caught.value.problem.found


def test_bottomless_structs_are_refused():
    data = "<i4"
    for _ in range(MAX_DEPTH):
        data = [["a", data]]
    parse_v2_dtype(data)
    with pytest.raises(UnsupportedError):
        parse_v2_dtype([["a", data]])


dtypes = st.recursive(
    st.sampled_from(
        ["?", "i1", "<i2", ">u8", "<f2", ">f4", "<c8", "S3", "<U2", ">U2", "V4", "<M8[ns]", ">m8[2D]"]
    ),
    lambda inner: st.lists(
        st.tuples(inner, st.none() | st.lists(st.integers(1, 3), min_size=1, max_size=2)),
        min_size=1,
        max_size=3,
    ).map(
        lambda fields: [
            (f"n{i}", dtype) if shape is None else (f"n{i}", dtype, tuple(shape))
            for i, (dtype, shape) in enumerate(fields)
        ]
    ),
    max_leaves=5,
).map(np.dtype)


def v2_json(dtype):
    return json.loads(json.dumps(dtype.str if dtype.names is None else dtype.descr))


@given(dtypes)
def test_what_zarr_python_2_writes_for_a_dtype_is_read_as_that_dtype(dtype):
    assert parse_v2_dtype(v2_json(dtype)) == dtype


DTYPE_WORDS = (
    "<i4",
    ">f8",
    "|b1",
    "|O",
    "<M8",
    "<M8[ns]",
    "=i4",
    "|S3",
    "<U2",
    "|V5",
    "|i3",
    "<f16",
    "f4,i4",
)
JSON = json_values(DTYPE_WORDS)


@given(JSON | st.from_regex(r"[<>|=]?[a-zA-Z][0-9]*"))
def test_any_json_is_a_dtype_or_one_clear_error(data):
    with suppress(MetadataError, UnsupportedError):
        parse_v2_dtype(data)


PAIR = [("a", ">i4"), ("b", "<f8")]
NAN4 = np.float32("nan")

# dtype, JSON, value
FILLS = {
    "null": ("<f4", None, None),
    "number": ("<f4", 1.5, np.float32(1.5)),
    "-0.0 (tensorstore)": ("<f8", -0.0, np.float64(-0.0)),
    "NaN": ("<f4", "NaN", NAN4),
    "-Infinity": (">f4", "-Infinity", np.float32("-inf")),
    "bare NaN": ("<f4", float("nan"), NAN4),
    "bare Infinity": ("<f8", float("inf"), np.float64("inf")),
    "number as text": ("<f4", "1.5", np.float32(1.5)),
    "nan as text": ("<f4", "nan", NAN4),
    "beyond the range": ("<f4", 1e300, np.float32("inf")),
    "rounds to the largest": ("<f2", 65519.0, np.float16(65504)),
    "NetCDF's default": ("<f4", 9.969209968386869e36, np.float32(9.96921e36)),
    "integer": (">i4", -5, np.int32(-5)),
    "0.0 for an integer (z5py)": ("|u1", 0.0, np.uint8(0)),
    "integer as text": ("<i8", "9223372036854775807", np.int64(2**63 - 1)),
    "2^64 - 1": ("<u8", 2**64 - 1, np.uint64(2**64 - 1)),
    "false": ("|b1", False, np.False_),
    "1 for true": ("|b1", 1, np.True_),
    "0.0 for false": ("|b1", 0.0, np.False_),
    "complex": ("<c8", ["NaN", "Infinity"], np.array(["nan", "inf"], "f4").view("c8")[0]),
    "complex, -0.0": (">c16", [1, -0.0], np.array([1, -0.0]).view("c16")[0]),
    "number for complex": ("<c8", 0, np.complex64(0)),
    "NaT": ("<M8[ns]", NAT, np.datetime64("NaT", "ns")),
    "NaT as text": (">M8[ns]", "NaT", np.datetime64("NaT", "ns")),
    "time": (">M8[10us]", 5, np.array(5, "i8").view("M8[10us]")[()]),
    "span": ("<m8[s]", 0, np.timedelta64(0, "s")),
    "NaT without unit": ("<M8", NAT, np.array(NAT, "i8").view("M8")[()]),
    "text": ("<U3", "aé", np.array("aé", "U3")[()]),
    "0 for text": ("<U3", 0, np.array("", "U3")[()]),
    "the text 0 (zarr-python 3)": ("<U3", "0", np.array("0", "U3")[()]),
    "base64": ("|S3", "YWI=", np.bytes_(b"ab")),
    "base64 with zeros (tensorstore)": ("|S3", "YWIA", np.bytes_(b"ab")),
    "nothing": ("|S3", "", np.bytes_(b"")),
    "0 for bytes": ("|S3", 0, np.bytes_(b"")),
    "text for bytes": ("|S3", "a!", np.bytes_(b"a!")),
    "raw": ("|V3", "AAEC", np.void(b"\0\1\2")),
    "0 for raw": ("|V3", 0, np.void(b"\0\0\0")),
    "nothing for raw": ("|V3", "", np.void(b"\0\0\0")),
    "struct in its own byte order": (PAIR, "AAAAAQAAAAAAAPA/", np.array((1, 1.0), PAIR)[()]),
    "nothing for nothing": ("|V0", "", np.void(b"")),
    "0 for a struct": (PAIR, 0, np.zeros((), PAIR)[()]),
    "nothing for a struct": (PAIR, "", np.zeros((), PAIR)[()]),
    "object for a struct": (PAIR, {"b": "NaN", "a": 1.0}, np.array((1, np.nan), PAIR)[()]),
    "sub-array": ([("a", "<i2", (2,))], "AQACAA==", np.array(([1, 2],), [("a", "<i2", (2,))])[()]),
    "object": ("|O", 0, 0),
}


@pytest.mark.parametrize(("dtype", "data", "value"), FILLS.values(), ids=FILLS)
def test_fill_values_of_real_writers(dtype, data, value):
    found = v2_fill_to_scalar(data, np.dtype(dtype))
    if value is None or np.dtype(dtype) == object:
        assert found == value
        assert type(found) is type(value)
    else:
        assert isinstance(found, np.generic)
        assert found.dtype.isnative
        wanted = np.dtype(dtype).newbyteorder("=")
        assert same_bits(np.asarray(found, wanted), np.asarray(value, wanted))


BAD_FILLS = {
    "fraction": ("<i4", 1.5),
    "true for an integer": ("<i4", True),
    "NaN for an integer": ("<i4", "NaN"),
    "bare NaN for an integer": ("<i4", float("nan")),
    "too large": ("<i4", 2**40),
    "negative": ("|u1", -1),
    "digits without end": ("<i8", "9" * 5000),
    "2 for bool": ("|b1", 2),
    "text for bool": ("|b1", "false"),
    "hexadecimal": ("<f4", "0x7fc00001"),
    "true for a float": ("<f4", True),
    "list for a float": ("<f4", [0]),
    "word": ("<f4", "x"),
    "complex as text": ("<c8", "NaN"),
    "complex of one": ("<c8", [1]),
    "date beyond its unit": ("<M8[D]", "2020-01-01T12"),
    "number for text": ("<U3", 5),
    "text too long": ("<U3", "abcd"),
    "number for bytes": ("|S3", 1),
    "bytes too long": ("|S3", "YWJjZA=="),
    "base64 with holes": ("|S9", "YW!Jj"),
    "not ASCII": ("|S3", "é"),
    "raw too short": ("|V3", "AAE="),
    "struct as a list": (PAIR, [1, 2.0]),
    "struct too short": (PAIR, "AAAAAQ=="),
    "struct lacks a field": (PAIR, {"a": 1}),
    "struct with a bad field": (PAIR, {"a": 2**40, "b": 0}),
}


@pytest.mark.parametrize(("dtype", "data"), BAD_FILLS.values(), ids=BAD_FILLS)
def test_what_is_no_fill_value_is_refused_with_found_and_expected(dtype, data):
    with pytest.raises(MetadataError) as caught:
        v2_fill_to_scalar(data, np.dtype(dtype))
    assert caught.value.problem.found
    assert caught.value.problem.expected


def test_a_pickled_fill_is_not_looked_at():
    with pytest.raises(UnsupportedError):
        v2_fill_to_scalar("gAVLAC4=", np.dtype([("a", "<i4"), ("b", "O")]))


@given(JSON, st.sampled_from([row[0] for row in FILLS.values()]))
def test_any_json_is_a_fill_value_or_one_clear_error(data, dtype):
    with suppress(MetadataError):
        v2_fill_to_scalar(data, np.dtype(dtype))


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("string", None, ""),
        ("string", 0, ""),
        ("string", "x", "x"),
        ("bytes", 0, b""),
        ("bytes", "", b""),
    ],
)
def test_fill_values_of_object_arrays_once_the_codec_is_known(name, data, value):
    assert v2_object_fill(data, DataType(name)) == value


@pytest.mark.parametrize("text", ["AAE=", "ab!"])
def test_a_text_as_fill_of_bytes_is_not_guessed_at(text):
    with pytest.raises(UnsupportedError, match="is ambiguous"):
        v2_object_fill(text, DataType("bytes"))


@pytest.mark.parametrize(("name", "data"), [("string", 1), ("string", False), ("bytes", 1.5), ("string", [])])
def test_object_fills_that_are_neither_text_nor_zero_are_refused(name, data):
    with pytest.raises(MetadataError):
        v2_object_fill(data, DataType(name))

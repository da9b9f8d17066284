"""What the strict reading of a `.zarray` accepts, zarr-metadata accepts as well."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from zarr_metadata.model import read_repaired_node_metadata_v2

from zarrlift.core.data_types.v2 import parse_v2_dtype
from zarrlift.formats.zarr_v2.array import MEMBERS, V2ArrayDescriber
from zarrlift.formats.zarr_v2.deviations import DEVIATIONS, DTYPE_DEVIATIONS, undo

NUMBERS = ["|b1", "|i1", "|u1", *(f"{order}{kind}" for order in "<>" for kind in
           ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"))]  # fmt: skip
OTHERS = ["|O", "<U3", ">U1", "|S4", "<M8[s]", ">m8[ns]", "<M8[D]", "<m8[Y]"]
ODD = [
    *("<c8", ">b1", "|i2", "i4", "<i3", "<f1", "", "|U3", "<S4", "|S0", "<U0", "<S", "|O8", "O"),
    *("<M8[10s]", "<M8[fs]", "|M8[s]", "<M8[ns]x", "<U3\n", "<U99999"),
    *([["a", "<i4"]], None, 3),
]
FILLS = [
    *(None, False, True, 0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400),
    *(0.0, -0.0, 1.5, 65504.0, 65519.0, 65520.0, 1e39, 1e308, float("nan"), float("inf")),
    *("NaN", "Infinity", "-Infinity", "nan", "", "0x7fc00000", "AAAA", "NaT", [0.0, 0.0], {}),
]
PLAIN = {
    "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i4",
    "compressor": None, "fill_value": 0, "order": "C", "filters": None,
}  # fmt: skip

levels = st.one_of(st.integers(-3, 25), st.sampled_from([None, True, 1.0, "1", 2**40]))
compressors = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "id": st.just("blosc"),
            "cname": st.sampled_from(["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd", "LZ4", 1]),
            "clevel": levels,
            "shuffle": levels,
        },
        optional={"blocksize": levels, "typesize": levels},
    ),
    st.fixed_dictionaries(
        {"id": st.sampled_from(["gzip", "zlib", "bz2", "zstd", "lz4", "lzma", "", None])},
        optional={"level": levels, "acceleration": levels, "checksum": st.booleans()},
    ),
)
JSON2 = {
    "id": "json2", "encoding": "utf-8", "skipkeys": False, "ensure_ascii": True, "check_circular": True,
    "allow_nan": True, "sort_keys": True, "indent": None, "separators": [",", ":"], "strict": True,
}  # fmt: skip
object_codec = st.one_of(
    st.sampled_from([JSON2, {**JSON2, "more": 1}, {"id": "pickle"}, {"id": "pickle", "protocol": 5}]),
    st.fixed_dictionaries(
        {"id": st.sampled_from(["vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", None])},
        optional={"dtype": st.just("<i4"), "x": st.just(1)},
    ),
)
fills = st.one_of(st.sampled_from(FILLS), st.integers(), st.floats(), st.text(max_size=3))
documents = st.fixed_dictionaries(
    {
        **{name: st.just(PLAIN[name]) for name in ("shape", "chunks")},
        "zarr_format": st.sampled_from([2, 2, 2, 2.0, 3, "2", True]),
        "dtype": st.sampled_from([*NUMBERS, *OTHERS, *OTHERS, *ODD]),
        "compressor": compressors,
        "fill_value": fills,
        "order": st.sampled_from(["C", "F", "C", "c", "A", None, 0]),
        "filters": st.one_of(
            st.sampled_from([None, None, None, [], [{"id": "shuffle", "elementsize": 4}]]),
            st.lists(object_codec, min_size=1, max_size=2),
        ),
    },
    optional={"dimension_separator": st.sampled_from([".", "/", "", None, 1]), "other": st.just(1)},
)


def accepts(document):
    return not V2ArrayDescriber().describe(document).refused


def agrees(document):
    """Whether a document is refused, or accepted by zarr-metadata in its normal form."""
    if not accepts(document):
        return True
    normal, _ = undo(document, None, DTYPE_DEVIATIONS)
    normal, _ = undo(normal, parse_v2_dtype(normal["dtype"]), DEVIATIONS)
    normal = {name: value for name, value in normal.items() if name in MEMBERS}
    problems = read_repaired_node_metadata_v2({".zarray": normal}).reading.problems
    return not problems


@examples(800)
@given(document=documents)
def test_nothing_is_accepted_that_zarr_metadata_refuses(document):
    assert agrees(document)


@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS, *(word for word in ODD if isinstance(word, str))])
def test_no_fill_value_is_accepted_that_zarr_metadata_refuses(dtype):
    filters = [{"id": "vlen-utf8"}] if dtype == "|O" else None
    plain = {**PLAIN, "dtype": dtype, "filters": filters}
    assert [fill for fill in FILLS if not agrees({**plain, "fill_value": fill})] == []
    if dtype in (*NUMBERS, *OTHERS):
        assert accepts({**plain, "fill_value": None})


@pytest.mark.parametrize(
    "codec", [JSON2, {"id": "pickle", "protocol": 5}, {"id": "vlen-utf8"}, {"id": "vlen-bytes"}]
)
def test_objects_need_a_codec_of_objects_and_other_items_none(codec):
    objects = {**PLAIN, "dtype": "|O", "fill_value": None}
    assert accepts({**objects, "filters": [codec]})
    assert agrees({**objects, "filters": [codec]})
    for filters in (None, [], [codec, codec], [{**codec, "more": 1}], codec, [codec["id"]], [None]):
        assert not accepts({**objects, "filters": filters})
    assert not accepts({**PLAIN, "filters": [codec]})


def test_no_codec_is_accepted_that_zarr_metadata_refuses():
    blosc = [
        {"id": "blosc", "cname": cname, "clevel": level, "shuffle": shuffle, "blocksize": 256}
        for cname in ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
        for level, shuffle in itertools.product((-1, 0, 9, 10, 5.0), (-1, 0, 2, 3, True))
    ]
    others = [
        {"id": name, member: level}
        for name in ("gzip", "zlib", "bz2", "zstd", "lz4", "lzma", "crc32", "shuffle")
        for member in ("level", "acceleration", "elementsize", "location", "filters")
        for level in (-1, 0, 1, 9, 10, 22, 23, 1.0, "end", "middle", {})
    ]
    others += [
        {"id": name, "level": level, "checksum": checksum}
        for name in ("gzip", "zstd")
        for level in (0, 22)
        for checksum in (False, True, 0, None)
    ]
    assert [codec for codec in (*blosc, *others) if not agrees({**PLAIN, "compressor": codec})] == []


@pytest.mark.parametrize("name", PLAIN)
def test_every_member_is_needed_or_noted_as_missing(name):
    found = V2ArrayDescriber().describe({key: value for key, value in PLAIN.items() if key != name})
    words = name.replace("_", "-")
    assert any(f"{name} is missing" in str(p) or f"missing-{words}" in str(p) for p in found.problems)

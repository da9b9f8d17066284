"""Array documents of the 2022 draft of v3, in both dialects."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.draft_v3.array import describe_array
from zarrlift.core.draft_v3.nodes import Dialect
from zarrlift.core.grid.chunk_keys import DraftKeys
from zarrstack.core.errors import UnsupportedError

TEXT, ZARR_PYTHON = Dialect.TEXT, Dialect.ZARR_PYTHON
DIALECTS = [TEXT, ZARR_PYTHON]

BIG, LITTLE = (CodecSpec("bytes", {"endian": endian}) for endian in ("big", "little"))
GZIP = {"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}

# As the two examples of the section "Array metadata" are made, with other values.
EXAMPLE = {
    "shape": [720, 360],
    "data_type": "<f8",
    "chunk_grid": {"type": "regular", "chunk_shape": [90, 60], "separator": "/"},
    "chunk_memory_layout": "C",
    "codecs": [GZIP],
    "fill_value": "NaN",
    "extensions": [],
    "attributes": {"units": "K", "levels": [2, 10, 50], "checked": True},
}
DATETIMES = {
    **EXAMPLE,
    "data_type": {
        "extension": "https://purl.org/zarr/spec/extensions/data-types/datetime/1.0",
        "type": "<M8[ns]",
        "fallback": "<i8",
    },
    "fill_value": None,
    "attributes": {},
}
# zarr-python 2.18.7.
PYTHON = {
    "attributes": {},
    "chunk_grid": {"chunk_shape": [2, 3], "separator": "/", "type": "regular"},
    "chunk_memory_layout": "C",
    "compressor": {
        "codec": "https://purl.org/zarr/spec/codec/blosc/1.0",
        "configuration": {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": 1},
    },
    "data_type": "<i4",
    "extensions": [],
    "fill_value": 0,
    "shape": [4, 6],
}


def text(**changes):
    """The array that the example of the text's dialect becomes with changes."""
    return describe_array({**EXAMPLE, **changes}, TEXT)


def python(**changes):
    """The array that zarr-python's document becomes with changes."""
    return describe_array({**PYTHON, **changes}, ZARR_PYTHON)


def refusal(described):
    """Why an array is refused."""
    array, problems = described
    assert array is None
    return " ".join(str(problem) for problem in problems if problem.severity == "refusal")


# data_type, fill_value -> v3's type, fill value and array-to-bytes codec; all seen in zarr-python 2.18.7.
SPECS = "https://zarr-specs.readthedocs.io/en/"
COMPLEX = SPECS + "core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html"
STRUCT = "TODO: structured array protocol URL"
PLAIN = CodecSpec("bytes")


def of(extension, kind):
    """An extension type as zarr-python writes it."""
    return {"extension": extension, "fallback": None, "type": kind}


def structured(*fields):
    """A v3 struct."""
    return {"name": "structured", "configuration": {"fields": [list(field) for field in fields]}}


TEXT_TYPES = {  # others are in described.txt of tests/zarrlift/formats
    "raw": ("r24", "0x00fF01", {"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "AP8B", PLAIN),
    "raw, in base64": (
        "r24", "AP8B", {"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "AP8B", PLAIN),
    "another NaN": ("float32", "0x7fc00001", "float32", "0x7fc00001", LITTLE),
    "binary": ("float16", "0b0011110000000000", "float16", 1.0, LITTLE),
    "complex": ("complex64", ["0x3fc00000", "+Infinity"], "complex64", [1.5, "Infinity"], LITTLE),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXT_TYPES)
def test_data_types_and_fill_values_of_the_text(case):
    data_type, fill, name, v3_fill, packing = TEXT_TYPES[case]
    array, problems = text(data_type=data_type, fill_value=fill)
    assert problems == ()
    assert (array.data_type.to_json(), array.chain.codecs[0]) == (name, packing)
    assert json.dumps(array.fill_value) == json.dumps(v3_fill)


def test_a_fill_value_of_fields_in_several_byte_orders_becomes_little_endian():
    """As seen in zarr-python 2.18.7."""
    fields = [["a", "<i4"], ["b", ">f8"]]
    array, problems = python(data_type=of(STRUCT, fields), fill_value="AQAAAEAAAAAAAAAA")
    assert problems == ()
    assert array.fill_value == "AQAAAAAAAAAAAABA"
    assert array.chain.codecs[0] == CodecSpec("numpy_bytes", {"dtype": fields})


def test_the_endian_codec_states_the_byte_order_of_a_name():
    endian = {"type": "https://purl.org/zarr/spec/codecs/endian/1.0", "configuration": {"endian": "big"}}
    array, _ = text(data_type="float64", codecs=[endian, GZIP])
    assert array.chain.codecs == (BIG, CodecSpec("gzip", {"level": 1}))
    assert "different byte orders" in refusal(text(data_type="<f8", codecs=[endian]))
    assert text(data_type=">f8", codecs=[endian])[0].chain.codecs == (BIG,)
    assert text(data_type="int8", codecs=[endian], fill_value=0)[0].chain.codecs == (PLAIN,)
    assert "must come first" in refusal(text(codecs=[GZIP, endian]))


def test_a_separator_that_zarr_python_says_twice():
    grid = {"chunk_shape": [2, 3], "separator": ".", "type": "regular"}
    array, problems = python(chunk_grid=grid, dimension_separator=".")
    assert (problems, array.separator) == ((), ".")
    assert array.keys(ZARR_PYTHON) == DraftKeys(".", "c0")
    assert "separator" in refusal(python(chunk_grid=grid, dimension_separator="/"))


def test_objects_are_read_by_their_codec():
    kind = {
        "data_type": of("TODO: object array protocol URL", "|O"),
        "attributes": {"filters": [{"id": "vlen-utf8"}]},
    }
    assert "of objects" in refusal(python(**kind))

    def read_filtered(document, dtype):
        return Chain((CodecSpec("vlen-utf8"),)), DataType("string"), []

    array, _ = describe_array({**PYTHON, **kind}, ZARR_PYTHON, read_filtered=read_filtered)
    # zarr-python 2.18.7 writes 0 when nothing was asked for.
    assert (array.fill_value, array.attributes) == ("", {})

    def wrong(document, dtype):
        return Chain((PLAIN,)), DataType("string"), [UnsupportedError("no such filter")]

    assert "no such filter" in refusal(describe_array({**PYTHON, **kind}, ZARR_PYTHON, read_filtered=wrong))


# ----- sharding

SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"


def sharded(counts, **changes):
    """A storage transformer of sharding."""
    return [
        {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": counts}, **changes}
    ]


@pytest.mark.parametrize(
    ("counts", "shards"),
    [([2, 2], (2, 2)), ([2], (2, 1)), (2, (2, 1)), ([], (1, 1)), ([3, 1, 1], (3, 1))],
    ids=str,
)
def test_chunks_per_shard_are_filled_up_with_ones(counts, shards):
    array, problems = python(storage_transformers=sharded(counts))
    assert (problems, array.chunks_per_shard) == ((), shards)


@pytest.mark.parametrize(
    "uri",
    [SHARDING, "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0",
     "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0"],
)  # fmt: skip
def test_sharding_goes_by_several_names(uri):
    assert python(storage_transformers=sharded([2, 2], extension=uri))[0].chunks_per_shard == (2, 2)


def test_no_transformer_is_no_sharding():
    assert python(storage_transformers=[])[0].chunks_per_shard is None
    scalar, _ = python(
        shape=[], chunk_grid={"type": "regular", "chunk_shape": []}, storage_transformers=sharded([1])
    )
    assert scalar.chunks_per_shard == ()


# ----- fallbacks

UNKNOWN = {"extension": "http://example.org/decimals", "type": "decimal", "fallback": "<i4"}


def test_a_type_that_is_known_needs_no_fallback():
    array, problems = describe_array({**DATETIMES, "fill_value": 0}, TEXT, allow_fallback=True)
    assert (array.data_type.name, problems) == ("numpy.datetime64", ())


@pytest.mark.parametrize("allow", [True, False])
def test_fallbacks_that_lead_back_or_nowhere_are_refused(allow):
    def refused(data_type):
        return refusal(describe_array({**PYTHON, "data_type": data_type}, ZARR_PYTHON, allow_fallback=allow))

    other = {**UNKNOWN, "type": "other", "fallback": UNKNOWN}
    assert "falls back to itself" in refused({**UNKNOWN, "fallback": UNKNOWN})
    assert "falls back to itself" in refused({**UNKNOWN, "fallback": [other]})
    assert "unknown extension" in refused({**UNKNOWN, "fallback": None})
    assert "unknown extension" in refused({**UNKNOWN, "fallback": ["decimal"]})
    assert "too many" in refused({**UNKNOWN, "fallback": [f"x{i}" for i in range(100)]})
    deep = "x"
    for i in range(300):
        deep = {**UNKNOWN, "type": str(i), "fallback": deep}
    assert "too many" in refused(deep)


# ----- what is refused

REFUSED = {
    "members of a grid": (
        {"chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "x": 1}}, "malformed chunk_grid"),
    "no grid": ({"chunk_grid": None}, "malformed chunk_grid"),
    "a shuffle of 3": (
        {"compressor": {"codec": "https://purl.org/zarr/spec/codec/blosc/1.0",
        "configuration": {"shuffle": 3}}},
        "shuffle"),
    "members of a type": ({"data_type": {**UNKNOWN, "x": 1}}, "unknown members"),
    "an extension for another kind": ({"data_type": of(COMPLEX, "<i4")}, "does not include"),
    "sub-arrays": ({"data_type": of(STRUCT, [["a", "|u1", [2]]]), "fill_value": "AAA="}, "sub-array"),
    "shards of shards": ({"storage_transformers": sharded([2, 2]) * 2}, "nested shards"),
    "shards of other axes": ({"storage_transformers": sharded([2, 2, 2])}, "more axes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_described_is_refused_by_name(case):
    changes, says = REFUSED[case]
    assert says in refusal(python(**changes))


def test_every_problem_comes_at_once():
    said = refusal(python(shape="x", data_type="y", chunk_grid=1, colour=2, extensions=3))
    for word in ("shape", "unknown data type", "chunk_grid", "colour", "extensions"):
        assert word in said


def test_a_chunk_may_be_empty_where_its_axis_is():
    array, _ = python(shape=[0, 6], chunk_grid={"type": "regular", "chunk_shape": [0, 3]})
    assert array.chunk_shape == (1, 3)


# ----- any input

JSON = json_values(
    ["0x", "0b01", "C", "F", "<f8", "r16", "NaN", "regular", "/", GZIP["type"], SHARDING, STRUCT],
    keys=("extension", "type", "fallback", "codec", "configuration", "chunk_shape", "separator", "x"),
    leaves=8,
)


@given(st.dictionaries(st.sampled_from([*EXAMPLE, *PYTHON, "storage_transformers", "x"]), JSON, max_size=3))
def test_nothing_escapes_whatever_a_document_holds(changes):
    for document, dialect in ((EXAMPLE, TEXT), (PYTHON, ZARR_PYTHON)):
        for allow in (True, False):
            array, problems = describe_array({**document, **changes}, dialect, allow_fallback=allow)
            assert (array is None) == any(problem.severity == "refusal" for problem in problems)

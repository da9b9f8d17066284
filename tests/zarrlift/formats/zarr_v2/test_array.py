"""What a `.zarray` says, and each way in which one can be wrong."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.fixtures_index import archive
from tests.support.v2_trees import ARRAY, array, messages, node, one, read

import zarrlift
from zarrlift.archive.nodes import ArrayNode
from zarrlift.core.data_types.v2 import v2_fill_to_scalar
from zarrlift.formats.describe import describe
from zarrlift.formats.zarr_v2.array import V2ArrayDescriber
from zarrlift.formats.zarr_v2.deviations import (
    DEVIATIONS,
    DTYPE_DEVIATIONS,
)
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import MetadataError

BLOSC = {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1, "blocksize": 0}


def chain(tmp_path, **changes):
    found = one(tmp_path, array(**changes))
    assert found.layout is not None, found.problems
    return [codec.to_json() for codec in found.layout.chain.codecs]


def blosc(**changes):
    sane = {"cname": "zstd", "clevel": 3, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
    return {"name": "blosc", "configuration": {**sane, **changes}}


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
PLAIN = {"name": "bytes"}
STRUCT = [["a", "<i4"], ["b", ">f8"]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    {
        "order F of one axis": ({"order": "F", "shape": [4], "chunks": [2]}, [LITTLE]),
        "blosc, all defaults": ({"compressor": {"id": "blosc"}}, [LITTLE, blosc(cname="lz4", clevel=5)]),
        "automatic shuffle of bytes": (
            {"dtype": "|u1", "compressor": {**BLOSC, "shuffle": -1}},
            [PLAIN, blosc(shuffle="bitshuffle", typesize=1)],
        ),
        "blosc takes large items for bytes": (
            {"dtype": "|V300", "fill_value": None, "compressor": {**BLOSC, "shuffle": -1}},
            [PLAIN, blosc(shuffle="shuffle", typesize=1)],
        ),
        "blosc sees what a filter leaves": (
            {"filters": [{"id": "delta", "dtype": "<i4", "astype": "<i2"}], "compressor": BLOSC},
            [
                LITTLE,
                {"name": "numcodecs.delta", "configuration": {"dtype": "<i4", "astype": "<i2"}},
                blosc(typesize=2),
            ],
        ),
        "blosc sees bytes behind a checksum": (
            {"filters": [{"id": "crc32"}], "compressor": BLOSC},
            [LITTLE, {"name": "numcodecs.crc32"}, blosc(typesize=1)],
        ),
    }.values(),
    ids=lambda value: "",
)
def test_order_filters_and_compressor_become_a_chain(tmp_path, changes, expected):
    assert chain(tmp_path, **changes) == expected


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (array(compressor={"id": "zlib", "strength": 1}), "compressor: codec 'zlib' has unknown members"),
        (array(compressor={**BLOSC, "shuffle": None}), "compressor: codec 'blosc': 'shuffle' is invalid"),
        (array(filters=[{"id": "shuffle"}, None]), "filters[1] is not a codec"),
        (array(filters=[{"id": "delta"}]), "filters[0]: codec 'delta' lacks 'dtype'"),
        (array(compressor={"id": "own", "mode": 4}), "unknown codec 'own'"),
        (
            array(dtype="|O", fill_value="", filters=[{"id": "vlen-utf8"}], compressor={"id": "pickle"}),
            "compressor: the object codec 'pickle'",
        ),
        (
            array(dtype="|O", fill_value=None, order="F", filters=[{"id": "json2"}]),
            "zarr-python does not read what was written",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_described_is_refused_by_name(tmp_path, document, said):
    found = one(tmp_path, document)
    assert found.refused
    assert found.layout is None
    assert said in messages(found)
    assert all(problem.node == "" and problem.key for problem in found.problems)


def test_every_problem_of_a_document_comes_at_once(tmp_path):
    wrong = array(shape=[-1], dtype="<x9", order="Z", compressor={"id": "zlib", "level": 99})
    said = messages(one(tmp_path, wrong))
    assert all(word in said for word in ("shape", "'<x9'".strip("'"), "order", "level"))


@pytest.mark.parametrize("key", [".zarray", ".zattrs"])
def test_a_number_of_more_digits_than_python_reads_is_one_clear_problem(tmp_path, key):
    found = node(read(tmp_path, {".zarray": array(), key: b'{"a": ' + b"9" * 10_000 + b"}"}))
    (refusal,) = (problem for problem in found.problems if problem.severity == "refusal")
    assert (refusal.key, "cannot be read" in str(refusal)) == (key, True)


def test_non_finite_numbers_in_attributes_are_handed_on(tmp_path):
    found = node(read(tmp_path, {".zarray": array(), ".zattrs": b'{"a": [NaN, -Infinity]}'}))
    assert repr(found.attributes) == "{'a': [nan, -inf]}"
    assert not found.refused


def test_a_fill_value_of_null_is_the_types_zero_and_is_told_apart(tmp_path):
    found = one(tmp_path, array(fill_value=None))
    assert found.fill_is_null
    assert found.layout is not None
    assert found.layout.fill_value == 0


def test_unknown_members_are_kept_aside_with_a_note(tmp_path):
    found = one(tmp_path, array(lab_id={"number": 7}))
    assert found.extra == {"lab_id": {"number": 7}}
    assert "lab_id" in messages(found, "note")
    assert not found.refused


ROWS = {row.name: row for row in (*DTYPE_DEVIATIONS, *DEVIATIONS)}
DEVIANT = {
    "text-as-objects": (
        array(dtype="|S4", filters=[{"id": "vlen-bytes"}], fill_value="eHk="),
        array(dtype="|O", filters=[{"id": "vlen-bytes"}], fill_value=[120, 121]),
    ),
    "zero-length-text": (array(dtype="<U0", fill_value="x"), array(dtype="<U1", fill_value="x")),
    "format-as-text": (array(zarr_format="2"), array()),
    "zero-length-chunk": (array(shape=[0, 6], chunks=[0, 3]), array(shape=[0, 6], chunks=[1, 3])),
    "nan-for-text": (
        array(dtype="|O", filters=[{"id": "vlen-utf8"}], fill_value=float("nan")),
        array(dtype="|O", filters=[{"id": "vlen-utf8"}], fill_value=""),
    ),
    "date-as-text": (array(dtype="<M8[D]", fill_value="1970-02-01"), array(dtype="<M8[D]", fill_value=31)),
    "object-for-struct": (
        array(dtype=[["a", "<i2"]], fill_value={"a": 258}),
        array(dtype=[["a", "<i2"]], fill_value="AgE="),
    ),
}


@pytest.mark.parametrize("name", DEVIANT)
def test_a_tolerated_deviation_reads_as_its_normal_form_and_is_noted(tmp_path, name):
    deviant, normal = DEVIANT[name]
    found, plain = one(tmp_path / "deviant", deviant), one(tmp_path / "normal", normal)
    assert found.layout is not None, found.problems
    assert found.layout == plain.layout
    assert found.fill_is_null == plain.fill_is_null
    assert f"{name}; found " in messages(found, ROWS[name].severity)


def test_each_other_deviation_is_in_a_fixture():
    described = (Path(__file__).parents[1] / "described.txt").read_text(encoding="utf-8")
    assert [name for name in ROWS.keys() - DEVIANT.keys() if f": {name}; found " not in described] == []


def test_notes_on_documents_with_equal_members_quote_the_shape_of_each(tmp_path):
    documents = {f"{n}/.zarray": array(shape=[0, n], chunks=[0, n]) for n in (3, 5)}
    archive = read(tmp_path, {".zgroup": {"zarr_format": 2}, **documents})
    notes = {str(node.problems) for node in archive.nodes if node.path}
    assert [f"[0,{n}]" in text for n, text in zip((3, 5), sorted(notes), strict=True)] == [True, True]


DATES = {  # as zarr-python 2.18.7 and 3.0.10 read them
    ("<M8[Y]", "2001"): 31,
    ("<M8[s]", "2001"): 978307200,
    (">M8[s]", "2001-02-03T04:05:06"): 981173106,
    ("<M8[s]", "2001-02-03 04:05:06"): 981173106,
    ("<M8[D]", "-005-01-01"): -721354,
    ("<M8[ns]", "1969-12-31T23:59:59.999999999"): -1,
    ("<M8[25s]", "1970-01-01T00:00:50"): 2,
}


@pytest.mark.parametrize(("dtype", "text"), DATES)
def test_dates_as_text_are_read_as_zarr_python_reads_them(tmp_path, dtype, text):
    found = one(tmp_path, array(dtype=dtype, fill_value=text))
    assert found.layout is not None, found.problems
    assert found.layout.fill_value == DATES[dtype, text]


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        *(("<M8[D]", text) for text in ("2001-02-03T04:05:06", "today", "now", "2001-13-01", "", "9" * 18)),
        ("<M8[ns]", "2500-01-01"),
        ("<M8", "2001"),
        ("<M8[25s]", "1970-01-01T00:00:51"),
    ],
)
def test_texts_that_are_no_date_of_the_unit_are_refused(tmp_path, dtype, text):
    assert "bad fill value" in messages(one(tmp_path, array(dtype=dtype, fill_value=text)), "refusal")


def test_the_format_of_a_group_may_be_text_too(tmp_path):
    archive = read(tmp_path, {".zgroup": {"zarr_format": "2"}})
    (problem,) = archive.nodes[0].problems
    assert (problem.kind, problem.severity, problem.key) == ("deviation", "note", ".zgroup")


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ({"id": "delta", "dtype": "u1"}, {"id": "delta", "dtype": "|u1"}),
        ({"id": "delta", "dtype": "i4", "astype": "=i2"}, {"id": "delta", "dtype": "<i4", "astype": "<i2"}),
        (
            {"id": "astype", "encode_dtype": "int16", "decode_dtype": "int32"},
            {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i4"},
        ),
    ],
    ids=lambda item: item["id"],
)
def test_data_types_of_filters_without_a_byte_order_are_taken_like_the_arrays(tmp_path, named, meant):
    dtype = "|u1" if named.get("dtype") == "u1" else "<i4"
    found = one(tmp_path / "named", array(dtype=dtype, filters=[named]))
    plain = one(tmp_path / "meant", array(dtype=dtype, filters=[meant]))
    assert found.layout is not None, found.problems
    assert found.layout == plain.layout
    assert "dtype-without-byte-order; " in messages(found, "warning")
    assert "dtype-without-byte-order; " not in messages(plain, "warning")


@pytest.mark.parametrize(("text", "second"), [("YQ==", "base64 of \"b'a'\""), ("ab!", "broken base64")])
def test_a_text_as_fill_value_of_bytes_is_refused_with_both_readings(tmp_path, text, second):
    found = one(tmp_path, array(dtype="|O", filters=[{"id": "vlen-bytes"}], fill_value=text))
    assert found.refused
    (problem,) = (p for p in found.problems if p.severity == "refusal")
    assert problem.found == f'"{text}": the text itself (zarr-python 2), or {second} (zarr-python 3)'


LYING_FILTERS = {
    "floats of another size": ("<i4", {"id": "delta", "dtype": "<f8"}),
    "floats over whole numbers": ("<i4", {"id": "delta", "dtype": "<f4"}),
    "another size": ("<i4", {"id": "delta", "dtype": "<i2"}),
    "scaled whole numbers": ("<i4", {"id": "fixedscaleoffset", "dtype": "<f4", "scale": 1, "offset": 0}),
    "digits of whole numbers": ("<i4", {"id": "quantize", "dtype": "<f4", "digits": 1}),
    "decoded to another type": ("<i4", {"id": "astype", "decode_dtype": "<f4", "encode_dtype": "<f8"}),
}


@pytest.mark.parametrize(("dtype", "codec"), LYING_FILTERS.values(), ids=LYING_FILTERS)
def test_a_filter_for_another_type_than_the_arrays_is_refused(tmp_path, dtype, codec):
    found = one(tmp_path, array(dtype=dtype, filters=[codec]))
    assert found.refused
    assert "does not match the filter's input" in messages(found, "refusal")


@pytest.mark.parametrize("dtype", ["<M8[ns]", "<u8", ">i8", "<f8"])
def test_differences_of_the_same_bits_as_whole_numbers_are_fine(tmp_path, dtype):
    assert not one(tmp_path, array(dtype=dtype, filters=[{"id": "delta", "dtype": "<i8"}])).refused


def test_times_without_unit_stay_without_unit(tmp_path):
    found = one(tmp_path, array(dtype="<m8"))
    assert found.layout is not None
    assert found.layout.data_type.configuration["unit"] == "generic"


# ----- whatever a document says


DTYPES = ("<i4", ">f8", "|O", "<M8", "<M8[ns]", "|S3", "<U0", "|V5", "f4,i4")
CODECS = ("blosc", "zlib", "delta", "astype", "categorize", "vlen-utf8", "json2")
KEYS = ("id", "level", "shuffle", "typesize", "dtype", "astype", "labels")
JSON = json_values((*DTYPES, *CODECS, "C", "F", ".", "/"), keys=KEYS)


@given(st.dictionaries(st.sampled_from([*ARRAY, "attributes"]), JSON, max_size=4))
def test_any_document_gives_a_layout_or_problems_never_another_error_and_always_the_same(changes):
    document, describer = json.loads(json.dumps(array(**changes))), V2ArrayDescriber()
    found = describer.describe(document)
    assert repr(found) == repr(describer.describe(document)) == repr(V2ArrayDescriber().describe(document))
    if not found.refused:
        assert None not in (found.data_type, found.chain)
        assert all(length > 0 for length in found.chunk_shape)
        assert len(found.shape) == len(found.chunk_shape)


# `<U1` over characters of one byte, as netcdf-c 4.9.0 writes them: what a chunk's length tells, no more.


CHARACTERS = array(dtype="<U1", fill_value="")
"""Chunks of 2 x 3: 24 bytes of text, or 6 characters of one byte."""
BYTES = "null_terminated_bytes"


def found(root: Path, document: dict[str, Any], **chunks: bytes) -> ArrayNode:
    """The array at the root with these chunks, by key with `_` for `.`."""
    entries = {".zarray": document} | {key.strip("k").replace("_", "."): data for key, data in chunks.items()}
    result = node(read(root, entries))
    assert isinstance(result, ArrayNode)
    return result


@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
@pytest.mark.parametrize("path", ["plane", "line", "filled", "letter"])
def test_with_the_mark_and_without_it_netcdf_characters_are_bytes(mode: str, path: str) -> None:
    one = archive(f"netcdf-4.9.0/{mode}")
    seen = node(describe(LocalStorage(one.path)), path)
    assert isinstance(seen, ArrayNode)
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES
    assert "text-of-bytes" in messages(seen, "note" if mode == "nczarr" else "warning")


@pytest.mark.parametrize("key", ["k1_1", "k0_0"])
def test_the_chunk_that_is_there_tells(key: str, tmp_path: Path) -> None:
    seen = found(tmp_path, CHARACTERS, **{key: b"abcdef"})
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES
    assert "6 bytes" in messages(seen, "warning")


def test_a_chunk_below_folders_tells_too(tmp_path: Path) -> None:
    seen = node(read(tmp_path, {".zarray": {**CHARACTERS, "dimension_separator": "/"}, "1/0": b"abcdef"}))
    assert isinstance(seen, ArrayNode)
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        (CHARACTERS, bytes(24)),
        (CHARACTERS, b"abcde"),
        (CHARACTERS, b""),
        (CHARACTERS, b"a\0\0\0b\0"),  # text, cut to its first quarter
        ({**CHARACTERS, "dtype": ">U1"}, b"abcdef"),
        ({**CHARACTERS, "dtype": "<U2"}, b"abcdef"),
        ({**CHARACTERS, "compressor": {"id": "zlib", "level": 1}}, b"abcdef"),
        ({**CHARACTERS, "filters": [{"id": "shuffle", "elementsize": 2}]}, b"abcdef"),
    ],
)
def test_everything_else_stays_what_it_says(document: dict[str, Any], chunk: bytes, tmp_path: Path) -> None:
    seen = found(tmp_path, document, k0_0=chunk)
    assert seen.layout is not None
    assert seen.layout.data_type.name == "fixed_length_utf32"
    assert "text-of-bytes" not in messages(seen, "warning")


def test_without_a_chunk_it_is_text(tmp_path: Path) -> None:
    seen = found(tmp_path, CHARACTERS)
    assert seen.layout is not None
    assert seen.layout.data_type.name == "fixed_length_utf32"


def test_where_a_compressor_hides_the_length_the_error_says_what_to_do(tmp_path: Path) -> None:
    document = {**CHARACTERS, "compressor": {"id": "zlib", "level": 1}}
    source = tmp_path / "source.zarr"
    found(source, document, k0_0=zlib.compress(b"abcdef"), k0_1=zlib.compress(b"abcde"))
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    advice = {p.key: p.advice or "" for p in outcome.problems if p.kind == "chunk"}
    assert "set dtype to |S1" in advice["0.0"]
    assert "backup" in advice["0.1"]


@pytest.mark.parametrize("text", ["-", "x", " ", "="])
def test_a_character_is_its_own_fill_value(text: str) -> None:
    """netcdf-c writes it so; base64 of one byte has four characters."""
    assert v2_fill_to_scalar(text, np.dtype("S1")) == text.encode()


def test_what_may_be_base64_is_still_no_guess() -> None:
    assert v2_fill_to_scalar("LQ==", np.dtype("S1")) == b"-"
    with pytest.raises(MetadataError):
        v2_fill_to_scalar("--", np.dtype("S1"))

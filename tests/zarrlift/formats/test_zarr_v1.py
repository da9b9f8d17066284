"""Zarr v1: documents put in v2's terms, and trees of them."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, json_values
from tests.support.v2_trees import messages, node, tree, zarr_v1

from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.formats.zarr_v1 import in_v2_terms
from zarrstack.core.errors import ZarrstackError

# All members that the section "Metadata" of the specification asks for.
META = {
    "chunks": [50, 30],
    "compression": "blosc",
    "compression_opts": {"clevel": 7, "cname": "zstd", "shuffle": 1},
    "dtype": "<f8",
    "fill_value": None,
    "order": "C",
    "shape": [600, 90],
    "zarr_format": 1,
}


def meta(*, without: str = "", **changes):
    """A `meta` document that differs from the one above."""
    return {name: value for name, value in {**META, **changes}.items() if name != without}


def read(root, entries, **options):
    """The archive that these files make."""
    return zarr_v1.read(tree(root, entries), **options)


def one(root, document):
    """The array at the root that this `meta` makes."""
    return node(read(root, {"meta": document, "attrs": {}}))


# ----- one document


def test_lzma_filters_are_said_for_raw_streams_only():
    """Other streams name their filters themselves, and numcodecs decodes none that are said twice."""
    filters = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
    for number, kept in ((1, None), (2, None), (3, filters)):
        options = {"format": number, "check": 0, "preset": None, "filters": filters}
        document = in_v2_terms(meta(compression="lzma", compression_opts=options))
        assert document["compressor"]["filters"] == kept


@pytest.mark.parametrize(
    ("dtype", "fill", "v3"),
    [
        ("<i4", 7, 7),
        ("<f8", -0.0, -0.0),
        ("<f4", float("inf"), "Infinity"),
        ("<f8", float("nan"), "NaN"),
        ("|b1", True, True),
        ("|S3", "ab", base64.b64encode(b"ab").decode()),
        # Four characters that v2 would take for base64 of three bytes.
        ("|S4", "abcd", base64.b64encode(b"abcd").decode()),
        ("|S3", "", ""),
        ("<U3", "é", "é"),
        ([["r", "|u1"], ["g", "<u2"]], [1, 2], base64.b64encode(b"\1\2\0").decode()),
        (
            [["p", [["x", "|u1"], ["y", "|u1"]]], ["q", "|u1"]],
            [[1, 2], 3],
            base64.b64encode(b"\1\2\3").decode(),
        ),
    ],
    ids=str,
)
def test_fill_values_stand_as_python_writes_them(dtype, fill, v3, tmp_path):
    array = one(tmp_path, meta(dtype=dtype, fill_value=fill))
    assert not array.refused, array.problems
    assert repr(array.layout.fill_value) == repr(v3)  # which tells -0.0 from 0.0
    assert not array.fill_is_null


REFUSED = {
    "options for none": (meta(compression="none", compression_opts=1), "has options"),
    "options of another kind": (meta(compression_opts=5), "must be an object"),
    "unknown options": (meta(compression_opts={"cname": "lz4", "speed": 1}), "unknown compression_opts"),
    "an unknown blosc compressor": (meta(compression_opts={"cname": "lz5"}), "lz5"),
    "a struct's list of another length": (meta(dtype=[["r", "|u1"]], fill_value=[1, 2]), "fill"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_described_is_refused_by_name(case, tmp_path):
    document, says = REFUSED[case]
    array = one(tmp_path, document)
    assert array.refused
    assert says in messages(array)
    assert all(problem.key == "meta" for problem in array.problems if problem.severity == "refusal")


JSON = json_values(
    ["<f8", "|S3", "F", "zlib", "blosc", "lzma", "none"], keys=("cname", "format", "filters", "x")
)


@examples(120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from([*META, "x"]), JSON, max_size=3))
def test_nothing_escapes_whatever_a_document_holds(tmp_path, changes):
    document = meta(**changes)
    with contextlib.suppress(ZarrstackError):
        in_v2_terms(document)
    array = one(tmp_path, json.dumps(document).encode())
    assert (array.layout is None) == array.refused


# ----- trees

SMALL = meta(shape=[4, 6], chunks=[2, 3], dtype="<i4", fill_value=0)


def test_directories_that_hold_arrays_are_implicit_groups(tmp_path):
    archive = read(tmp_path, {"a/b/meta": SMALL, "a/b/attrs": {"foo": 42}, "a/b/0.0": b"x", "c/meta": SMALL,
                              "c/attrs": {}, "empty/notes.txt": b"mine"})  # fmt: skip
    assert [(type(found), found.path) for found in archive.nodes] == [
        (GroupNode, ""),
        (GroupNode, "a"),
        (ArrayNode, "a/b"),
        (ArrayNode, "c"),
    ]
    assert all(found.implicit for found in archive.nodes if isinstance(found, GroupNode))
    assert node(archive, "a/b").attributes == {"foo": 42}
    assert [document.key for document in node(archive, "a/b").documents] == ["a/b/meta", "a/b/attrs"]
    assert [problem.key for problem in archive.problems] == ["empty/notes.txt"]


def test_missing_attributes_are_none(tmp_path):
    array = node(read(tmp_path, {"meta": SMALL}))
    assert (array.attributes, array.refused) == ({}, False)


def test_an_array_of_zarr_0_is_refused_by_name(tmp_path):
    archive = read(
        tmp_path, {"new/meta": SMALL, "old/__zmeta__": b"\x80\x03}", "old/__zdata__/0.0.blosc": b"x"}
    )
    assert "zarr 0.x" in messages(node(archive, "old"))
    assert not node(archive, "new").refused


def test_members_that_are_not_known_are_kept_aside(tmp_path):
    array = one(tmp_path, {**SMALL, "colour": "red"})
    assert (array.extra, array.refused) == ({"colour": "red"}, False)


def test_an_array_without_axes_has_no_chunk(tmp_path):
    array = one(tmp_path, meta(shape=[], chunks=[], compression="none", compression_opts=None))
    assert not array.refused
    assert "zero-dimensional" in messages(array, "note")

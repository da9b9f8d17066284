"""What lies in a place, and what is said where it is something else."""

from __future__ import annotations

import pytest
from formats.v2_trees import ARRAY, GROUP, tree

from zarrlift.formats.detection import detect
from zarrstack.core.errors import MetadataError, UsageError

DRAFT = {"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "extensions": []}


@pytest.mark.parametrize(
    "entries",
    [
        {".zarray": ARRAY},
        {".zgroup": GROUP},
        {".zmetadata": {}},
        {"a/b/.zarray": ARRAY, "a/b/0.0": b"x"},
        {".zgroup": b"not even JSON"},
        {".zgroup": GROUP, "attributes.json": {"mine": 1}, "meta": b"anything"},
    ],
    ids=["array", "group", "consolidated", "implicit root", "broken", "files of any name"],
)
def test_zarr_v2_is_found(tmp_path, entries):
    assert detect(tree(tmp_path, entries)) == "zarr2"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"zarr.json": {"zarr_format": 3, "node_type": "group"}}, r"this is Zarr v3 already; .*zarr\.json"),
        ({"photo.jpg": b"", "b/c.txt": b""}, r"found b/, photo\.jpg in .*expected one of \.zarray, \.zgroup"),
        ({}, "found nothing in"),
    ],
    ids=["v3", "other files", "empty"],
)
def test_anything_else_is_named(tmp_path, entries, said):
    with pytest.raises(UsageError, match=said):
        detect(tree(tmp_path, entries))


def test_zarr_v1_is_found(tmp_path):
    assert detect(tree(tmp_path, {"a/meta": {"zarr_format": 1}, "a/attrs": {}})) == "zarr1"


@pytest.mark.parametrize(
    "entries",
    [
        {"attributes.json": {"n5": "2.5.1"}},
        {"attributes.json": {"dimensions": [1], "blockSize": [1], "dataType": "uint8"}},
        {"attributes.json": {"dimensions": [1], "dataType": "uint8"}},
        {"group/a/attributes.json": {"dimensions": [1], "blockSize": [1], "dataType": "uint8"}},
    ],
    ids=["group", "dataset", "dataset that lost a member", "implicit root"],
)
def test_n5_is_found(tmp_path, entries):
    assert detect(tree(tmp_path, entries)) == "n5"


def test_the_2022_draft_of_zarr_v3_is_found(tmp_path):
    assert detect(tree(tmp_path, {"zarr.json": DRAFT})) == "zarr3-draft"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the document is empty"),
        (b'{"zarr_format', "the document is not JSON"),
        ([], "the document is not a JSON object"),
        ({}, "zarr_format names no format; found none; expected 3, or a URI"),
        ({"zarr_format": ["https://purl.org/zarr/spec/core/3.0"]}, "zarr_format names no format"),
    ],
    ids=["empty", "truncated", "a list", "no format", "format in a list"],
)
@pytest.mark.parametrize("format", [None, "zarr3-draft"], ids=["any", "asked for"])
def test_a_zarr_json_that_says_no_format_is_told_at_its_key(tmp_path, content, said, format):
    with pytest.raises(MetadataError, match=said) as caught:
        detect(tree(tmp_path, {"zarr.json": content}), format=format)
    assert caught.value.problem.key == "zarr.json"


def test_two_formats_are_refused_with_both_named_unless_one_is_asked_for(tmp_path):
    storage = tree(tmp_path, {".zgroup": GROUP, "zarr.json": {"zarr_format": 3}})
    with pytest.raises(
        UsageError, match=r"Zarr v2 group \(\.zgroup\) and Zarr v3 .*--from zarr2 or --from zarr3"
    ):
        detect(storage)
    assert detect(storage, format="zarr2") == "zarr2"


def test_asking_for_what_is_not_there_says_what_is(tmp_path):
    storage = tree(tmp_path, {"zarr.json": {"zarr_format": 3}})
    with pytest.raises(UsageError, match="no zarr2 archive is here; found Zarr v3 already"):
        detect(storage, format="zarr2")


def test_links_do_not_lead_the_search_astray(tmp_path):
    storage = tree(tmp_path, {"a/x.txt": b""})
    (tmp_path / "a/loop").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="no archive is here"):
        detect(storage)

"""What lies in a place, and what is said where it is something else."""

from __future__ import annotations

import shutil
import uuid
import zipfile

import fsspec
import pytest
from tests.support.fixtures_index import archive, archives
from tests.support.v2_trees import ARRAY, GROUP, tree

from zarrlift.formats.describe import describe
from zarrlift.formats.detect import detect
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import MetadataError, UsageError

V1 = {"zarr_format": 1}
V3 = {"zarr_format": 3, "node_type": "group"}
N5 = {"dimensions": [1], "blockSize": [1], "dataType": "uint8"}
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
        ({"photo.jpg": b"", "b/c.txt": b""}, r"found b/, photo\.jpg in .*expected one of \.zarray, \.zgroup"),
        ({}, "found nothing in"),
    ],
    ids=["other files", "empty"],
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


def test_zarr_v3_is_found(tmp_path):
    assert detect(tree(tmp_path, {"zarr.json": {"zarr_format": 3, "node_type": "group"}})) == "zarr3"


def test_the_2022_draft_of_zarr_v3_is_found(tmp_path):
    assert detect(tree(tmp_path, {"zarr.json": DRAFT})) == "zarr3-draft"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the document is empty"),
        (b'{"zarr_format', "the document is not JSON"),
        ([], "the document is not a JSON object"),
        ({}, "zarr_format is not a valid version; found none; expected 3, or a URI"),
        ({"zarr_format": ["https://purl.org/zarr/spec/core/3.0"]}, "zarr_format is not a valid version"),
        ({"zarr_format": 3, "metadata_encoding": "json"}, "node_type is neither array nor group; found none"),
    ],
    ids=["empty", "truncated", "a list", "no format", "format in a list", "no kind of node"],
)
@pytest.mark.parametrize("format", [None, "zarr3-draft"], ids=["any", "asked for"])
def test_a_zarr_json_that_says_no_format_is_told_at_its_key(tmp_path, content, said, format):
    with pytest.raises(MetadataError, match=said) as caught:
        detect(tree(tmp_path, {"zarr.json": content}), format=format)
    assert caught.value.problem.key == "zarr.json"


def test_a_broken_root_of_zarr_v3_does_not_hide_what_lies_below_it(tmp_path):
    entries = {"zarr.json": b"{", "a/zarr.json": {"zarr_format": 3, "node_type": "array"}}
    assert detect(tree(tmp_path, entries)) == "zarr3"


def test_two_formats_are_refused_with_both_named_unless_one_is_asked_for(tmp_path):
    storage = tree(tmp_path, {".zgroup": GROUP, "zarr.json": {"zarr_format": 3}})
    with pytest.raises(
        UsageError, match=r"Zarr v2 group \(\.zgroup\) and Zarr v3 .*--from zarr2 or --from zarr3"
    ):
        detect(storage)
    assert detect(storage, format="zarr2") == "zarr2"


def test_a_format_that_is_asked_for_is_looked_for_below_another(tmp_path):
    """As after work in place on an archive whose root no document of its own format makes."""
    entries = {"zarr.json": V3, "a/zarr.json": V3, "a/b/meta": V1, "a/b/zarr.json": V3}
    storage = tree(tmp_path, entries)
    assert detect(storage, format="zarr1") == "zarr1"
    assert detect(storage, beside_v3=True) == "zarr1"


def test_nodes_of_different_formats_are_no_archive_until_one_is_asked_for(tmp_path):
    storage = tree(tmp_path, {"a/.zarray": ARRAY, "b/meta": V1, "c/attributes.json": N5})
    said = r"Zarr v2 array \(a/\.zarray\) and Zarr v1 \(b/meta\) and N5 .*zarr2 or --from zarr1 or --from n5"
    with pytest.raises(UsageError, match=said):
        detect(storage)
    assert [detect(storage, format=name) for name in ("zarr1", "zarr2", "n5")] == ["zarr1", "zarr2", "n5"]


def test_a_format_that_every_node_has_is_that_of_the_archive(tmp_path):
    assert detect(tree(tmp_path, {"a/.zarray": ARRAY, "a/meta": V1, "b/meta": V1})) == "zarr1"


NAMES = {"zarr_v1": "zarr1", "zarr_v2": "zarr2", "n5": "n5", "zarr_v3_draft": "zarr3-draft"}
"""Formats as the fixtures' folders are called, and as we call them."""


@pytest.mark.parametrize("expected", [one for name in NAMES for one in archives(name)], ids=str)
def test_every_fixture_is_taken_for_what_it_is(expected):
    assert detect(open_storage(expected.path)) == NAMES[expected.format]


WRITTEN = (
    "zarr_v1/zarr-1.1/root",
    "zarr-2.18/stores/directory",
    "n5/java-4.0.2/edges",
    "zarr_v3_draft/zarr-2.18/tree",
)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("folder", ["", "packed/"], ids=["root", "below folders"])
def test_a_zip_file_is_taken_for_what_is_in_it(name, folder, tmp_path):
    root = archive(name).path
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as packed:
        for file in root.rglob("*"):
            if file.is_file():
                packed.write(file, folder + file.relative_to(root).as_posix())
    there = describe(open_storage(tmp_path / "it.zip"))
    assert there.format == NAMES[archive(name).format]
    assert {node.path for node in there.nodes} == {node.path for node in describe(open_storage(root)).nodes}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_url_is_taken_for_what_lies_there(name):
    root, url = archive(name).path, f"memory://{uuid.uuid4()}/it"
    fsspec.filesystem("memory").put(f"{root}/", url, recursive=True)
    there = describe(open_storage(url))
    assert there.format == NAMES[archive(name).format]
    assert {node.path for node in there.nodes} == {node.path for node in describe(open_storage(root)).nodes}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_archive_is_found_below_folders_that_no_document_makes(name, tmp_path):
    shutil.copytree(archive(name).path, tmp_path / "it/lies/here")
    assert detect(open_storage(tmp_path / "it")) == NAMES[archive(name).format]


def test_asking_for_what_is_not_there_says_what_is(tmp_path):
    storage = tree(tmp_path, {"zarr.json": {"zarr_format": 3, "node_type": "group"}})
    with pytest.raises(UsageError, match="no zarr2 archive found; found Zarr v3 already"):
        detect(storage, format="zarr2")


def test_a_document_that_would_tell_but_is_no_json_is_named(tmp_path):
    storage = tree(tmp_path, {"attributes.json": b'/* a licence */\n{"n5": "2.0.0"}', "setup0/s0/0/0": b""})
    with pytest.raises(
        UsageError, match="json would identify the format, but is not a JSON object"
    ) as caught:
        detect(storage)
    assert caught.value.problem.message == "no archive found"


def test_links_do_not_lead_the_search_astray(tmp_path):
    storage = tree(tmp_path, {"a/x.txt": b""})
    (tmp_path / "a/loop").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="no archive found"):
        detect(storage)

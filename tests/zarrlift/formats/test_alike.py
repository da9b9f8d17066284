"""What every reader of directories says alike: strays, two formats in one place, what lies where none may."""

from __future__ import annotations

import errno

import pytest
from tests.support.format_readers import n5, zarr_v1, zarr_v2, zarr_v3
from tests.support.v2_trees import messages, node, tree

from zarrlift.archive.nodes import ArrayNode
from zarrlift.core.problems import any_refusal
from zarrlift.storage.local.storage import LocalStorage

SHAPE = {"shape": [4], "chunks": [2], "dtype": "|u1", "fill_value": 0, "order": "C"}
V1 = {"zarr_format": 1, **SHAPE, "compression": None, "compression_opts": None}
V2 = {"zarr_format": 2, **SHAPE, "compressor": None, "filters": None}
V3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
}
N5 = {"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}}
CASES = [
    pytest.param(zarr_v1, "meta", V1, id="v1"),
    pytest.param(zarr_v2, ".zarray", V2, id="v2"),
    pytest.param(zarr_v3, "zarr.json", V3, id="v3"),
    pytest.param(n5, "attributes.json", N5, id="n5"),
]
"""A reader, what it calls an array's document, and one."""


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_files_of_no_node_are_told_once_and_those_in_a_lost_array_not(reader, name, document, tmp_path):
    entries = {
        f"a/{name}": document,
        "notes.txt": b"",
        "docs/page.txt": b"",
        "docs/.DS_Store": b"",
        "docs/._page.txt": b"",
        "lost/0": b"00",
        "lost/page.txt": b"",
    }
    archive = reader.read(tree(tmp_path, entries))
    assert [(p.kind, p.severity, p.key) for p in archive.problems] == [
        ("stray", "note", "notes.txt"),
        ("stray", "note", "docs/page.txt"),
    ]
    assert "without an array; found the key 'lost/0'" in messages(node(archive, "lost"))
    assert f"expected a document 'lost/{name}'" in messages(node(archive, "lost"))
    assert not node(archive, "a").refused


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_of_many_strays_the_first_are_named(reader, name, document, tmp_path):
    archive = reader.read(tree(tmp_path, {f"a/{name}": document, **{f"{n:02}.txt": b"" for n in range(23)}}))
    assert [p.key for p in archive.problems] == [*(f"{n:02}.txt" for n in range(20)), None]
    assert archive.problems[-1].message == "3 more files that belong to no node are not copied"


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_a_node_inside_an_array_is_refused_and_the_array_is_not(reader, name, document, tmp_path):
    archive = reader.read(tree(tmp_path, {f"a/{name}": document, f"a/b/{name}": document}))
    inner = node(archive, "a/b")
    assert isinstance(inner, ArrayNode)
    assert inner.layout is None
    assert "a node is inside an array" in messages(inner)
    assert not node(archive, "a").refused


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_an_array_whose_directory_cannot_be_listed_is_refused_and_the_others_go_on(
    reader, name, document, tmp_path, monkeypatch
):
    storage = tree(tmp_path, {f"bad/{name}": document, f"good/{name}": document})
    real = LocalStorage.scandir

    def scandir(self, prefix):
        if prefix == "bad":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, prefix)

    monkeypatch.setattr(LocalStorage, "scandir", scandir)
    archive = reader.read(storage)
    bad = node(archive, "bad")
    assert "Permission denied" in messages(bad)
    assert (bad.layout, bad.refused) == (None, True)
    assert not node(archive, "good").refused


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_another_format_beside_an_array_is_refused_unless_this_one_was_asked_for(
    reader, name, document, tmp_path
):
    other, content = (".zarray", V2) if name != ".zarray" else ("zarr.json", V3)
    storage = tree(tmp_path, {f"a/{name}": document, f"a/{other}": content})
    archive = reader.read(storage)
    found = f"{archive.format} ({name}) and {'zarr3' if other == 'zarr.json' else 'zarr2'} ({other})"
    assert [(p.kind, p.key, p.found) for p in node(archive, "a").problems] == [
        ("format", f"a/{other}", found)
    ]
    assert not any_refusal(reader.read(storage, only=True).all_problems())


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_every_group_above_a_node_is_there_with_what_is_wrong_with_its_name(reader, name, document, tmp_path):
    archive = reader.read(tree(tmp_path, {f"a/__b/c/{name}": document}))
    assert [found.path for found in archive.nodes] == ["", "a", "a/__b", "a/__b/c"]
    assert [(p.kind, p.severity) for p in node(archive, "a/__b").problems] == [("name", "warning")]
    assert node(archive, "a").problems == ()


@pytest.mark.parametrize(
    ("reader", "name", "key"), [(zarr_v3, "zarr.json", "a/0/0"), (n5, "attributes.json", "a/0")]
)
def test_an_array_whose_document_is_unreadable_is_refused_for_that_alone(reader, name, key, tmp_path):
    document = N5 if reader is n5 else V3
    archive = reader.read(tree(tmp_path, {f"a/{name}": b"{", key: b"x", f"b/{name}": document}))
    assert [found.path for found in archive.nodes if found.refused] == ["a"]
    assert "the document is not JSON" in messages(node(archive, "a"))


def test_lone_blocks_inside_others_are_told_too(tmp_path):
    archive = n5.read(tree(tmp_path, {"a/attributes.json": N5, "lost/0": b"x", "lost/in/0": b"x"}))
    assert [found.path for found in archive.nodes if found.refused] == ["lost", "lost/in"]

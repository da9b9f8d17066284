"""What every reader of directories says alike, and that one listing does: strays, two formats, lone ones."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import v3_array
from tests.support.v2_trees import GROUP, array, messages, n5, node, read, tree, zarr_v1, zarr_v2, zarr_v3

from zarrlift.archive.chunk_inventory import Inventory, inventory_by_names, take_inventory
from zarrlift.archive.nodes import Archive, ArrayNode
from zarrlift.core.problems import any_refusal
from zarrlift.formats.tree import walk
from zarrlift.formats.tree.directory import chunk_names, list_directory
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import UsageError, ZarrstackError

SHAPE = {"shape": [4], "chunks": [2], "dtype": "|u1", "fill_value": 0, "order": "C"}
V1 = {"zarr_format": 1, **SHAPE, "compression": None, "compression_opts": None}
V2 = {"zarr_format": 2, **SHAPE, "compressor": None, "filters": None}
V3 = v3_array([4], [2], "uint8", codecs=[{"name": "bytes"}])
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


INNER = [
    *(pytest.param(*case.values, "b", id=f"{case.id}-b") for case in CASES),
    (n5, "attributes.json", N5, "9"),
]


@pytest.mark.parametrize(("reader", "name", "document", "inner"), INNER)
def test_a_node_inside_an_array_is_refused_and_the_array_is_not(reader, name, document, inner, tmp_path):
    entries = {f"a/{name}": document, "a/0": b"00", f"a/{inner}/{name}": document}
    archive = reader.read(tree(tmp_path, entries))
    found = node(archive, f"a/{inner}")
    assert isinstance(found, ArrayNode)
    assert found.layout is None
    assert "a node is inside an array; found /a is an array" in messages(found)
    assert found.problems[0].key == f"a/{inner}/{name}"
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


@pytest.mark.parametrize(("reader", "name", "document"), CASES)
def test_an_array_whose_document_is_unreadable_is_refused_for_that_alone(reader, name, document, tmp_path):
    broken = {"bad": b"{", "list": b"[]", "worse": b"\xff"}
    documents = {f"{path}/{name}": content for path, content in broken.items()}
    archive = reader.read(tree(tmp_path, {**documents, "bad/0": b"x", f"good/{name}": document}))
    assert {found.path: found.refused for found in archive.nodes} == {
        "": False, "good": False, **dict.fromkeys(broken, True)
    }  # fmt: skip
    for path in broken:
        found = node(archive, path)
        assert isinstance(found, ArrayNode)
        assert [problem.key for problem in found.problems if problem.severity == "refusal"] == [
            f"{path}/{name}"
        ]
    assert "the document is not JSON" in messages(node(archive, "bad"))


@pytest.mark.parametrize(
    ("reader", "title"), [(zarr_v1, "Zarr v1"), (zarr_v3, "Zarr v3"), (n5, "N5")], ids=["v1", "v3", "n5"]
)
def test_without_documents_there_is_no_archive(reader, title, tmp_path):
    with pytest.raises(UsageError, match=f"no {title} archive found"):
        reader.read(tree(tmp_path, {"attrs": {}, "notes.txt": b"mine", "a/b.txt": b"mine"}))


def test_lone_blocks_inside_others_are_told_too(tmp_path):
    archive = n5.read(tree(tmp_path, {"a/attributes.json": N5, "lost/0": b"x", "lost/in/0": b"x"}))
    assert [found.path for found in archive.nodes if found.refused] == ["lost", "lost/in"]


# A local directory is listed once: what is read of an archive does not depend on it.

DOCUMENTS = {
    ".zarray": array(without="dimension_separator"),
    ".zgroup": GROUP,
    ".zattrs": {"units": "m"},
    "zarr.json": V3,
    "attributes.json": N5,
    "meta": V1,
}
NAMES = st.sampled_from(
    [*DOCUMENTS, "0", "1", "0.0", "1.1", "10.0", "0.0.0", "0x", "a", "A", "__b", "c", ".DS_Store", ".git"]
)
FILE = st.sampled_from(["file", "link to a file", "link to nowhere"])
TREES = st.recursive(
    FILE,
    lambda inner: st.dictionaries(NAMES, inner | st.just("link to a directory"), max_size=5),
    max_leaves=15,
)


def make(root: Path, what: object) -> None:
    """A file, a link or a directory."""
    name = root.name
    if isinstance(what, dict):
        root.mkdir()
        for inner, content in what.items():
            make(root / inner, content)
    elif what == "file":
        root.write_text(json.dumps(DOCUMENTS[name]) if name in DOCUMENTS else "x")
    elif what == "link to a file":
        (root.parent / f"to {name}").write_text(json.dumps(DOCUMENTS.get(name, 1)))
        root.symlink_to(f"to {name}")
    else:
        root.symlink_to("gone" if what == "link to nowhere" else "..")


def seen(reader, storage: LocalStorage) -> Archive | str:
    """What a reader makes of a place, but for what only a listing can tell."""
    try:
        archive = reader.read(storage)
    except ZarrstackError as error:
        return str(error)
    nodes = [
        replace(each, chunk_names=None) if isinstance(each, ArrayNode) else each for each in archive.nodes
    ]
    return replace(archive, nodes=tuple(nodes))


@given(content=TREES.filter(lambda made: isinstance(made, dict)))
def test_an_archive_is_the_same_whether_its_directories_can_be_listed_at_once_or_not(content):
    with TemporaryDirectory() as place:
        make(Path(place, "a"), content)
        storage = LocalStorage(Path(place, "a"))
        for reader in (zarr_v1, zarr_v2, zarr_v3, n5):
            with mock.patch.object(walk, "list_directory", return_value=None):
                asked = seen(reader, storage)
            assert seen(reader, storage) == asked


@given(content=TREES.filter(lambda made: isinstance(made, dict)), reader=st.sampled_from([zarr_v2, n5]))
def test_chunks_that_the_walk_has_seen_are_those_of_another_listing(content, reader):
    with TemporaryDirectory() as place:
        make(Path(place, "a"), content)
        storage = LocalStorage(Path(place, "a"))
        try:
            nodes = reader.read(storage).nodes
        except ZarrstackError:
            return
        for each in nodes:
            if isinstance(each, ArrayNode) and each.chunk_names is not None and each.layout is not None:
                known = inventory_by_names(storage, each.path, each.layout, each.chunk_names)
                assert known is None or same(known, take_inventory(storage, each.path, each.layout))


def same(one: Inventory, other: Inventory) -> bool:
    columns = ("indexes", "sizes", "versions")
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        if name in columns
        else getattr(one, name) == getattr(other, name)
        for name in Inventory._fields
    )


@pytest.mark.parametrize("now", ["removed", "a directory", "a link"])
def test_a_directory_that_has_changed_since_the_walk_is_listed_again(now, tmp_path):
    storage = tree(tmp_path, {"a/.zarray": V2, "a/0": b"x", "a/1": b"x"})
    array = node(zarr_v2.read(storage), "a")
    known = inventory_by_names(storage, "a", array.layout, array.chunk_names)
    assert known is not None
    assert same(known, take_inventory(storage, "a", array.layout))
    assert known.indexes.tolist() == [0, 1]
    chunk = tmp_path / "a" / "1"
    chunk.unlink()
    if now == "a directory":
        chunk.mkdir()
    elif now == "a link":
        chunk.symlink_to("gone")
    assert inventory_by_names(storage, "a", array.layout, array.chunk_names) is None


@pytest.mark.parametrize("document", [{".zarray": V2}, {"zarr.json": V3}, {"attributes.json": N5}])
def test_few_chunks_of_an_array_need_no_other_listing(document, tmp_path):
    reader = {".zarray": zarr_v2, "zarr.json": zarr_v3, "attributes.json": n5}[next(iter(document))]
    files = {f"{path}/{name}": content for path in "abcd" for name, content in document.items()}
    archive = reader.read(tree(tmp_path, {**files, "b/0": b"x", "c/0": b"x", "c/notes": b"", "d/0/0": b"x"}))
    arrays = [each for each in archive.nodes if isinstance(each, ArrayNode)]
    assert [(each.path, each.chunk_names) for each in arrays] == [
        ("a", ()),
        ("b", ("0",)),
        ("c", None),
        ("d", None),
    ]


@pytest.mark.parametrize("count", [5, 500])
def test_the_separator_is_found_among_any_number_of_chunks(count, tmp_path):
    document = array(without="dimension_separator", shape=[count * 2, 6])
    flat = read(tmp_path / "flat", {".zarray": document, **{f"{n}.0": b"x" for n in range(count)}})
    nested = read(tmp_path / "nested", {".zarray": document, **{f"{n}/0": b"x" for n in range(count)}})
    both = read(
        tmp_path / "both", {".zarray": document, **{f"{n}.0": b"x" for n in range(count)}, "0/1": b""}
    )
    assert "'/' is used" in messages(node(nested), "note")
    assert not node(flat).problems
    assert "chunk keys of both kinds" in messages(node(both))


def test_of_thousands_of_chunks_next_to_nothing_is_kept(tmp_path):
    storage = tree(tmp_path, {f"0.{n}": b"" for n in range(1000)})
    os.mkfifo(tmp_path / "pipe")
    found = list_directory(storage, "")
    assert found is not None
    assert found.many
    assert (len(chunk_names(tuple(found.chunks))[1]), len(found.chunks), found.files) == (1, 64, ["pipe"])


def test_a_node_inside_an_n5_array_that_cannot_be_read_stops_no_other_one(tmp_path):
    storage = tree(tmp_path, {"a/attributes.json": N5, "b/attributes.json": N5, "a/in/0": b""})
    (tmp_path / "a" / "in" / "attributes.json").symlink_to("gone")
    archive = n5.read(storage)
    assert "a link leads nowhere" in messages(node(archive, "a"))
    assert not node(archive, "b").refused

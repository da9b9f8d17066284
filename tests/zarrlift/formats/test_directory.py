"""A local directory is listed once: what is read of an archive does not depend on it."""

from __future__ import annotations

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
from tests.support.v2_trees import GROUP, array, messages, n5, node, read, tree, zarr_v1, zarr_v2, zarr_v3
from tests.zarrlift.formats.test_alike import N5, V1, V2, V3

from zarrlift.archive.chunk_inventory import nothing_there, take_inventory
from zarrlift.archive.nodes import Archive, ArrayNode
from zarrlift.formats.tree import walk
from zarrlift.formats.tree.directory import list_directory
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import ZarrstackError

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
    nodes = [replace(each, bare=False) if isinstance(each, ArrayNode) else each for each in archive.nodes]
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
def test_no_chunk_is_found_in_a_directory_that_was_called_bare(content, reader):
    with TemporaryDirectory() as place:
        make(Path(place, "a"), content)
        storage = LocalStorage(Path(place, "a"))
        try:
            nodes = reader.read(storage).nodes
        except ZarrstackError:
            return
        for each in nodes:
            if isinstance(each, ArrayNode) and each.bare and each.layout is not None:
                listed, empty = take_inventory(storage, each.path, each.layout), nothing_there()
                assert (listed.fingerprint, listed.unclaimed_count) == (empty.fingerprint, 0)
                assert np.array_equal(listed.indexes, empty.indexes)


@pytest.mark.parametrize("document", [{".zarray": V2}, {"zarr.json": V3}, {"attributes.json": N5}])
def test_an_array_without_chunks_is_called_bare_and_no_other_one(document, tmp_path):
    reader = {".zarray": zarr_v2, "zarr.json": zarr_v3, "attributes.json": n5}[next(iter(document))]
    files = {f"{path}/{name}": content for path in "ab" for name, content in document.items()}
    archive = reader.read(tree(tmp_path, {**files, "b/0": b"x"}))
    assert [(each.path, each.bare) for each in archive.nodes if isinstance(each, ArrayNode)] == [
        ("a", True),
        ("b", False),
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
    assert (len(found.key_samples), found.files, found.directories, found.links) == (1, ["pipe"], [], {})


def test_a_node_inside_an_n5_array_that_cannot_be_read_stops_no_other_one(tmp_path):
    storage = tree(tmp_path, {"a/attributes.json": N5, "b/attributes.json": N5, "a/in/0": b""})
    (tmp_path / "a" / "in" / "attributes.json").symlink_to("gone")
    archive = n5.read(storage)
    assert "a link leads nowhere" in messages(node(archive, "a"))
    assert not node(archive, "b").refused

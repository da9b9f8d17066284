"""The hierarchy of an archive: nodes, names, links, strays, nodes of two documents, what is consolidated."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.v2_trees import ARRAY, GROUP, array, messages, node, one, read, tree, zarr_v2
from tests.zarrlift.formats.test_alike import V3

import zarrlift
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.formats.describe import describe
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import MetadataError, StorageError, UsageError


def paths(archive):
    return [found.path for found in archive.nodes]


def test_nodes_come_sorted_with_the_root_first_and_implicit_groups_too(tmp_path):
    archive = read(tmp_path, {"b/c/.zarray": ARRAY, "b/c/0.0": b"x", "a/.zgroup": GROUP})
    assert paths(archive) == ["", "a", "b", "b/c"]
    assert [found.implicit for found in archive.nodes if isinstance(found, GroupNode)] == [True, False, True]


def test_documents_are_kept_as_they_lie(tmp_path):
    archive = read(tmp_path, {".zgroup": GROUP, ".zattrs": b'{"a":  1}', "x/.zarray": ARRAY})
    assert [(d.key, d.content) for d in node(archive).documents] == [
        (".zgroup", b'{"zarr_format": 2}'),
        (".zattrs", b'{"a":  1}'),
    ]
    assert [d.key for d in node(archive, "x").documents] == ["x/.zarray"]


def test_a_directory_is_listed_once_and_those_of_chunks_never(tmp_path, monkeypatch):
    storage = tree(tmp_path, {".zgroup": GROUP, "a/.zarray": array(dimension_separator="/"), "a/0/0": b"x"})
    listed = []
    real = LocalStorage.scandir
    monkeypatch.setattr(
        LocalStorage, "scandir", lambda self, prefix: listed.append(prefix) or real(self, prefix)
    )
    zarr_v2.read(storage)
    assert sorted(listed) == ["", "a"]


# ----- names


@pytest.mark.parametrize(("names", "said"), [(["__x"], "reserved"), (["a", "A"], "/A too")])
def test_names_that_are_reserved_or_differ_only_by_case_are_warned_of(tmp_path, names, said):
    archive = read(tmp_path, {".zgroup": GROUP, **{f"{name}/.zarray": ARRAY for name in names}})
    assert not node(archive, names[0]).refused
    assert said in messages(node(archive, names[0]), "warning")


# ----- what belongs to no node


def test_attributes_without_a_node_make_a_group_with_a_warning(tmp_path):
    archive = read(tmp_path, {".zgroup": GROUP, "g/.zattrs": {"a": 1}})
    assert node(archive, "g").attributes == {"a": 1}
    assert "attributes without array or group metadata" in messages(node(archive, "g"), "warning")


# ----- separators


@pytest.mark.parametrize(
    ("declared", "chunks", "chosen"),
    [
        (None, (), "."),
        (None, ("0.0",), "."),
        (None, ("1/0",), "/"),
        (".", ("0.0",), "."),
        ("/", ("0/1",), "/"),
        (".", ("0.0", "0/0"), "."),
        ("/", (), "/"),
    ],
)
def test_the_keys_decide_where_the_document_does_not_say(tmp_path, declared, chunks, chosen):
    document = (
        array(without="dimension_separator") if declared is None else array(dimension_separator=declared)
    )
    found = one(tmp_path, document, chunks)
    assert found.layout is not None, found.problems
    assert found.layout.keys.separator == chosen


@pytest.mark.parametrize(
    ("declared", "chunks", "said"),
    [
        (".", ("0/0",), "keys such as '0/'; expected keys with '.'"),
        ("/", ("0.1",), "keys such as '0.1'; expected keys with '/'"),
        (None, ("0.1", "0/0"), "of both kinds"),
    ],
)
def test_keys_that_contradict_the_document_refuse_the_array(tmp_path, declared, chunks, said):
    document = (
        array(without="dimension_separator") if declared is None else array(dimension_separator=declared)
    )
    assert said in messages(one(tmp_path, document, chunks))


# ----- links and unreadable files


def test_links_inside_the_root_are_followed(tmp_path):
    storage = tree(tmp_path / "z", {".zgroup": GROUP, "a/.zarray": ARRAY})
    (tmp_path / "z/b").symlink_to("a")
    assert paths(zarr_v2.read(storage)) == ["", "a", "b"]


@pytest.mark.parametrize("what", ["", "/.zarray"])
def test_a_link_out_of_the_root_is_refused_with_its_target(tmp_path, what):
    tree(tmp_path / "elsewhere", {".zarray": ARRAY})
    storage = tree(tmp_path / "z", {".zgroup": GROUP, "good/.zarray": ARRAY})
    (tmp_path / "z/b").mkdir(exist_ok=True) if what else None
    (tmp_path / f"z/b{what}").symlink_to(tmp_path / f"elsewhere{what}")
    found = node(zarr_v2.read(storage), "b")
    assert str(tmp_path / f"elsewhere{what}") in messages(found)
    assert not node(zarr_v2.read(storage, follow_links=True), "b").refused


def test_link_loops_are_refused_and_end(tmp_path):
    storage = tree(tmp_path, {".zgroup": GROUP, "a/.zgroup": GROUP, "a/x/.zarray": ARRAY})
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to("self")
    for follow in (False, True):
        archive = zarr_v2.read(storage, follow_links=follow)
        assert "points to a directory above" in messages(node(archive, "a/up"))
        assert "leads nowhere" in messages(node(archive, "a/self"))
        assert not node(archive, "a/x").refused


def test_a_document_that_is_a_dangling_link_is_an_error_not_an_absence(tmp_path):
    storage = tree(tmp_path, {".zgroup": GROUP, "a/.zattrs": {}})
    (tmp_path / "a/.zarray").symlink_to("nowhere")
    assert "a link leads nowhere" in messages(node(zarr_v2.read(storage), "a"))


def test_a_directory_that_cannot_be_listed_refuses_its_node_only(tmp_path, monkeypatch):
    storage = tree(tmp_path, {".zgroup": GROUP, "bad/.zgroup": GROUP, "good/.zarray": ARRAY})
    real = LocalStorage.scandir

    def scandir(self, prefix):
        if prefix == "bad":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, prefix)

    monkeypatch.setattr(LocalStorage, "scandir", scandir)
    archive = zarr_v2.read(storage)
    assert "Permission denied" in messages(node(archive, "bad"))
    assert not node(archive, "good").refused


def test_a_document_that_cannot_be_read_is_told_of_once(tmp_path, monkeypatch):
    """Not as attributes without a node too, nor as what consolidated metadata has and the archive has not."""
    both = {"bad/.zarray": ARRAY, "bad/.zattrs": {"a": 1}}
    everything = {".zgroup": GROUP, "good/.zarray": ARRAY, **both}
    consolidated = {"zarr_consolidated_format": 1, "metadata": everything}
    storage = tree(tmp_path, {**everything, ".zmetadata": consolidated})
    real = LocalStorage.get

    def get(self, key, *args, **options):
        if key == "bad/.zarray":
            raise StorageError("cannot read", key=key, found="Permission denied")
        return real(self, key, *args, **options)

    monkeypatch.setattr(LocalStorage, "get", get)
    archive = zarr_v2.read(storage)
    assert [problem.message for problem in archive.all_problems()] == ["cannot read"]
    assert "bad/.zarray" in messages(node(archive, "bad"))
    assert not node(archive, "good").refused


# ----- consolidated metadata


def consolidated(**entries):
    return {"zarr_consolidated_format": 1, "metadata": entries}


def test_the_files_win_over_consolidated_metadata_and_differences_are_told(tmp_path):
    old = array(fill_value=1)
    entries = {".zgroup": GROUP, "a/.zarray": old, "a/.zattrs": {}, "gone/.zarray": ARRAY}
    files = {".zgroup": GROUP, "a/.zarray": array(fill_value=2), "new/.zarray": ARRAY}
    archive = read(tmp_path, {".zmetadata": consolidated(**entries), **files})
    assert archive.consolidated
    assert [document.key for document in archive.documents] == [".zmetadata"]
    assert node(archive, "a").layout.fill_value == 2
    told = {problem.key: str(problem) for problem in archive.problems}
    assert told.keys() == {"a/.zarray", "gone/.zarray", "new/.zarray"}
    assert '"fill_value":2' in told["a/.zarray"]
    assert '"fill_value":1' in told["a/.zarray"]
    assert {problem.severity for problem in archive.problems} == {"warning"}


def test_equal_consolidated_metadata_is_nothing_to_tell(tmp_path):
    # zarr-python 3.x repeats what is below a group in its entry.
    entries = {".zgroup": GROUP, "g/.zgroup": {**GROUP, "consolidated_metadata": {}}, "g/.zattrs": {}}
    archive = read(tmp_path, {".zmetadata": consolidated(**entries), ".zgroup": GROUP, "g/.zgroup": GROUP})
    assert archive.problems == ()


FAULTS = {
    "refusal": ("/%d", "a key in consolidated metadata points outside the archive"),
    "note": ("%d/other", "an entry of consolidated metadata is not a metadata document"),
    "warning": ("%d/.zattrs", "an entry of consolidated metadata is not a JSON object"),
}


@pytest.mark.parametrize(("severity", "key", "message"), [(a, *b) for a, b in FAULTS.items()], ids=FAULTS)
def test_of_many_faulty_entries_the_first_are_named_and_the_others_counted(tmp_path, severity, key, message):
    """A document of 64 MB may hold five million of them."""
    entries = {key % number: 1 for number in range(250)}
    storage = tree(tmp_path, {".zgroup": GROUP, ".zmetadata": consolidated(**entries, **{".zgroup": GROUP})})
    *named, last = zarr_v2.read(storage).problems
    assert [(p.severity, p.message) for p in named] == [(severity, message)] * 100
    assert named[99].found is not None
    assert key % 99 in named[99].found
    assert (last.severity, last.key) == (severity, ".zmetadata")
    assert (last.message, last.found) == (f"150 more times: {message}", None)


def test_of_many_differences_the_first_are_named_and_the_others_counted(tmp_path):
    entries = {f"{number:03}/.zgroup": GROUP for number in range(250)}
    storage = tree(tmp_path, {".zgroup": GROUP, ".zmetadata": consolidated(**entries, **{".zgroup": GROUP})})
    *named, last = zarr_v2.read(storage).problems
    assert [problem.node for problem in named] == [f"{number:03}" for number in range(100)]
    assert last.message == "150 more documents differ from consolidated metadata"


class Unlisted(LocalStorage):
    """A store that cannot list, as plain HTTP."""

    can_list = False

    def list_dir(self, prefix):
        raise AssertionError("listed")


@pytest.mark.parametrize("nested", [False, True])
def test_where_no_other_document_is_left_consolidated_metadata_is_read_with_a_warning(tmp_path, nested):
    document = array(dimension_separator="/") if nested else ARRAY
    entries = {".zgroup": GROUP, "g/a/.zarray": document, "g/a/.zattrs": {"u": 1}, "bare/.zarray": ARRAY}
    chunk = "g/a/0/1" if nested else "g/a/0.1"
    archive = read(tmp_path, {".zmetadata": consolidated(**entries), chunk: b"x"})
    assert paths(archive) == ["", "bare", "g", "g/a"]
    assert not any(found.refused for found in archive.nodes)
    assert node(archive, "g/a").attributes == {"u": 1}
    assert [(problem.severity, problem.key) for problem in archive.problems] == [("warning", ".zmetadata")]


def test_an_archive_over_a_store_that_cannot_list_is_read_from_consolidated_metadata(tmp_path):
    entries = {
        "a/b/.zarray": array(without="dimension_separator"),
        "a/b/.zattrs": {"u": "m"},
        ".zgroup": GROUP,
    }
    tree(tmp_path, {".zmetadata": consolidated(**entries), "a/b/0/0": b"x"})
    archive = describe(Unlisted(tmp_path))
    assert paths(archive) == ["", "a", "a/b"]
    assert node(archive, "a/b").attributes == {"u": "m"}
    assert node(archive, "a/b").layout.keys.separator == "/"


def test_a_hierarchy_that_cannot_be_found_is_said_so(tmp_path):
    tree(tmp_path, {".zgroup": GROUP})
    with pytest.raises(UsageError, match=r"consolidate its metadata"):
        describe(Unlisted(tmp_path))


BROKEN = {
    "no JSON": (b'{"metadata": {', "the document is not JSON"),
    "not an object": (b"[]", "the document is not a JSON object"),
    "a member twice": (b'{"a": 1, "a": 2}', "duplicate member"),
    "too deep": (b"[" * 10**6, "the document is nested too deeply"),
    "another version": (b'{"zarr_consolidated_format": 7, "metadata": {}}', "not consolidated metadata"),
    "no metadata": (b'{"zarr_consolidated_format": 1, "metadata": []}', "not consolidated metadata"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_where_only_broken_consolidated_metadata_would_name_the_nodes_the_error_says_what_to_do(
    tmp_path, content, message
):
    tree(tmp_path, {".zgroup": GROUP, "a/.zarray": ARRAY, ".zmetadata": content})
    with pytest.raises(MetadataError, match=message) as caught:
        describe(Unlisted(tmp_path))
    problem = caught.value.problem
    assert problem.key == ".zmetadata"
    assert problem.advice is not None
    assert problem.advice.startswith(f"{tmp_path} cannot be listed, and no document lists its nodes")
    assert "open one node by its own URL" in problem.advice
    assert paths(describe(Unlisted(tmp_path / "a"))) == [""]


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_an_array_at_the_root_is_read_whatever_its_consolidated_metadata_is(tmp_path, content, message):
    tree(tmp_path, {".zarray": ARRAY, ".zattrs": {"u": 1}, ".zmetadata": content})
    archive = describe(Unlisted(tmp_path))
    assert (paths(archive), node(archive).attributes, node(archive).refused) == ([""], {"u": 1}, False)
    assert message in messages(archive, "warning")


def test_of_an_archive_that_cannot_be_listed_good_entries_are_read_beside_faulty_ones(tmp_path):
    entries = {"../out/.zarray": ARRAY, "a/.zarray": ARRAY, "b/.zarray": array(dtype="?!"), "c/.zarray": 1}
    tree(tmp_path, {".zmetadata": consolidated(**entries)})
    archive = describe(Unlisted(tmp_path))
    assert [(found.path, found.refused) for found in archive.nodes] == [
        ("", False),
        ("a", False),
        ("b", True),
    ]
    assert "../out/.zarray" in messages(archive)


def test_a_root_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    storage = tree(tmp_path, {".zgroup": GROUP})

    def denied(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(StorageError, match="Permission denied"):
        zarr_v2.read(storage)


# Nodes with two documents: what their content shows, or a choice that the message names.

TINY = {**array(), "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": None}
SAME_KEYS = {**V3, "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}
V3_GROUP = {"zarr_format": 3, "node_type": "group"}
OLD = {"0": b"\1\2", "1": b"\3\4"}
NEW = {"c/0": b"\5\6", "c/1": b"\7\x08"}


def at(path: str, entries: dict[str, Any]) -> dict[str, Any]:
    return {f"{path}/{name}": content for name, content in entries.items()}


def test_an_array_with_a_group_document_is_an_array_if_nothing_is_below(tmp_path: Path) -> None:
    """zarr 2.18.7 opens it as an array too."""
    entries = {".zgroup": GROUP, **at("a", {".zarray": TINY, ".zgroup": GROUP, **OLD})}
    found = node(read(tmp_path / "v2", entries), "a")
    assert isinstance(found, ArrayNode)
    assert "read as an array" in messages(found, "note")
    assert zarrlift.migrate(tmp_path / "v2", tmp_path / "out", verify="full").ok
    assert zarr.open_group(tmp_path / "out", mode="r")["a"][:].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("below", ["x/.zarray", "0/.zarray", "x/y/.zgroup"])
def test_with_nodes_below_the_message_names_the_choice(below: str, tmp_path: Path) -> None:
    content = TINY if below.endswith(".zarray") else GROUP
    archive = read(
        tmp_path, {".zgroup": GROUP, **at("a", {".zarray": TINY, ".zgroup": GROUP, below: content})}
    )
    assert "both an array and a group, with nodes below" in messages(node(archive, "a"))
    assert "Move a/.zgroup away to read the array, or a/.zarray" in messages(node(archive, "a"))


def test_consolidated_metadata_may_list_both(tmp_path: Path) -> None:
    listed = {".zgroup": GROUP, "a/.zarray": TINY, "a/.zgroup": GROUP}
    entries = {**listed, ".zmetadata": {"zarr_consolidated_format": 1, "metadata": listed}, **at("a", OLD)}
    archive = read(tmp_path, entries)
    assert archive.problems == ()
    assert not node(archive, "a").refused


@pytest.mark.parametrize("below", [False, True])
def test_in_a_store_that_cannot_list_consolidated_metadata_shows_what_is_below(
    below: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = {
        ".zgroup": GROUP,
        "a/.zarray": TINY,
        "a/.zgroup": GROUP,
        **({"a/x/.zarray": TINY} if below else {}),
    }
    storage = tree(tmp_path, {".zmetadata": {"zarr_consolidated_format": 1, "metadata": listed}, **listed})
    monkeypatch.setattr(type(storage), "can_list", False)
    assert node(zarr_v2.read(storage), "a").refused == below


@pytest.mark.parametrize(
    ("document", "chunks", "format", "values"),
    [
        (V3, OLD, "zarr2", [1, 2, 3, 4]),
        (V3, NEW, "zarr3", [5, 6, 7, 8]),
        (V3_GROUP, OLD, "zarr2", [1, 2, 3, 4]),
    ],
    ids=["chunks of v2", "chunks of v3", "a group of v3"],
)
def test_beside_zarr_json_the_chunks_decide(
    document: Any, chunks: dict[str, bytes], format: str, values: list[int], tmp_path: Path
) -> None:
    archive = describe(tree(tmp_path / "source", {".zarray": TINY, "zarr.json": document, **chunks}))
    assert archive.format == format
    assert "is ignored: the chunks are those of" in messages(node(archive), "note")
    assert zarrlift.migrate(tmp_path / "source", tmp_path / "out", verify="full").ok
    assert zarr.open_array(tmp_path / "out", mode="r")[:].tolist() == values


@pytest.mark.parametrize(
    ("document", "chunks"),
    [(V3, {**OLD, **NEW}), (V3, {}), (SAME_KEYS, OLD), (V3_GROUP, {**OLD, "x/zarr.json": V3})],
    ids=["chunks of both", "no chunks", "the same chunks", "a group with nodes"],
)
def test_where_they_do_not_the_message_names_the_choice(
    document: Any, chunks: dict[str, Any], tmp_path: Path
) -> None:
    storage = tree(tmp_path, {".zarray": TINY, "zarr.json": document, **chunks})
    with pytest.raises(UsageError, match="--from zarr2 or --from zarr3"):
        describe(storage)
    assert describe(storage, format="zarr2").format == "zarr2"


def test_inside_an_archive_the_chunks_decide_too(tmp_path: Path) -> None:
    entries = {".zgroup": GROUP, "a/.zarray": TINY, "a/zarr.json": V3, **at("a", OLD)}
    assert not node(read(tmp_path / "old", entries), "a").refused
    entries = {".zgroup": GROUP, "a/.zarray": TINY, "a/zarr.json": V3, **at("a", NEW)}
    assert "two formats" in messages(node(zarr_v2.read(tree(tmp_path / "new", entries)), "a"))


def test_what_is_migrated_in_place_stays_a_choice(tmp_path: Path) -> None:
    tree(tmp_path / "a", {".zarray": TINY, **OLD})
    assert zarrlift.migrate(tmp_path / "a", in_place=True).ok
    assert json.loads((tmp_path / "a/zarr.json").read_text())["chunk_key_encoding"]["name"] == "v2"
    with pytest.raises(UsageError, match="--from zarr2 or --from zarr3"):
        zarrlift.inspect(tmp_path / "a")
    assert np.array_equal(zarr.open_array(tmp_path / "a", mode="r", zarr_format=3)[:], [1, 2, 3, 4])


# Folders with nothing but `.zmetadata`, without any chunk: zarr 2.18's `open_consolidated` reads them.


LISTED = {
    ".zgroup": {"zarr_format": 2},
    ".zattrs": {"title": "empty"},
    "a/.zarray": {
        **array(),
        "shape": [4],
        "chunks": [2],
        "dtype": "<i2",
        "fill_value": 7,
        "compressor": None,
    },
    "a/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]},
    "g/.zgroup": {"zarr_format": 2},
}


def listing(metadata: Any, version: Any = 1) -> dict[str, Any]:
    return {"zarr_consolidated_format": version, "metadata": metadata}


def test_it_can_be_migrated_in_place_and_taken_back(tmp_path: Path) -> None:
    tree(tmp_path / "source", {".zmetadata": listing(LISTED)})
    assert zarrlift.migrate(tmp_path / "source", in_place=True).ok
    group = zarr.open_group(tmp_path / "source", mode="r", zarr_format=3)
    assert group["a"][:].tolist() == [7, 7, 7, 7]
    zarrlift.undo(tmp_path / "source")
    assert not list((tmp_path / "source").rglob("zarr.json"))


NO_LISTING = {
    "no JSON": (b"{", "the document is not JSON"),
    "empty": (b"", "the document is empty"),
    "another version": (json.dumps(listing(LISTED, 7)).encode(), "not consolidated metadata"),
    "no metadata": (b'{"zarr_consolidated_format": 1}', "not consolidated metadata"),
    "no node": (json.dumps(listing({})).encode(), "it lists no node"),
}


@pytest.mark.parametrize(("content", "reason"), NO_LISTING.values(), ids=NO_LISTING)
def test_the_message_about_a_broken_one_names_it(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / ".zmetadata").write_bytes(content)
    with pytest.raises(UsageError) as error:
        zarrlift.inspect(tmp_path)
    assert ".zmetadata" in str(error.value)
    assert reason in str(error.value)

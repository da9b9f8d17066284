"""What every reader of directories says alike: strays, two formats in one place, what lies where none may."""

from __future__ import annotations

import errno

import pytest
from tests.support.documents import v3_array
from tests.support.v2_trees import messages, n5, node, tree, zarr_v1, zarr_v2, zarr_v3

from zarrlift.archive.nodes import ArrayNode
from zarrlift.core.problems import any_refusal
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import UsageError

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

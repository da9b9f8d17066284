"""What is below a group and belongs to no node of the archive's format is refused or reported, by name."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive
from tests.support.v2_trees import n5, tree, zarr_v1, zarr_v2, zarr_v3, zarr_v3_draft
from zarr.core.buffer import cpu

from zarrlift.archive.nodes import Archive
from zarrlift.cli import main
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage

SHAPE = {"shape": [4], "chunks": [2], "dtype": "|u1", "fill_value": 0, "order": "C"}
N5 = {"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}}
V2_GROUP = {"zarr_format": 2}
V3_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
DOCUMENTS: dict[str, tuple[str, Any]] = {
    "v1": ("meta", {"zarr_format": 1, **SHAPE, "compression": None, "compression_opts": None}),
    "v2": (".zarray", {"zarr_format": 2, **SHAPE, "compressor": None, "filters": None}),
    "v2 group": (".zgroup", V2_GROUP),
    "v3": ("zarr.json", v3_array([4], [2], "uint8", codecs=[{"name": "bytes"}])),
    "v3 group": ("zarr.json", {**V3_GROUP, "attributes": {"title": "kept"}}),
    "n5": ("attributes.json", N5),
}
ROOTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "v1": (zarr_v1, {"a/meta": DOCUMENTS["v1"][1]}),
    "v2": (zarr_v2, {".zgroup": V2_GROUP, "g/.zgroup": V2_GROUP, "a/.zarray": DOCUMENTS["v2"][1]}),
    "v3": (zarr_v3, {"zarr.json": V3_GROUP, "g/zarr.json": V3_GROUP, "a/zarr.json": DOCUMENTS["v3"][1]}),
    "n5": (n5, {"attributes.json": {"n5": "2.0.0"}, "g/attributes.json": {"x": 1}, "a/attributes.json": N5}),
}
NAMES = ["c", "0", "0.0", "c.zarr", "c/0", "0/c", "x"]
PATHS = [f"{above}{name}" for above in ("", "g/", "implicit/") for name in NAMES]


PLACES = ("directory", "zip", "store")


@pytest.fixture(params=PLACES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[str, Any]], Any]:
    """Opens entries as a directory, a zip file or a store."""

    def storage(entries: dict[str, Any]) -> Any:
        directory = tree(tmp_path / "archive", entries)
        if request.param == "directory":
            return directory
        contents = {key: (tmp_path / "archive" / key).read_bytes() for key in entries}
        if request.param == "zip":
            with zipfile.ZipFile(tmp_path / "archive.zip", "w") as file:
                for key, content in contents.items():
                    file.writestr(key, content)
            return open_storage(tmp_path / "archive.zip")
        buffers = {key: cpu.Buffer.from_bytes(content) for key, content in contents.items()}
        return open_storage(zarr.storage.MemoryStore(buffers))

    return storage


def refused(archive: Archive) -> dict[str, str]:
    """The refused nodes, with their refusals."""
    return {node.path: "\n".join(map(str, node.problems)) for node in archive.nodes if node.refused}


FOREIGN = [(kind, foreign) for kind in ROOTS for foreign in DOCUMENTS if not foreign.startswith(kind)]


@pytest.mark.parametrize(
    ("kind", "foreign", "only", "opened"),
    [(*each, only, place) for each, only, place in zip(FOREIGN, cycle([False, True]), cycle(PLACES))],
    indirect=["opened"],
)
def test_a_node_of_another_format_is_refused_by_name(kind, foreign, only, opened):
    reader, entries = ROOTS[kind]
    document, content = DOCUMENTS[foreign]
    below: dict[str, Any] = {document: content}
    if foreign == "v2 group":
        below[".zattrs"] = {"title": "kept"}
    elif foreign != "v3 group":
        below["c/1" if foreign == "v3" else "1"] = b"12"
    added = {f"{path}/{name}": item for path in PATHS for name, item in below.items()}
    reasons = refused(reader.read(opened({**entries, **added}), only=only))
    for path in PATHS:
        assert f"{path}/{document}" in reasons.get(path, ""), path
    assert not {"", "a", "g"} & reasons.keys()


@pytest.mark.parametrize(
    ("kind", "name", "opened"),
    [(*each, place) for each, place in zip(product(ROOTS, NAMES), cycle(PLACES))],
    indirect=["opened"],
)
def test_chunks_of_no_array_are_refused_by_name(kind, name, opened):
    reader, entries = ROOTS[kind]
    keys = [f"{above}{name}/1" for above in ("", "g/", "implicit/")]
    archive = reader.read(opened({**entries, **dict.fromkeys(keys, b"12")}))
    reasons = refused(archive)
    for key in keys:
        assert any(key.startswith(f"{path}/") and key in reason for path, reason in reasons.items()), key
    assert not {"", "a"} & reasons.keys()


@pytest.mark.parametrize("kind", ["v2", "v3", "n5"])
def test_files_in_a_group_named_like_chunks_are_reported(kind, opened):
    reader, entries = ROOTS[kind]
    keys = [f"{above}{name}" for above in ("", "g/") for name in ("0.0", "c", "c.0")]
    archive = reader.read(opened({**entries, **dict.fromkeys(keys, b"12")}))
    told = {problem.key for problem in archive.problems} | {*"\n".join(refused(archive).values()).split("'")}
    assert {*keys} <= told


def test_groups_that_a_migration_in_place_adds_are_not_nodes_of_another_format(tmp_path):
    entries = {".zgroup": V2_GROUP, "zarr.json": V3_GROUP, "x/zarr.json": V3_GROUP}
    entries |= {"x/a/.zarray": DOCUMENTS["v2"][1], "x/a/zarr.json": DOCUMENTS["v3"][1]}
    archive = zarr_v2.read(tree(tmp_path, entries), only=True)
    assert refused(archive) == {}
    assert [node.path for node in archive.nodes] == ["", "x", "x/a"]


def test_chunks_beside_consolidated_metadata_alone_are_refused(opened):
    documents = {".zgroup": V2_GROUP, "a/.zarray": DOCUMENTS["v2"][1]}
    entries = {".zmetadata": {"zarr_consolidated_format": 1, "metadata": documents}}
    keys = ("a/0", "lost/0", "old/c/0")
    reasons = refused(zarr_v2.read(opened({**entries, **dict.fromkeys(keys, b"12")})))
    assert reasons.keys() == {"lost", "old/c"}


@pytest.mark.parametrize("foreign", DOCUMENTS)
@pytest.mark.parametrize("fixture", ["zarr_v3_draft/may-2022/tree", "zarr_v3_draft/zarr-2.18/tree"])
def test_a_node_beside_a_draft_hierarchy_is_refused_by_name(fixture, foreign, tmp_path):
    document, content = DOCUMENTS[foreign]
    source = shutil.copytree(archive(fixture).path, tmp_path / "old")
    tree(source, {f"added/{name}/{document}": content for name in NAMES})
    reasons = refused(zarr_v3_draft.read(LocalStorage(source)))
    for name in NAMES:
        assert f"added/{name}/{document}" in reasons[f"added/{name}"]


def test_a_refused_node_holds_back_the_exit_code(tmp_path, capsys):
    entries = {**ROOTS["v3"][1], "g/c/.zarray": DOCUMENTS["v2"][1], "g/c/0": b"12", "c/9/1": b"12"}
    tree(tmp_path / "old", entries)
    assert main(["migrate", str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    written = capsys.readouterr()
    assert "/g/c, key 'g/c/.zarray': a Zarr v2 node is inside a Zarr v3 archive" in written.out + written.err
    assert "found the key 'c/9/1'" in written.out + written.err
    assert main(["verify", str(tmp_path / "old"), str(tmp_path / "new"), "--full"]) == 1
    without = ["--exclude", "g/c", "--exclude", "c"]
    assert main(["migrate", str(tmp_path / "old"), str(tmp_path / "some"), *without]) == 0

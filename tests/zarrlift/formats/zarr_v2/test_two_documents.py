"""Nodes with two documents: what their content shows, or a choice that the message names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.v2_trees import array, messages, node, read, tree, zarr_v2
from tests.zarrlift.formats.test_alike import V3

import zarrlift
from zarrlift.archive.nodes import ArrayNode
from zarrlift.formats.describe import describe
from zarrstack.core.errors import UsageError

GROUP = {"zarr_format": 2}
ARRAY = {**array(), "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": None}
SAME_KEYS = {**V3, "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}
V3_GROUP = {"zarr_format": 3, "node_type": "group"}
OLD = {"0": b"\1\2", "1": b"\3\4"}
NEW = {"c/0": b"\5\6", "c/1": b"\7\x08"}


def at(path: str, entries: dict[str, Any]) -> dict[str, Any]:
    return {f"{path}/{name}": content for name, content in entries.items()}


def test_an_array_with_a_group_document_is_an_array_if_nothing_is_below(tmp_path: Path) -> None:
    """zarr 2.18.7 opens it as an array too."""
    entries = {".zgroup": GROUP, **at("a", {".zarray": ARRAY, ".zgroup": GROUP, **OLD})}
    found = node(read(tmp_path / "v2", entries), "a")
    assert isinstance(found, ArrayNode)
    assert "read as an array" in messages(found, "note")
    assert zarrlift.migrate(tmp_path / "v2", tmp_path / "out", verify="full").ok
    assert zarr.open_group(tmp_path / "out", mode="r")["a"][:].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("below", ["x/.zarray", "0/.zarray", "x/y/.zgroup"])
def test_with_nodes_below_the_message_names_the_choice(below: str, tmp_path: Path) -> None:
    content = ARRAY if below.endswith(".zarray") else GROUP
    archive = read(
        tmp_path, {".zgroup": GROUP, **at("a", {".zarray": ARRAY, ".zgroup": GROUP, below: content})}
    )
    assert "both an array and a group, with nodes below" in messages(node(archive, "a"))
    assert "Move a/.zgroup away to read the array, or a/.zarray" in messages(node(archive, "a"))


def test_consolidated_metadata_may_list_both(tmp_path: Path) -> None:
    listed = {".zgroup": GROUP, "a/.zarray": ARRAY, "a/.zgroup": GROUP}
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
        "a/.zarray": ARRAY,
        "a/.zgroup": GROUP,
        **({"a/x/.zarray": ARRAY} if below else {}),
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
    archive = describe(tree(tmp_path / "source", {".zarray": ARRAY, "zarr.json": document, **chunks}))
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
    storage = tree(tmp_path, {".zarray": ARRAY, "zarr.json": document, **chunks})
    with pytest.raises(UsageError, match="--from zarr2 or --from zarr3"):
        describe(storage)
    assert describe(storage, format="zarr2").format == "zarr2"


def test_inside_an_archive_the_chunks_decide_too(tmp_path: Path) -> None:
    entries = {".zgroup": GROUP, "a/.zarray": ARRAY, "a/zarr.json": V3, **at("a", OLD)}
    assert not node(read(tmp_path / "old", entries), "a").refused
    entries = {".zgroup": GROUP, "a/.zarray": ARRAY, "a/zarr.json": V3, **at("a", NEW)}
    assert "two formats" in messages(node(zarr_v2.read(tree(tmp_path / "new", entries)), "a"))


def test_what_is_migrated_in_place_stays_a_choice(tmp_path: Path) -> None:
    tree(tmp_path / "a", {".zarray": ARRAY, **OLD})
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


def consolidated(metadata: Any, version: Any = 1) -> dict[str, Any]:
    return {"zarr_consolidated_format": version, "metadata": metadata}


def test_it_is_read_as_open_consolidated_reads_it(tmp_path: Path) -> None:
    tree(tmp_path / "source", {".zmetadata": consolidated(LISTED)})
    archive = zarrlift.inspect(tmp_path / "source")
    assert [node.path for node in archive.nodes] == ["", "a", "g"]
    assert "the only document is the consolidated metadata" in str(archive.problems)
    assert zarrlift.migrate(tmp_path / "source", tmp_path / "out.zarr", verify="full").ok
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert group["a"][:].tolist() == [7, 7, 7, 7]
    assert dict(group.attrs) == {"title": "empty"}
    assert zarrlift.verify(tmp_path / "source", tmp_path / "out.zarr").ok


def test_it_can_be_migrated_in_place_and_taken_back(tmp_path: Path) -> None:
    tree(tmp_path / "source", {".zmetadata": consolidated(LISTED)})
    assert zarrlift.migrate(tmp_path / "source", in_place=True).ok
    group = zarr.open_group(tmp_path / "source", mode="r", zarr_format=3)
    assert group["a"][:].tolist() == [7, 7, 7, 7]
    zarrlift.undo(tmp_path / "source")
    assert not list((tmp_path / "source").rglob("zarr.json"))


BROKEN = {
    "no JSON": (b"{", "the document is not JSON"),
    "empty": (b"", "the document is empty"),
    "another version": (json.dumps(consolidated(LISTED, 7)).encode(), "not consolidated metadata"),
    "no metadata": (b'{"zarr_consolidated_format": 1}', "not consolidated metadata"),
    "no node": (json.dumps(consolidated({})).encode(), "it lists no node"),
}


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_the_message_about_a_broken_one_names_it(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / ".zmetadata").write_bytes(content)
    with pytest.raises(UsageError) as error:
        zarrlift.inspect(tmp_path)
    assert ".zmetadata" in str(error.value)
    assert reason in str(error.value)


def test_a_list_of_reference_sets_is_named(tmp_path: Path) -> None:
    """As kerchunk's `scan_grib` returns it, one set for each message."""
    one = {"version": 1, "refs": {".zgroup": '{"zarr_format": 2}'}}
    (tmp_path / "grib.json").write_text(json.dumps([one, one]))
    for place in (str(tmp_path / "grib.json"), f"reference://::{tmp_path / 'grib.json'}"):
        with pytest.raises(UsageError, match=r"grib.json is a list of reference sets, not one.*Take one"):
            zarrlift.inspect(place)

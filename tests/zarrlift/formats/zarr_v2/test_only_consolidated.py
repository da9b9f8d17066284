"""Folders with nothing but `.zmetadata`, without any chunk: zarr 2.18's `open_consolidated` reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.v2_trees import array, tree

import zarrlift
from zarrstack.core.errors import UsageError

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

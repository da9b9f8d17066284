"""Hierarchies of the 2022 draft that have lost `zarr.json`: read by what their documents' keys show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.damaged_archives import copied, run
from tests.support.draft_trees import ARRAY, CHUNK, GROUP, OLD_ENTRY
from tests.support.draft_trees import ENTRY as TEXT_ENTRY
from tests.support.fixtures_index import archive, archives
from tests.support.v2_trees import tree
from tests.zarrlift.storage.test_n5_stores import in_memory

import zarrlift
from zarrlift.formats.describe import describe
from zarrlift.formats.detect import detect
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import UsageError


def told(storage: LocalStorage) -> dict[str, str]:
    """What is said of the entry point."""
    (problem,) = (item for item in describe(storage).problems if item.key == "zarr.json")
    assert problem.severity == "warning"
    assert "entry point" in problem.message
    return {"found": problem.found or "", "advice": problem.advice or ""}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", [one.name for one in archives("zarr_v3_draft")])
def test_the_same_nodes_are_found_with_and_without_it(name: str, tmp_path: Path) -> None:
    source = archive(name).path
    place = copied(source, tmp_path / "lost.zarr")
    (place / "zarr.json").unlink()
    whole, lost = describe(LocalStorage(source)), describe(LocalStorage(place))
    assert lost.format == "zarr3-draft"
    assert lost.nodes == whole.nodes
    assert lost.consolidated == whole.consolidated
    told(LocalStorage(place))


@pytest.mark.parametrize("name", ["zarr-2.18/tree", "zarrita/all", "gdal/gzip", "may-2022/tree"])
def test_what_is_to_be_put_there_is_what_was_there(name: str, tmp_path: Path) -> None:
    """Spaces and the order of members apart."""
    source = archive(f"zarr_v3_draft/{name}").path
    place = copied(source, tmp_path / "lost.zarr")
    (place / "zarr.json").unlink()
    advice = told(LocalStorage(place))["advice"]
    meant = json.loads(advice[advice.index("{") : advice.rindex("}") + 1])
    assert meant == json.loads((source / "zarr.json").read_bytes())


def test_it_migrates_with_the_values_it_has(tmp_path: Path) -> None:
    source = archive("zarr_v3_draft/zarr-2.18/consolidated").path
    place = copied(source, tmp_path / "lost.zarr")
    (place / "zarr.json").unlink()
    ran = run("migrate", place, tmp_path / "out.zarr")
    assert ran.code == 0
    assert "entry point of this hierarchy of the 2022 draft is missing" in " ".join(ran.out.split())
    assert zarrlift.verify(source, tmp_path / "out.zarr", full=True).ok


def test_in_a_store_it_is_found_too(tmp_path: Path) -> None:
    place = copied(archive("zarr_v3_draft/zarr-2.18/implicit_root").path, tmp_path / "lost.zarr")
    (place / "zarr.json").unlink()
    assert zarrlift.inspect(in_memory(place, tmp_path)).format == "zarr3-draft"


@pytest.mark.parametrize(
    ("entries", "entry"),
    [
        ({"meta/root/a.array.json": ARRAY, "data/root/a/c0/0": CHUNK}, OLD_ENTRY),
        ({"meta/root.group.json": GROUP}, OLD_ENTRY),
        ({"meta/root.array.json": ARRAY, "meta/.DS_Store": b"x"}, OLD_ENTRY),
        ({"meta/a.array.json": ARRAY}, TEXT_ENTRY),
        ({"meta/array.json": ARRAY}, TEXT_ENTRY),
        ({"meta/group.json": GROUP, "meta/root/a.array.json": ARRAY}, TEXT_ENTRY),
        ({"meta/a/b.array.json": ARRAY, "meta/root/a.array.json": ARRAY}, TEXT_ENTRY),
    ],
)
def test_the_keys_show_the_dialect(entries: dict[str, Any], entry: dict[str, Any], tmp_path: Path) -> None:
    assert json.dumps(entry) in told(tree(tmp_path, entries))["advice"]


@pytest.mark.parametrize(
    "entries",
    [
        {"meta/notes.json": {}, "data/root/a/c0/0": CHUNK},
        {"metadata/root/a.array.json": ARRAY},
        {"data/root/a/c0/0": CHUNK},
    ],
)
def test_without_a_document_there_is_no_archive(entries: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive found"):
        detect(tree(tmp_path, entries))


def test_another_formats_documents_count_first(tmp_path: Path) -> None:
    entries = {"a/.zgroup": {"zarr_format": 2}, "meta/root/a.array.json": ARRAY}
    assert detect(tree(tmp_path, entries)) == "zarr2"


def test_who_asks_for_another_format_is_told_that_it_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive found"):
        detect(tree(tmp_path, {"meta/root/a.array.json": ARRAY}), format="n5")

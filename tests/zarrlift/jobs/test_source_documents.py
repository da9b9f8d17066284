"""`migrate --dry-run --json` has each document before and after, as a migration reads and writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures_index import archive
from tests.support.job_archives import cells, ocean

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import SourceChangedError
from zarrlift.jobs.archive_run import source_documents

SOURCES = [
    "zarr-2.18/people/ocean", "zarr-2.18/stores/consolidated", "zarr_v1/zarr-1.1/arrays:shapes",
    "n5/java-3.5.1/tree", "zarr_v3_draft/may-2022/tree",
]  # fmt: skip


def planned(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents of a plan, those of the source by key and those to write by path."""
    assert main(["migrate", *map(str, words), "--dry-run", "--json"]) in (0, 1)
    plan = json.loads(capsys.readouterr().out)["result"]
    nodes = [*plan["arrays"], *plan["groups"]]
    before = dict(plan["source_documents"])
    for node in nodes:
        before |= node["source_documents"]
    return before, {node["path"]: node["document"] for node in nodes}


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("name", SOURCES)
def test_the_documents_are_those_of_both_ends(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, group = name.partition(":")
    source, new = archive(name).path / group, tmp_path / "new"
    words = (source, new, "--codecs", "zstd:1", "--shards", "2x", "--consolidate")
    before, after = planned(*words, capsys=capsys)
    assert not new.exists()
    assert main(["migrate", *map(str, words), "-q"]) in (0, 1)
    written = {path.parent.relative_to(new).as_posix(): path for path in new.rglob("zarr.json")}
    assert {path or ".": document for path, document in after.items()} == {
        path: json.loads(file.read_text()) for path, file in written.items()
    }
    assert "consolidated_metadata" in after[""]
    assert before
    # The commands write strict JSON.
    assert before == {key: json.loads((source / key).read_bytes(), parse_constant=str) for key in before}


@pytest.mark.parametrize("write", [ocean, cells])
def test_in_place_too(
    write: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(tmp_path / "archive")
    _, after = planned(place, "--in-place", capsys=capsys)
    assert not list(place.rglob("zarr.json"))
    assert main(["migrate", str(place), "--in-place", "-q"]) == 0
    for path, document in after.items():
        assert document == json.loads((place / path / "zarr.json").read_text())


def test_a_document_that_changes_meanwhile_is_not_shown(tmp_path: Path) -> None:
    source = ocean(tmp_path / "ocean.zarr")
    plan = zarrlift.plan(source)
    (source / "lat/.zattrs").write_text("{}")
    with pytest.raises(SourceChangedError, match=r"lat/\.zattrs"):
        source_documents(plan, source, None)

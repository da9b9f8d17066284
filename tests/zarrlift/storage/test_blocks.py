"""Other chunks and shards from and to every kind of store: the objects are those of a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.zarrlift.storage.conftest import files
from tests.zarrlift.storage.test_every_pair import DESTINATIONS, SOURCES, content

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.remote import spooled_stream

OPTIONS = {
    "shards": ArrayRecipe(shards="3x"),
    "start": ArrayRecipe(shards="3x", shard_index_location="start"),
    "chunks": ArrayRecipe(chunks="5,7"),
    "both": ArrayRecipe(chunks="5,7", shards="2x"),
}


@pytest.fixture(scope="module")
def expected(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What each wish gives from a directory into a directory."""
    made = {}
    for name, base in OPTIONS.items():
        place = tmp_path_factory.mktemp(name) / "out.zarr"
        assert zarrlift.migrate(archive, place, recipe=Recipe(base=base)).ok
        made[name] = files(place)
    return made


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("source", ["zip", "memory://", "http, no listing", "stack"])
@pytest.mark.slow(one_in=11)
def test_from_any_store(
    source: str, option: str, expected: Any, archive: Path, web: str, tmp_path: Path
) -> None:
    place = SOURCES[source](tmp_path, archive, web)
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr", recipe=Recipe(base=OPTIONS[option]))
    assert outcome.ok, outcome.problems
    assert without_documents(files(tmp_path / "out.zarr")) == without_documents(expected[option])


@pytest.mark.slow(one_in=15)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "spooled",
    [
        pytest.param(False, id="in memory"),
        pytest.param(True, id="by a temporary file", marks=pytest.mark.needs_reader("once")),
    ],
)
@pytest.mark.parametrize("destination", DESTINATIONS)
def test_to_any_store(
    destination: str,
    spooled: bool,
    option: str,
    expected: Any,
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if spooled:
        monkeypatch.setattr(spooled_stream, "SPOOLED", 50)
        monkeypatch.setattr("zarrlift.transfer.blocks._HELD", 20)
    place = DESTINATIONS[destination](tmp_path)
    job = tmp_path / "job.db"
    outcome = zarrlift.migrate(archive, place, recipe=Recipe(base=OPTIONS[option]), job=job)
    assert outcome.ok, outcome.problems
    assert without_documents(content(place)) == without_documents(expected[option])


def without_documents(found: dict[str, bytes]) -> dict[str, bytes]:
    """Stored chunks and shards; consolidated metadata is a matter of what a source can list."""
    return {key: data for key, data in found.items() if not key.endswith("zarr.json")}

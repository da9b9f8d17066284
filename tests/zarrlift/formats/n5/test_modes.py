"""N5 arrays whose blocks hold no values: the plan says so, whether their document does or not.

Java writes a block whose payload has another length than the block with mode 1, and nothing in
`attributes.json` tells of it; Paintera adds `isLabelMultiset` to what it writes so.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.damaged_archives import copied
from tests.support.fixtures_index import archive
from tests.zarrlift.storage.test_n5_stores import in_memory

import zarrlift

MODES = archive("n5/java-3.5.1/modes").path
LABELS = archive("n5/java-3.5.1/multiscale").path
VALUES = bytes([0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, *range(16)])
"""A block of 4 x 4 in mode 0."""


def refused(plan: zarrlift.Plan) -> dict[str, tuple[str, str | None]]:
    """(kind, key) of what keeps each node back."""
    return {item.path: (item.problems[0].kind, item.problems[0].key) for item in plan.refusals}


@pytest.mark.parametrize("of", ["varlength", "varlength_long"])
@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_the_first_block_tells_what_the_document_does_not(of: str, compression: str, tmp_path: Path) -> None:
    found = refused(zarrlift.plan(MODES, tmp_path / "out.zarr"))
    path = f"{of}/{compression}"
    assert found[path] == ("unsupported", f"{path}/0/0")


def test_the_document_of_label_multisets_is_enough(tmp_path: Path) -> None:
    source = copied(LABELS, tmp_path / "labels.n5")
    shutil.rmtree(source / "paintera/labels/data/s0/0")
    (refusal,) = zarrlift.plan(source, tmp_path / "out.zarr").refusals
    assert refusal.path == "paintera/labels/data/s0"
    (problem,) = refusal.problems
    assert problem.kind == "unsupported"
    assert "paintera-convert to-scalar" in (problem.advice or "")


def test_in_a_store_bytes_are_looked_at_and_longer_numbers_are_not(tmp_path: Path) -> None:
    found = refused(zarrlift.plan(in_memory(MODES, tmp_path), tmp_path / "out.zarr"))
    assert "varlength/raw" in found
    assert "varlength_long/raw" not in found


def test_nothing_of_such_an_array_is_moved_and_the_others_are(tmp_path: Path) -> None:
    source = copied(MODES, tmp_path / "modes.n5")
    for mended in ("varlength_by_chance/raw/1/0", "varlength_long"):
        place = source / mended
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    kinds = {problem.node: problem.kind for problem in outcome.problems if problem.severity == "refusal"}
    assert kinds["varlength/raw"] == "unsupported"
    assert not (tmp_path / "out.zarr/varlength/raw").exists()
    assert (tmp_path / "out.zarr/varlength_by_chance/raw/zarr.json").is_file()


@pytest.mark.parametrize("first", [VALUES, VALUES[:10]], ids=["values", "damaged"])
def test_a_later_block_is_found_when_it_is_moved(first: bytes, tmp_path: Path) -> None:
    source = copied(MODES / "varlength/raw", tmp_path / "later.n5")
    (source / "0/0").write_bytes(first)
    assert not zarrlift.plan(source, tmp_path / "out.zarr").refusals
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    assert {(p.kind, p.key) for p in outcome.problems if p.severity == "refusal"} >= {("chunk", "1/0")}

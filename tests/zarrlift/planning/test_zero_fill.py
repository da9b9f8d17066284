"""A fill value of 0 in text: '0' in zarr-python 2.18, no text elsewhere, and rejected by zarr-python 3."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zarr
from tests.support.optional_archives import optional, seen, seen_by_zarr2, values_of

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import ZarrstackError

SOURCE = "zero_fill.zarr"


def recorded(prefix: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of the arrays of a group."""
    values = values_of(seen_by_zarr2()[SOURCE])
    return {path: array for path, array in values.items() if path.startswith(prefix)}


def recipe(**options: object) -> Recipe:
    return Recipe(base=ArrayRecipe(**options))


def test_without_missing_chunks_the_values_are_those_of_zarr_2(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(optional() / SOURCE / "whole", tmp_path / "new.zarr")
    assert outcome.ok, outcome.problems
    assert {f"whole/{path}": array for path, array in seen(tmp_path / "new.zarr").items()} == recorded(
        "whole"
    )
    assert zarr.open_array(tmp_path / "new.zarr/U4", mode="r").fill_value == ""
    notes = [str(problem) for problem in zarrlift.plan(optional() / SOURCE / "whole").all_problems()]
    assert sum("zero-for-text" in note for note in notes) == len(recorded("whole"))


def test_with_missing_chunks_it_is_refused_with_both_readings() -> None:
    plan = zarrlift.plan(optional() / SOURCE / "missing")
    assert not plan.arrays
    assert len(plan.refusals) == len(recorded("missing"))
    for refusal in plan.refusals:
        told = str(refusal.problems[-1])
        assert "the fill value 0 of text is ambiguous, and is the value of 2 missing chunks" in told
        assert "the text '0' (zarr-python 2.18), or no text" in told
        assert "--set zero-fill=text or --set zero-fill=empty" in told


def test_text_means_what_zarr_2_shows(tmp_path: Path) -> None:
    source, place = optional() / SOURCE / "missing", tmp_path / "new.zarr"
    assert zarrlift.migrate(source, place, recipe=recipe(zero_fill="text"), verify="full").ok
    assert {f"missing/{path}": array for path, array in seen(place).items()} == recorded("missing")
    assert zarrlift.verify(source, place, full=True).ok
    place.with_name("new.zarr.zarrlift.db").unlink()
    assert zarrlift.verify(source, place, full=True).ok  # without the job, either reading is right
    wrong = zarrlift.verify(source, place, recipe=recipe(zero_fill="empty"), full=True)
    assert not wrong.ok
    assert any("fill value" in str(problem) for problem in wrong.problems)


@pytest.mark.parametrize("options", [{}, {"chunks": "4"}, {"codecs": "keep"}, {"drop_empty": True}])
def test_empty_means_no_text(tmp_path: Path, options: dict[str, object]) -> None:
    source, place = optional() / SOURCE / "missing", tmp_path / "new.zarr"
    outcome = zarrlift.migrate(source, place, recipe=recipe(zero_fill="empty", **options), verify="full")
    assert outcome.ok, outcome.problems
    found = zarr.open_array(place / "U4", mode="r")
    assert found[...].tolist() == ["a", "", "0", "", "", "", ""]
    assert found.fill_value == ""


def test_in_place_it_is_decided_too(tmp_path: Path) -> None:
    place = tmp_path / "old.zarr"
    shutil.copytree(optional() / SOURCE / "missing/U4", place)
    assert zarrlift.migrate(place, in_place=True, recipe=recipe(zero_fill="text")).ok
    assert zarr.open_array(place, mode="r", zarr_format=3)[...].tolist() == ["a", "", "0", "", "0", "0", "0"]


def test_a_view_counts_missing_chunks_too() -> None:
    assert zarrlift.open(optional() / SOURCE)["whole/U4"][-1] == "0"
    with pytest.raises(ZarrstackError, match="is the value of 2 missing chunks"):
        zarrlift.open(optional() / SOURCE)["missing/U4"]
    shown = zarrlift.open(optional() / SOURCE, recipe=recipe(zero_fill="text"))
    assert shown["missing/U4"][-1] == "0"

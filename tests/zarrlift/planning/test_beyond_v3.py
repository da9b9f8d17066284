"""What Zarr v3 has no type for: refused by name, or JSON text on request; what some readers refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import read, run, write_archive, write_array
from tests.support.fixtures_index import ExpectedArray, arrays
from tests.support.optional_archives import optional, seen, seen_by_zarr2, values_of

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import ZarrstackError


def _holds(dtype: np.dtype) -> bool:
    if dtype.subdtype is not None or dtype.char in "gG":
        return True
    return any(_holds(dtype.fields[name][0]) for name in dtype.names or ())


BEYOND = arrays(lambda array: _holds(array.dtype))
JSON_TEXT = Recipe(base=ArrayRecipe(objects="json"))


def said(value):
    """A value as the JSON text must say it, written down apart from the code."""
    if isinstance(value, np.ndarray):
        return [said(item) for item in value]
    if isinstance(value, np.void):
        return {name: said(value[name]) for name in value.dtype.names}
    if np.iscomplexobj(value):
        return [said(value.real), said(value.imag)]
    if isinstance(value, np.longdouble) or not np.isfinite(value):
        return str(value)
    return value.item()


def understood(text):
    """Long doubles back from their text, whose digits may be written in several ways."""
    if isinstance(text, list):
        return [understood(item) for item in text]
    if isinstance(text, dict):
        return {name: understood(item) for name, item in text.items()}
    return str(np.longdouble(text)) if isinstance(text, str) else text


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = {}

    def result(array: ExpectedArray, recipe: Recipe) -> tuple[Path, zarrlift.Outcome]:
        key = (array.archive.name, recipe.base.objects)
        if key not in made:
            destination = tmp_path_factory.mktemp("out") / "out.zarr"
            made[key] = destination, zarrlift.migrate(array.archive.path, destination, recipe=recipe)
        return made[key]

    return result


@pytest.mark.slow(one_in=29)
@pytest.mark.parametrize("array", BEYOND, ids=str)
def test_by_default_it_is_refused_by_name_with_the_way_out(array: ExpectedArray, results) -> None:
    destination, outcome = results(array, Recipe())
    (problem,) = (p for p in outcome.problems if p.node == array.path and p.severity == "refusal")
    assert (problem.kind, problem.key) == ("unsupported", f"{array.path}/.zarray")
    assert "--set objects=json" in problem.advice
    assert not (destination / array.path / "zarr.json").exists()


@pytest.mark.slow(one_in=29)
@pytest.mark.parametrize("array", BEYOND, ids=str)
def test_on_request_each_value_is_its_json_text(array: ExpectedArray, results) -> None:
    destination, outcome = results(array, JSON_TEXT)
    assert [str(p) for p in outcome.problems if p.node == array.path and p.severity == "refusal"] == []
    texts = read(destination / array.path)
    assert texts.shape == array.shape
    mask = np.ones(array.shape, dtype=bool) if array.mask is None else array.mask
    found = [understood(json.loads(text)) for text in texts[mask].tolist()]
    values = array.values[mask]
    assert found == [said(values[index]) for index in range(len(values))]


def warnings_of(source: Path, tmp_path: Path) -> list[str]:
    document = json.loads(run("migrate", "--dry-run", source, tmp_path / "out.zarr", "--json").out)
    return [text for text in json.dumps(document).split('"') if "cannot read the result" in text]


def test_a_dimension_name_used_twice_is_a_warning(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    array = write_array(source / "twice", {}, shape=[2, 2], chunks=[2, 2])
    (array / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x", "x"]}')
    assert warnings_of(source, tmp_path) == [
        "tensorstore cannot read the result: a dimension name is used twice"
    ]


@pytest.mark.parametrize("place", [".zattrs", "good/.zattrs"])
@pytest.mark.parametrize("attributes", [r'{"a": ["\ud83d"]}', r'{"\uDC00": 1}'], ids=["value", "name"])
def test_half_a_surrogate_pair_is_a_warning(place: str, attributes: str, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    (source / place).write_text(attributes)
    assert warnings_of(source, tmp_path) == [
        "tensorstore and zarrs cannot read the result: an attribute has text with half of a surrogate pair"
    ]


def test_a_whole_pair_is_none(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    (source / ".zattrs").write_text(r'{"a": "\ud83d\ude00"}')
    assert warnings_of(source, tmp_path) == []


# A fill value of 0 in text: '0' in zarr-python 2.18, no text elsewhere, and rejected by zarr-python 3.


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

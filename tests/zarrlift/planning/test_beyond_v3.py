"""What Zarr v3 has no type for: refused by name, or JSON text on request; what some readers refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.damaged_archives import read, run, write_archive, write_array
from tests.support.fixtures_index import ExpectedArray, arrays

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe


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

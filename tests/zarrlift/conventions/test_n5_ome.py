"""OME-NGFF inside N5, whose writers list axes in N5's order or in its reverse."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaozarrs
from tests.support.v2_trees import tree

import zarrlift
from zarrlift.recipe.options import Axes
from zarrlift.recipe.recipe import ArrayRecipe, Recipe

OME = Recipe(base=ArrayRecipe(multiscale="ome"))
LEVEL = {"dimensions": [8, 6, 4], "blockSize": [4, 4, 4], "dataType": "uint8", "compression": {"type": "raw"}}
SCALE, TRANSLATION = {"x": 1.0, "y": 2.0, "z": 3.0}, {"x": 10.0, "y": 20.0, "z": 30.0}


def image(order: str, version: str | None = "0.4") -> dict[str, Any]:
    """An image of one level, each list in this order of axes."""
    vectors = [
        {"type": "scale", "scale": [SCALE[axis] for axis in order]},
        {"type": "translation", "translation": [TRANSLATION[axis] for axis in order]},
    ]
    return {
        "name": "em",
        **({"version": version} if version else {}),
        "axes": [{"name": axis, "type": "space", "unit": "nanometer"} for axis in order],
        "datasets": [{"path": "s0", "coordinateTransformations": vectors}],
    }


def archive(place: Path, group: dict[str, Any]) -> Path:
    """An N5 container with one image, of dimensions [8, 6, 4] in N5's order."""
    entries = {"attributes.json": {"n5": "4.0.0"}, "a/attributes.json": group, "a/s0/attributes.json": LEVEL}
    tree(place, entries)
    return place


def migrated(place: Path, group: dict[str, Any], recipe: Recipe = OME, axes: Axes = "reversed") -> Any:
    """What becomes of an image: (the group's attributes, shape and dimension names of its level, notes)."""
    source, out = archive(place / "old.n5", copy.deepcopy(group)), place / "new.zarr"
    plan = zarrlift.plan(source, out, recipe=recipe, axes=axes)
    assert zarrlift.migrate(source, out, recipe=recipe, axes=axes).ok
    assert zarrlift.verify(source, out, full=True).ok
    told = [problem for problem in plan.all_problems() if problem.kind == "convention"]
    level = json.loads((out / "a" / "s0" / "zarr.json").read_bytes())
    attributes = json.loads((out / "a" / "zarr.json").read_bytes())["attributes"]
    return attributes, level["shape"], level.get("dimension_names"), told


WRITERS = {
    "n5-universe 1 and 2, zarr-python": image("zyx"),
    "n5-universe 3": image("xyz"),
    "no version": image("zyx", version=None),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_0_4_becomes_0_5_in_the_order_of_the_arrays(writer: str, tmp_path: Path) -> None:
    attributes, shape, names, told = migrated(tmp_path, {"multiscales": [WRITERS[writer]], "mine": [1, 2, 3]})
    assert attributes == {
        "ome": {"version": "0.5", "multiscales": [image("zyx", version=None)]},
        "mine": [1, 2, 3],
    }
    assert (shape, names, told) == ([4, 6, 8], ["z", "y", "x"], [])
    yaozarrs.validate_zarr_store(str(tmp_path / "new.zarr" / "a"))


@pytest.mark.parametrize("order", ["zyx", "xyz"])
def test_with_axes_kept_too(order: str, tmp_path: Path) -> None:
    attributes, shape, names, _ = migrated(tmp_path, {"multiscales": [image(order)]}, axes="kept")
    assert attributes["ome"]["multiscales"] == [image("xyz", version=None)]
    assert (shape, names) == ([8, 6, 4], ["x", "y", "z"])


def test_the_transformations_of_the_image_turn_with_those_of_its_levels(tmp_path: Path) -> None:
    stated = {**image("xyz"), "coordinateTransformations": [{"type": "scale", "scale": [7.0, 8.0, 9.0]}]}
    attributes, *_ = migrated(tmp_path, {"multiscales": [stated]})
    (found,) = attributes["ome"]["multiscales"]
    assert found["coordinateTransformations"] == [{"type": "scale", "scale": [9.0, 8.0, 7.0]}]


def test_unasked_it_stays_with_a_note_that_says_how(tmp_path: Path) -> None:
    group = {"multiscales": [image("xyz")]}
    attributes, _, _, told = migrated(tmp_path, group, Recipe())
    assert attributes == group
    assert [(problem.severity, problem.node) for problem in told] == [("note", "a")]
    assert "--set multiscale=ome" in str(told[0].advice)


UNTOLD = {
    "x in the middle": {**image("zyx"), "axes": [{"name": "z"}, {"name": "x"}, {"name": "y"}]},
    "other names": {**image("zyx"), "axes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
    "a scale that is stored elsewhere": {
        **image("xyz"),
        "coordinateTransformations": [{"type": "scale", "path": "scales"}],
    },
    "an order that OME-NGFF does not have": {
        **image("xyz"),
        "axes": [
            {"name": "x", "type": "space"},
            {"name": "t", "type": "time"},
            {"name": "c", "type": "channel"},
        ],
    },
}


@pytest.mark.parametrize("case", UNTOLD)
def test_what_cannot_be_turned_without_guessing_stays_with_a_note(case: str, tmp_path: Path) -> None:
    group = {"multiscales": [UNTOLD[case]]}
    attributes, _, _, told = migrated(tmp_path, group)
    assert attributes == group
    assert [(problem.severity, problem.advice) for problem in told] == [("note", None)]
    assert "x first or last" in str(told[0].expected)


def test_ome_ngff_counts_before_what_other_programs_say(tmp_path: Path) -> None:
    group = {"multiscales": [image("zyx")], "pixelResolution": [5.0, 5.0, 5.0]}
    attributes, *_ = migrated(tmp_path, group)
    assert attributes["ome"]["multiscales"] == [image("zyx", version=None)]
    assert attributes["pixelResolution"] == [5.0, 5.0, 5.0]


@pytest.mark.parametrize(("recipe", "order"), [(OME, "zyx"), (Recipe(), "xyz")], ids=["asked", "unasked"])
def test_0_5_in_the_order_of_n5_turns_where_it_is_asked_for(
    recipe: Recipe, order: str, tmp_path: Path
) -> None:
    group = {"ome": {"version": "0.5", "multiscales": [image("xyz", version=None)]}}
    attributes, _, _, told = migrated(tmp_path, group, recipe)
    assert attributes == {"ome": {"version": "0.5", "multiscales": [image(order, version=None)]}}
    assert [problem.severity for problem in told] == ([] if order == "zyx" else ["note"])


def test_older_versions_stay_with_a_note(tmp_path: Path) -> None:
    group = {"multiscales": [{**image("zyx", version="0.3"), "axes": ["z", "y", "x"]}]}
    attributes, _, _, told = migrated(tmp_path, group)
    assert attributes == group
    assert [(problem.severity, problem.found) for problem in told] == [("note", "version 0.3")]


def test_an_image_that_contradicts_its_arrays_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    stated = image("zyx")
    stated["datasets"][0]["path"] = "s7"
    source = archive(tmp_path / "old.n5", {"multiscales": [stated]})
    told = zarrlift.plan(source, tmp_path / "new", recipe=OME).all_problems()
    assert "there is no such array" in str([problem for problem in told if problem.severity == "refusal"])
    assert zarrlift.migrate(source, tmp_path / "plain").ok

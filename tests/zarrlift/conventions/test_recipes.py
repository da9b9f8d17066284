"""Readers open the result of any recipe as they open the source, or a problem names why they do not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import xarray
import yaozarrs
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.fixtures_index import archive as fixture
from tests.support.job_archives import written_once

import zarrlift
from zarrlift import ArrayRecipe, Recipe

AXES = [{"name": name, "type": kind} for name, kind in (("c", "channel"), ("y", "space"), ("x", "space"))]


def image(**changes: Any) -> dict[str, Any]:
    """An image of OME-NGFF 0.4 with two levels."""
    levels = [
        {"path": str(n), "coordinateTransformations": [{"type": "scale", "scale": [1.0, 2.0**n, 2.0**n]}]}
        for n in range(2)
    ]
    return {"multiscales": [{"version": "0.4", "name": "i", "axes": AXES, "datasets": levels}], **changes}


def write(group: Path, path: str, values: Any, **attributes: Any) -> None:
    array = zarr.create_array(
        str(group / path), shape=values.shape, chunks=values.shape, dtype=values.dtype, zarr_format=2,
        fill_value=attributes.pop("fill", 0), attributes=attributes,
    )  # fmt: skip
    array[...] = values


@written_once
def cells(path: Path) -> None:
    """An image with two label images."""
    for group, attributes in {
        "": image(),
        "labels": {"labels": ["n", "m"]},
        "labels/n": image(**{"image-label": {"version": "0.4"}}),
        "labels/m": image(**{"image-label": {"version": "0.4"}}),
    }.items():
        zarr.open_group(str(path / group), mode="a", zarr_format=2).attrs.update(attributes)
        if attributes.get("multiscales"):
            write(path, f"{group}/0".strip("/"), np.ones((2, 8, 8), "u2"))
            write(path, f"{group}/1".strip("/"), np.ones((2, 4, 4), "u2"))


@written_once
def weather(path: Path) -> None:
    """A dataset of xarray with coordinates, masks, times and numbers of the other sign."""
    zarr.open_group(str(path), mode="w", zarr_format=2)
    write(path, "x", np.arange(6, dtype="i4"), _ARRAY_DIMENSIONS=["x"], fill=None)
    write(path, "y", np.arange(3.0), _ARRAY_DIMENSIONS=["y"], fill=None)
    time = {"units": "days since 2000-01-01", "calendar": "proleptic_gregorian"}
    write(path, "t", np.arange(1, 4, dtype="i4"), _ARRAY_DIMENSIONS=["y"], fill=None, **time)
    values = np.array([[-99, 0, 1, 2, 3, 4]] * 3, dtype="i2")
    write(path, "masked", values, _ARRAY_DIMENSIONS=["y", "x"], fill=-99, scale_factor=0.5)
    write(path, "missing", values, _ARRAY_DIMENSIONS=["y", "x"], fill=None, missing_value=-99)
    write(path, "unsigned", values, _ARRAY_DIMENSIONS=["y", "x"], fill=None, _Unsigned="true")


def section(glob: str, **changes: Any) -> Recipe:
    return Recipe(sections=((glob, tuple(changes.items())),))


def migrated(source: Path, target: Path, recipe: Recipe) -> tuple[list[Any], bool]:
    """The problems of the plan that name something, and whether all was migrated and is verified."""
    plan = zarrlift.plan(source, target, recipe=recipe)
    nodes = (*plan.arrays, *plan.groups, *plan.refusals)
    problems = [*plan.problems, *(problem for node in nodes for problem in node.problems)]
    outcome = zarrlift.migrate(source, target, recipe=recipe)
    problems += [problem for problem in outcome.problems if problem.severity == "refusal"]
    report = zarrlift.verify(source, target, full=True)
    assert report.ok or not outcome.ok, report
    return problems, outcome.ok


# ----- OME


@pytest.mark.parametrize(
    ("recipe", "path", "gone", "version"),
    [
        (Recipe(exclude=("1",)), "", "multiscales/0/datasets/1", "0.5"),
        (Recipe(exclude=("0",)), "", "multiscales/0/datasets/0", "0.6"),
        (Recipe(include=("0",)), "", "multiscales/0/datasets/1", "0.5"),
        (Recipe(exclude=("labels/n",)), "labels", "labels/0", "0.6"),
        (Recipe(exclude=("**/0",)), "labels/n", "multiscales/0/datasets/0", "0.5"),
    ],
)
def test_an_image_lists_the_levels_that_are_migrated(
    recipe: Recipe, path: str, gone: str, version: str, tmp_path: Path
) -> None:
    source = cells(tmp_path / "old.zarr")
    recipe = Recipe(base=ArrayRecipe(ome=version), include=recipe.include, exclude=recipe.exclude)
    problems, is_ok = migrated(source, tmp_path / "new.zarr", recipe)
    assert is_ok
    assert (path, gone) in [(problem.node, problem.found) for problem in problems]
    if version == "0.5":
        yaozarrs.validate_zarr_store(str(tmp_path / "new.zarr"))


def test_so_does_a_copy_of_0_5(tmp_path: Path) -> None:
    zarrlift.migrate(cells(tmp_path / "old.zarr"), tmp_path / "v05.zarr").raise_for_problems()
    problems, is_ok = migrated(tmp_path / "v05.zarr", tmp_path / "new.zarr", Recipe(exclude=("0",)))
    assert is_ok
    assert [problem.found for problem in problems] == ["multiscales/0/datasets/0"]
    yaozarrs.validate_zarr_store(str(tmp_path / "new.zarr"))


def test_wells_and_series_that_are_left_out_are_not_listed(tmp_path: Path) -> None:
    plate = fixture("applications/plate").path
    for name, source in (("plate", plate), ("series", fixture("applications/series").path)):
        first = min(path.parent.relative_to(source).as_posix() for path in source.rglob("0/.zattrs"))
        problems, is_ok = migrated(source, tmp_path / name, Recipe(exclude=(first,)))
        assert is_ok
        assert any("removed from the metadata" in problem.message for problem in problems)


def test_an_image_without_any_level_is_kept_with_a_note(tmp_path: Path) -> None:
    problems, is_ok = migrated(
        cells(tmp_path / "old.zarr"), tmp_path / "new.zarr", Recipe(include=("labels",))
    )
    assert is_ok
    assert [problem.message for problem in problems] == [
        "nothing that multiscales/0/datasets lists is migrated, and it is kept"
    ]


@pytest.mark.parametrize(
    "recipe", [Recipe(base=ArrayRecipe(dtype="float32")), section("labels/**", dtype="bool")]
)
def test_labels_stay_integers(recipe: Recipe, tmp_path: Path) -> None:
    plan = zarrlift.plan(cells(tmp_path / "old.zarr"), tmp_path / "new.zarr", recipe=recipe)
    assert {refusal.path for refusal in plan.refusals} == {
        f"labels/{n}" for n in ("m/0", "m/1", "n/0", "n/1")
    }
    assert {problem.kind for refusal in plan.refusals for problem in refusal.problems} == {"recipe"}
    recipe = section("labels/**", dtype="uint32")
    assert migrated(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe) == ([], True)


@pytest.mark.parametrize("glob", ["", "labels/n"])
def test_0_6_for_a_part_of_an_image_is_refused(glob: str, tmp_path: Path) -> None:
    plan = zarrlift.plan(cells(tmp_path / "old.zarr"), tmp_path / "new.zarr", recipe=section(glob, ome="0.6"))
    assert "another version" in plan.refusals[0].problems[0].message
    assert plan.refusals[0].path == glob


CONVENTIONS = {
    "--conventions none": (Recipe(base=ArrayRecipe(conventions="none")), "/, /0, /1, and 7 more"),
    "--conventions xarray": (Recipe(base=ArrayRecipe(conventions="xarray")), "/, /0, /1, and 7 more"),
    "conventions = 'none' of 'labels/n'": (section("labels/n", conventions="none"), "/labels/n"),
}


@pytest.mark.parametrize("option", CONVENTIONS)
def test_metadata_that_is_not_converted_is_one_note_of_its_option(option: str, tmp_path: Path) -> None:
    recipe, found = CONVENTIONS[option]
    problems, is_ok = migrated(cells(tmp_path / "old.zarr"), tmp_path / "new.zarr", recipe)
    (problem,) = problems
    assert is_ok
    assert problem.message.startswith(f"with {option}, metadata of ome is kept")
    assert problem.found == found


# ----- the witness


@pytest.mark.parametrize("version", ["0.5", "0.6"])
@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("0", lambda document: document["dimension_names"].reverse()),
        ("labels/n/1", lambda document: document.pop("dimension_names")),
        ("", lambda document: document["attributes"]["ome"]["multiscales"][0]["datasets"].pop()),
    ],
)
def test_verify_finds(path: str, change: Callable[[Any], Any], version: str, tmp_path: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(ome=version))
    problems, is_ok = migrated(cells(tmp_path / "old.zarr"), tmp_path / "new.zarr", recipe)
    assert (problems, is_ok) == ([], True)
    document = tmp_path / "new.zarr" / path / "zarr.json"
    content = json.loads(document.read_text())
    change(content)
    document.write_text(json.dumps(content))
    report = zarrlift.verify(tmp_path / "old.zarr", tmp_path / "new.zarr")
    group = path.rpartition("/")[0]
    assert any(
        problem.node == group and "of an image differs" in problem.message for problem in report.problems
    )


def test_the_witness_does_not_ask_the_convention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds names of axes in another order, and an excluded level that is listed."""
    from zarrlift.conventions.ome import convention

    names = convention._name_axes

    def reversed_names(view: Any, path: str, attributes: Any, account: Any) -> None:
        images = [{**one, "axes": one["axes"][::-1]} for one in attributes.get("multiscales", ())]
        names(view, path, {"multiscales": images}, account)

    monkeypatch.setattr(convention, "_name_axes", reversed_names)
    monkeypatch.setattr(convention, "as_migrated", lambda view, recognised: recognised)
    source, target = cells(tmp_path / "old.zarr"), tmp_path / "new.zarr"
    assert zarrlift.migrate(source, target, recipe=Recipe(exclude=("1",))).ok
    report = zarrlift.verify(source, target)
    assert {problem.message for problem in report.problems if not problem.node} == {
        "the list of levels of an image differs",
        "the list of dimension names of /0 of an image differs",
    }


# ----- xarray


def shown(place: Path, version: int) -> dict[str, Any]:
    """The values of each variable that xarray shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xarray.open_zarr(place, chunks=None, consolidated=False, zarr_format=version)
        return {name: each.values for name, each in dataset.variables.items()}


@pytest.mark.parametrize(
    ("path", "dtype", "words"),
    [
        ("unsigned", "int32", "_Unsigned"),
        ("unsigned", "float32", "_Unsigned"),
        ("t", "bool", "cannot decode times"),
        ("masked", "uint8", "masks"),
        ("missing", "uint8", "masks"),
    ],
)
def test_a_cast_that_changes_what_xarray_shows_is_refused_or_named(
    path: str, dtype: str, words: str, tmp_path: Path
) -> None:
    recipe = section(path, dtype=dtype, casting="clamp")
    plan = zarrlift.plan(weather(tmp_path / "old.zarr"), tmp_path / "new.zarr", recipe=recipe)
    (node,) = (node for node in plan.nodes if node.path == path)
    assert any(words in problem.message for problem in node.problems)


NAMES = ("x", "y", "t", "masked", "missing", "unsigned")
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "conventions": st.sampled_from(["auto", "none", "xarray", "ome"]),
        "dtype": st.sampled_from(["int8", "uint8", "int64", "float32", "float64", "bool", "complex64"]),
        "casting": st.sampled_from(["clamp", "round", "clamp+round"]),
        "chunks": st.sampled_from(["2", "2,2"]),
        "order": st.just("F"),
        "endian": st.just("big"),
        "key_encoding": st.just("v2"),
        "attributes": st.just("keep"),
    },
)
GLOBS = st.sampled_from(["", "**", *NAMES])


@examples(50)
@given(
    base=CHANGES,
    sections=st.lists(st.tuples(GLOBS, CHANGES), max_size=2),
    exclude=st.lists(st.sampled_from(NAMES), max_size=2),
)
def test_xarray_opens_the_result_of_any_recipe_or_a_problem_names_why_not(
    base: Any, sections: Any, exclude: Any
) -> None:
    recipe = Recipe(
        base=ArrayRecipe(**base),
        sections=tuple((glob, tuple(changes.items())) for glob, changes in sections),
        exclude=tuple(exclude),
    )
    with TemporaryDirectory() as folder:
        source, target = weather(Path(folder) / "a.zarr"), Path(folder) / "b.zarr"
        try:
            problems, _ = migrated(source, target, recipe)
        except zarrlift.Error:
            return  # nothing is written
        named = {problem.node for problem in problems}
        if None in named or not (target / "zarr.json").exists():
            return  # a note names the option
        before, after = shown(source, 2), shown(target, 3)
        refused = {problem.node for problem in problems if problem.severity == "refusal"}
        assert before.keys() - after.keys() == (refused | set(exclude)) & before.keys()
        for name in after.keys() - named:
            if recipe.for_array(name).casting == "exact":
                np.testing.assert_array_equal(after[name], before[name], err_msg=name)

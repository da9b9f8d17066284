"""Conventions of users: named by their class, chosen, verified; the example of the docs is one."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import zarr
from tests.zarrlift.conventions.trees import applied, archive, array

import zarrlift
from zarrlift.conventions import Change, Convention, Recognised, apply
from zarrlift.recipe import parsing
from zarrlift.recipe.parsing import known_names, parse_conventions, require_conventions
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrlift.recipe.toml_file import parse_recipe
from zarrstack.core.errors import UsageError

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "conventions" / "example" / "zarrlift_labels.py"
PAGE = ROOT / "docs" / "conventions" / "index.md"


class Loud(Convention):
    """Attributes in capitals."""

    name: ClassVar[str] = "loud"

    def recognise(self, view):
        changes = {
            node.path: Change(attributes={key.upper(): value for key, value in node.attributes.items()})
            for node in view.archive.nodes
            if node.attributes
        }
        return Recognised(summary="some noise", changes=changes) if changes else None


class Careless(Loud):
    """Loses an attribute."""

    name: ClassVar[str] = "careless"

    def recognise(self, view):
        changes = {node.path: Change(attributes={}) for node in view.archive.nodes if node.attributes}
        return Recognised(summary="nothing left", changes=changes)


@pytest.fixture(autouse=True)
def no_classes(monkeypatch):
    """Each test names its own classes."""
    monkeypatch.setattr(parsing, "classes_by_name", {})
    monkeypatch.setattr(apply, "classes_by_name", parsing.classes_by_name)


def recipe(*conventions: str | type) -> Recipe:
    return Recipe(base=ArrayRecipe(conventions=conventions))


def test_a_class_is_a_convention_only_where_it_is_named() -> None:
    found = applied(archive({"g": {"a": 1}}), [Loud])
    assert found.change("g").attributes == {"A": 1}
    assert [seen.name for seen in found.seen] == ["loud"]
    assert applied(archive({"g": {"a": 1}}), "loud").changes, "it is known by now"
    assert not applied(archive({"g": {"a": 1}}), "auto").changes


def test_each_sees_what_the_one_before_left() -> None:
    one = archive({}, array("a", 1))
    node = one.nodes[1]
    labelled = type(node)(path="a", attributes={"_ARRAY_DIMENSIONS": ["x"], "k": 1}, layout=node.layout)
    found = applied(archive({}, labelled), ["auto", Loud])
    assert found.change("a").attributes == {"K": 1, "_FILLVALUE": 0}
    assert found.change("a").dimension_names == ("x",)


def test_names_are_known_and_unknown_ones_are_answered_with_them() -> None:
    assert parse_conventions(["ome", Loud, "ome"]) == ("ome", "loud") == parse_conventions("ome, loud,ome")
    assert set(known_names()) >= {"loud", "ome", "xarray"}
    assert parse_conventions("none") == ()
    for wrong in ("noise", "none,ome", "", "ome,"):
        with pytest.raises(UsageError) as caught:
            require_conventions(parse_conventions(wrong))
        known = (caught.value.problem.expected or "").partition(": ")[2].split(", ")
        assert known == list(known_names())


def test_a_recipe_file_takes_a_list_or_text() -> None:
    recipe = parse_recipe(
        {"conventions": "ome", "arrays": {"a": {"conventions": ["xarray", "ome"]}, "b": {"conventions": []}}}
    )
    assert [recipe.for_array(path).conventions for path in ("x", "a", "b")] == [
        ("ome",),
        ("xarray", "ome"),
        (),
    ]
    with pytest.raises(UsageError, match="unknown convention 'omee'"):
        parse_recipe({"conventions": ["omee"]})


@pytest.mark.parametrize("name", [None, "", "ome", "auto", "a,b", 7], ids=repr)
def test_a_class_needs_a_name_of_its_own(name: object) -> None:
    with pytest.raises(UsageError, match=r"needs a name that is not one of zarrlift's own.*in Nameless"):
        ArrayRecipe(conventions=[type("Nameless", (Convention,), {"name": name})])


def test_a_class_of_something_else_is_refused(source) -> None:
    other = type("Other", (), {"name": "other"})
    with pytest.raises(UsageError, match="the class Other is not a convention"):
        zarrlift.plan(source, recipe=recipe(other))
    with pytest.raises(UsageError, match="takes names"):
        recipe(Loud())


def test_a_job_whose_convention_is_not_known_here_says_so(source, tmp_path, monkeypatch) -> None:
    """As in another process, where no recipe has named the class."""
    assert zarrlift.migrate(source, tmp_path / "new", recipe=recipe(Loud)).ok
    monkeypatch.setattr(parsing, "classes_by_name", {})
    with pytest.raises(UsageError, match=r"unknown convention 'loud'.*known once .*ArrayRecipe"):
        zarrlift.verify(source, tmp_path / "new")


@pytest.fixture
def source(tmp_path):
    """A small archive with an attribute worth keeping."""
    group = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    group.attrs["title"] = "precious"
    group.create_array("a", shape=(3,), chunks=(3,), dtype="i2")[:] = np.arange(3)
    return tmp_path / "old"


def test_an_honest_convention_verifies(source, tmp_path) -> None:
    assert zarrlift.migrate(source, tmp_path / "new", recipe=recipe("auto", Loud)).ok
    assert zarr.open_group(tmp_path / "new").attrs["TITLE"] == "precious"
    assert zarrlift.verify(source, tmp_path / "new").ok


def test_what_a_convention_loses_is_found(source, tmp_path) -> None:
    zarrlift.migrate(source, tmp_path / "new", recipe=recipe(Careless))
    report = zarrlift.verify(source, tmp_path / "new")
    assert [(p.kind, p.message, p.expected) for p in report.problems] == [
        ("verify-attributes", "the attribute at /title differs", '"precious"')
    ]


def test_a_plan_and_its_json_name_it(source) -> None:
    made = zarrlift.plan(source, recipe=recipe(Loud))
    assert made.to_json()["conventions"] == [{"name": "loud", "summary": "some noise"}]
    assert type(made).from_json(json.loads(json.dumps(made.to_json()))) == made
    assert zarrlift.plan(source, recipe=recipe("none")).conventions == ()


# ----- the class that the docs show


def test_the_page_shows_the_class() -> None:
    assert f"\n--8<--\n{EXAMPLE.relative_to(ROOT).as_posix()}\n--8<--\n```\n" in PAGE.read_text()


def test_the_class_of_the_page_names_dimensions(source, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    labels = importlib.import_module(EXAMPLE.stem).Labels
    labelled = zarr.open_group(source, mode="a", zarr_format=2)["a"]
    labelled.attrs.update({"DIMENSION_LABELS": ["time"], "units": "s"})
    assert zarrlift.migrate(source, tmp_path / "new", recipe=recipe("auto", labels)).ok
    document = json.loads((tmp_path / "new" / "a" / "zarr.json").read_text())
    assert document["dimension_names"] == ["time"]
    assert document["attributes"] == {"units": "s"}
    assert zarrlift.verify(source, tmp_path / "new").ok
    labelled.attrs["DIMENSION_LABELS"] = ["time", "more"]
    (refused,) = zarrlift.plan(source, recipe=recipe(labels)).refusals
    assert str(refused.problems[0]).startswith("/a: DIMENSION_LABELS does not fit the array")

"""Conventions of other packages: found by name, chosen, verified; the example of the docs is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import zarr
from tests.support.convention_trees import applied, archive, array

import zarrlift
from zarrlift.conventions import Change, Convention, Recognised, apply
from zarrlift.recipe import convention_names
from zarrlift.recipe.convention_names import known_names, parse_conventions, require_known
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrlift.recipe.toml_file import parse_recipe
from zarrstack.core.errors import UsageError

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "conventions" / "example"
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


class Shy(Loud):
    """Only where it is asked for by name."""

    name: ClassVar[str] = "shy"
    auto: ClassVar[bool] = False


class Careless(Loud):
    """Loses an attribute."""

    name: ClassVar[str] = "careless"

    def recognise(self, view):
        changes = {node.path: Change(attributes={}) for node in view.archive.nodes if node.attributes}
        return Recognised(summary="nothing left", changes=changes)


@pytest.fixture
def register(monkeypatch):
    """A function that registers classes of this module, by the names given."""

    def register(**names: str) -> None:
        points = tuple(
            EntryPoint(name, f"{__name__}:{value}", convention_names.GROUP)
            for name, value in sorted(names.items())
        )
        for module in (convention_names, apply):
            monkeypatch.setattr(module, "outside", lambda: points)

    apply.find.cache_clear()
    yield register
    apply.find.cache_clear()


def test_a_registered_convention_applies_itself(register) -> None:
    register(loud="Loud")
    found = applied(archive({"g": {"a": 1}}))
    assert found.change("g").attributes == {"A": 1}
    assert [seen.name for seen in found.seen] == ["loud"]


@pytest.mark.parametrize(
    ("asked", "applies"), [("auto", False), ("shy", True), ("auto,shy", True), ("xarray", False)]
)
def test_one_that_is_not_auto_waits_to_be_named(asked: str, applies: bool, register) -> None:
    register(shy="Shy")
    assert bool(applied(archive({"g": {"a": 1}}), asked).changes) == applies


def test_each_sees_what_the_one_before_left(register) -> None:
    register(loud="Loud", shy="Shy")
    one = archive({}, array("a", 1))
    node = one.nodes[1]
    labelled = type(node)(path="a", attributes={"_ARRAY_DIMENSIONS": ["x"], "k": 1}, layout=node.layout)
    found = applied(archive({}, labelled), "auto,shy")
    assert found.change("a").attributes == {"K": 1, "_FILLVALUE": 0}
    assert found.change("a").dimension_names == ("x",)


def test_names_are_known_and_unknown_ones_are_answered_with_them(register) -> None:
    register(loud="Loud")
    assert set(known_names()) >= {"loud", "ome", "xarray"}
    assert parse_conventions("ome, loud,ome") == ("ome", "loud")
    assert parse_conventions("none") == ()
    for wrong in ("noise", "none,ome", "", "ome,"):
        with pytest.raises(UsageError) as caught:
            require_known(parse_conventions(wrong))
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


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("NoSuchClass", "cannot be loaded"),
        ("ROOT", "is not a convention"),
        ("Shy", "has another name"),
    ],
)
def test_what_is_registered_wrongly_is_named(place: str, words: str, register) -> None:
    register(wrong=place)
    with pytest.raises(UsageError, match=words):
        applied(archive({"g": {}}))
    assert applied(archive({"g": {}}), "ome").changes == {}


def test_two_of_one_name_are_named(monkeypatch) -> None:
    points = tuple(EntryPoint("loud", f"conventions.{m}:Loud", convention_names.GROUP) for m in "ab")
    for module in (convention_names, apply):
        monkeypatch.setattr(module, "outside", lambda: points)
    apply.find.cache_clear()
    with pytest.raises(UsageError, match="more than one convention is called 'loud'"):
        applied(archive({"g": {}}))


@pytest.fixture
def source(tmp_path):
    """A small archive with an attribute worth keeping."""
    group = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    group.attrs["title"] = "precious"
    group.create_array("a", shape=(3,), chunks=(3,), dtype="i2")[:] = np.arange(3)
    return tmp_path / "old"


def test_an_honest_convention_verifies(source, tmp_path, register) -> None:
    register(loud="Loud")
    zarrlift.migrate(source, tmp_path / "new")
    assert zarr.open_group(tmp_path / "new").attrs["TITLE"] == "precious"
    assert zarrlift.verify(source, tmp_path / "new").ok


def test_what_a_convention_loses_is_found(source, tmp_path, register) -> None:
    register(careless="Careless")
    zarrlift.migrate(source, tmp_path / "new")
    report = zarrlift.verify(source, tmp_path / "new")
    assert [(p.kind, p.message, p.expected) for p in report.problems] == [
        ("verify-attributes", "the attribute at /title differs", '"precious"')
    ]


def test_inspect_plan_and_their_json_name_it(source, register) -> None:
    register(loud="Loud")
    assert [(seen.name, seen.summary) for seen in zarrlift.inspect(source).conventions] == [
        ("loud", "some noise")
    ]
    made = zarrlift.plan(source)
    assert made.to_json()["conventions"] == [{"name": "loud", "summary": "some noise"}]
    assert type(made).from_json(json.loads(json.dumps(made.to_json()))) == made
    assert zarrlift.plan(source, recipe=Recipe(base=ArrayRecipe(conventions="none"))).conventions == ()


# ----- the package that the docs show


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLE.iterdir() if path.is_file()))
def test_the_page_shows_the_files_of_the_package(file: str) -> None:
    assert f"\n--8<--\n{(EXAMPLE / file).relative_to(ROOT)}\n--8<--\n```\n" in PAGE.read_text()


@pytest.mark.slow
def test_the_installed_package_is_used_unasked(source, tmp_path) -> None:
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", tmp_path / "site", EXAMPLE]
    subprocess.run(command, check=True)
    labelled = zarr.open_group(source, mode="a", zarr_format=2)["a"]
    labelled.attrs.update({"DIMENSION_LABELS": ["time"], "units": "s"})

    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "zarrlift", *map(str, words)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("migrate", source, tmp_path / "new", "--conventions", "labels")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "new" / "a" / "zarr.json").read_text())
    assert document["dimension_names"] == ["time"]
    assert document["attributes"] == {"units": "s"}
    assert run("verify", source, tmp_path / "new").returncode == 0
    labelled.attrs["DIMENSION_LABELS"] = ["time", "more"]
    planned = run("migrate", "--dry-run", source, tmp_path / "other")
    assert planned.returncode == 1
    assert "/a: DIMENSION_LABELS does not fit the array" in planned.stdout

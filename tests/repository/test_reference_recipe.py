"""docs/reference/recipe.md has every key of a recipe file, with its values, default and option."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from zarrlift.cli import parser as command_line
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.option import flag_of
from zarrlift.recipe.recipe import Recipe
from zarrlift.recipe.toml_file import _TOP, parse_recipe

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "recipe.md"
ENTRY = re.compile(
    r"^### (?P<key>\w+)\n\n\*(?P<type>.+?); (?:default `(?P<default>.+?)`|no default); "
    r"(?:options? (?P<options>.+)|no option)\*\n\n",
    re.MULTILINE,
)


def entries() -> dict[str, re.Match[str]]:
    return {found["key"]: found for found in ENTRY.finditer(PAGE.read_text())}


def default(key: str) -> Any:
    recipe = Recipe()
    return getattr(recipe.base if key in ARRAY_OPTIONS else recipe, key, None)


def test_the_page_has_every_key_and_no_other() -> None:
    assert [*entries()] == re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert {*entries()} == {*_TOP, *ARRAY_OPTIONS}


@pytest.mark.parametrize("key", [*_TOP, *ARRAY_OPTIONS])
def test_values_default_and_option_are_those_of_the_code(key: str) -> None:
    entry = entries()[key]
    known = ARRAY_OPTIONS.get(key)
    if known is not None and known.choices:
        assert re.findall(r'`"(.+?)"`', entry["type"]) == [*known.choices]
    elif known is not None and known.type is bool:
        assert entry["type"] == "`true` or `false`"
    if entry["default"] is None:
        assert default(key) is None
    else:
        stated = tomllib.loads(f"{key} = {entry['default']}")
        recipe = parse_recipe(stated)
        assert getattr(recipe.base if known else recipe, key) == default(key)
    named = {*re.findall(r"`(--[\w -]+)`", entry["options"] or "")}
    migrate: Any = typer.main.get_command(command_line.app("migrate")).commands["migrate"]
    assert {name.split()[0] for name in named} <= {name for item in migrate.params for name in item.opts}
    if known is not None:
        assert named == {flag_of(key, known)}


def test_sections_have_priority_over_options_and_these_over_the_file() -> None:
    from zarrlift.cli.recipe_options import RecipeOptions

    file = parse_recipe({"order": "C", "endian": "big", "arrays": {"a": {"order": "F"}}})
    given = {item.name: item.default for item in RecipeOptions.parameters()} | {"order": "keep"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarrlift.cli.recipe_options.load_recipe", lambda _: file)
        recipe = RecipeOptions(**given | {"recipe_file": "file.toml"}).recipe()
    assert [recipe.for_array(path).order for path in ("a", "b")] == ["F", "keep"]
    assert recipe.for_array("b").endian == "big"

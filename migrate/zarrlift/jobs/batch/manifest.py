"""Reads manifests: tables of archives with their options, as CSV, JSON lines or TOML.

    source,destination,codecs
    old/a.zarr,new/a.zarr,zstd:5
    old/*.n5,new/{relative}.zarr,

A row has a source (an archive, a folder of archives, or a glob), a destination or template, any option of
`migrate`, and a recipe. In TOML, rows are `[[archive]]`, and what stands before them is for all rows.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import UsageError

from ...recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ...recipe.options import Option, Request, require_format, rows
from ...recipe.recipe import Recipe
from ...recipe.toml_file import load_recipe, parse_recipe
from .rows import RowRequest

_ASKED: Final = rows(Request)
_RECIPE: Final = (*WHOLE_OPTIONS, "arrays", *ARRAY_OPTIONS)
_KNOWN: Final = ("source", "destination", "recipe", *_ASKED, *_RECIPE)
_SECRET: Final = ("storage_options", "dest_storage_options")
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A row of a manifest, or a place given on the command line."""

    place: str
    destination: str | None = None
    request: RowRequest = field(default_factory=RowRequest)
    where: str = ""
    """Names the row in messages; "" for a place of the command line."""


def read_manifest(
    path: str, request: RowRequest, destination: str | None, problems: list[str]
) -> list[Listed]:
    """The rows of a manifest; what is wrong with any of them is added to `problems`, with its row.

    `request` and `destination` are for rows that do not have their own. Sources, destinations and recipes
    are relative to the working directory, as on the command line.
    """
    try:
        rows = list(_rows(path))
    except OSError as error:
        found = f"{path}: {error.strerror}"
        raise UsageError(
            "cannot read the manifest", found=found, expected="a .csv, .jsonl or .toml file"
        ) from error
    except (UnicodeDecodeError, ValueError, csv.Error) as error:
        raise UsageError(
            "the manifest cannot be read as its suffix says", found=f"{path}: {error}"
        ) from error
    listed = []
    recipes: dict[str, Recipe] = {}
    for where, given in rows:
        before = len(problems)
        row = _listed(where, given, request, destination, recipes, problems)
        if len(problems) == before and row is not None:
            listed.append(row)
    if not rows:
        problems.append(f"{path}: the manifest has no rows")
    return listed


def _rows(path: str) -> Iterator[tuple[str, Any]]:
    """(name of the row, its values)."""
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for number, row in enumerate(reader, 1):
                given = {name: value for name, value in row.items() if value not in (None, "")}
                yield f"row {number}", given
    elif suffix == ".toml":
        with open(path, "rb") as binary:
            data = tomllib.load(binary)
        rows = data.pop("archive", [])
        if not isinstance(rows, list):
            raise ValueError("[[archive]] is a list of tables")
        for number, given in enumerate(rows, 1):
            yield f"row {number}", {**data, **given} if isinstance(given, dict) else given
    else:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield f"row {number}", json.loads(line)
                    except ValueError as error:
                        raise ValueError(f"line {number}: {error}") from error


def _listed(
    where: str,
    given: Any,
    request: RowRequest,
    destination: str | None,
    recipes: dict[str, Recipe],
    problems: list[str],
) -> Listed | None:
    if not isinstance(given, dict):
        problems.append(f"{where}: a table of columns is expected, found {given!r:.60}")
        return None
    values: dict[str, Any] = {}
    for name, value in given.items():
        column = str(name).strip().replace("-", "_")
        column = "format" if column == "from" else column
        if column in _KNOWN:
            values[column] = value
        else:
            problems.append(f"{where}: {_unknown(name, column)}")
    source = values.pop("source", None)
    if not isinstance(source, str) or not source:
        problems.append(f"{where}: a source is needed")
        return None
    goal = values.pop("destination", None)
    if goal is not None and not isinstance(goal, str):
        problems.append(f"{where}: destination: a text is expected, found {goal!r:.60}")
        return None
    try:
        row_request = _request(values, request, recipes)
    except UsageError as error:
        problems.append(f"{where}: {error}")
        return None
    goal = None if row_request.in_place else goal or destination
    return Listed(place=source, destination=goal, request=row_request, where=where)


def _unknown(name: object, column: str) -> str:
    if name is None:
        return "more values than columns"
    if column in _SECRET:
        return f"{name}: a batch does not store options that may be secret; give --storage-options"
    near = get_close_matches(column, _KNOWN, 1)
    return f"{name}: unknown column" + (f"; did you mean {near[0]!r}?" if near else "")


def _request(values: Mapping[str, Any], default: RowRequest, recipes: dict[str, Recipe]) -> RowRequest:
    """What a row asks for; UsageError."""
    changed = {name: _value(name, option, values[name]) for name, option in _ASKED.items() if name in values}
    if "format" in changed:
        require_format(str(changed["format"]))
    return replace(default, recipe=_recipe(values, default.recipe, recipes), **changed)


def _value(name: str, option: Option, value: Any) -> Any:
    """The value of an option; UsageError for one that it does not take."""
    if option.type is bool:
        return _flag(name, value)
    if option.choices and value not in option.choices:
        raise UsageError(f"{name}: {value!r}", expected=", ".join(option.choices))
    return value


def _recipe(values: Mapping[str, Any], default: Recipe, recipes: dict[str, Recipe]) -> Recipe:
    """The recipe of a row: its file or the default one, changed by the row's other columns."""
    recipe = default
    if "recipe" in values:
        name = str(values["recipe"])
        if name not in recipes:
            recipes[name] = load_recipe(name)
        recipe = recipes[name]
    own = {name: values[name] for name in _RECIPE if name in values}
    if not own:
        return recipe
    for name, value in own.items():
        option = ARRAY_OPTIONS.get(name)
        if name == "consolidate" or (option is not None and option.type is bool):
            own[name] = _flag(name, value)
    parsed = parse_recipe(own, name="row")
    base = {name: getattr(parsed.base, name) for name in own if name in ARRAY_OPTIONS}
    whole = {name: getattr(parsed, name) for name in own if name not in ARRAY_OPTIONS and name != "arrays"}
    sections = (*recipe.sections, *parsed.sections)
    return replace(recipe, base=replace(recipe.base, **base), sections=sections, **whole)


def _flag(name: str, value: Any) -> bool:
    flag = value if isinstance(value, bool) else _WORDS.get(str(value).lower())
    if flag is None:
        raise UsageError(f"{name}: {value!r}", expected="true or false")
    return flag

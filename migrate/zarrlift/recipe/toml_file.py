"""Reads a recipe from a TOML file and reports all problems together, each with its location.

    include = ["images/**"]
    exclude = ["**/tmp"]
    consolidate = true
    model = "model.json"               # a ZOM or JSON Schema to which the result must conform
    codecs = "zstd:3"                  # any field of ArrayRecipe, for all arrays

    [arrays."images/**"]               # changes for arrays that match a path glob; later ones have priority
    dtype = "uint16"
    casting = "clamp"

Hyphens may replace underscores, as on the command line.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import canonical
from zarrstack.core.similar_names import nearest
from zarrstack.core.sizes import parse_size

from ..core.problems import JoinedProblems
from .changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from .parsing import require_conventions
from .recipe import ArrayRecipe, Recipe, RequiredModel, check_glob

_TOP: Final = (*WHOLE_OPTIONS, "arrays")


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from a TOML file.

    - `path`: the file, as for `--recipe`.

    Raises
    ------
    UsageError
        If the file cannot be read, or is not a recipe: one error with all problems.

    Examples
    --------
    >>> with open("recipe.toml", "w") as file:
    ...     _ = file.write('shards = "auto"')
    >>> zarrlift.load_recipe("recipe.toml").base.shards
    'auto'
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode()
        data = tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            "cannot read the recipe", found=f"{os.fspath(path)}: {error.strerror}", expected="a TOML file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            "the recipe is not valid TOML",
            found=f"{os.fspath(path)}: {error}",
            expected='such as: codecs = "zstd:3"',
        ) from error
    return parse_recipe(data, name=os.fspath(path))


def parse_recipe(data: Mapping[str, Any], *, name: str = "recipe") -> Recipe:
    """The recipe in a parsed TOML document; errors as for `load_recipe`."""
    problems: list[str] = []
    top = {key: value for key, value in data.items() if key not in _TOP}
    fields = dict(_fields(top, "", (*_TOP, *ARRAY_OPTIONS), problems))
    sections = []
    arrays = data.get("arrays", {})
    if not isinstance(arrays, dict):
        problems.append('arrays: a table of sections is expected, such as [arrays."images/**"]')
        arrays = {}
    for glob, section in arrays.items():
        place = f"arrays.{canonical(glob)}"
        _check_glob(glob, place, problems)
        if isinstance(section, dict):
            sections.append((glob, tuple(_fields(section, place + ".", tuple(ARRAY_OPTIONS), problems))))
        else:
            problems.append(f"{place}: a table is expected, found {section!r}")
    include = _globs(data, "include", problems)
    exclude = _globs(data, "exclude", problems)
    consolidate = data.get("consolidate")
    if consolidate is not None and not isinstance(consolidate, bool):
        problems.append(f"consolidate: true or false is expected, found {consolidate!r}")
    memory = _memory(data.get("memory"), problems)
    model = _model(data.get("model"), os.path.dirname(name), problems)
    if problems:
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise UsageError(JoinedProblems.of(problems, before=f"the recipe has {count}: "), found=name)
    return Recipe(
        base=ArrayRecipe(**fields),
        sections=tuple(sections),
        include=include,
        exclude=exclude,
        consolidate=consolidate,
        memory=memory,
        model=model,
    )


def _memory(value: Any, problems: list[str]) -> int | None:
    if value is None:
        return None
    size = parse_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int):
        problems.append(f"memory: a size such as '2GB' is expected, found {value!r}")
        return None
    return size


def _model(value: Any, beside: str, problems: list[str]) -> RequiredModel | None:
    if value is None:
        return None
    try:
        if isinstance(value, dict) and value.keys() == {"name", "content"}:
            return RequiredModel(**value)  # as lists of archives have one
        if not isinstance(value, str):
            problems.append(f"model: the name of a file is expected, found {value!r}")
            return None
        return RequiredModel.at(value, beside=beside)
    except UsageError as error:
        problems.append(f"model: {error}")
        return None


def _fields(
    table: Mapping[str, Any], place: str, names: tuple[str, ...], problems: list[str]
) -> Iterator[tuple[str, Any]]:
    """The parsed fields of ArrayRecipe that a table sets; hyphens may replace underscores."""
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in ARRAY_OPTIONS:
            near = nearest(name, names)
            hint = f"; did you mean {near!r}?" if near else f"; known names are {', '.join(names)}"
            problems.append(f"{place}{key}: unknown name{hint}")
            continue
        try:
            parsed = getattr(ArrayRecipe(**{name: value}), name)
            if name == "conventions":
                require_conventions(parsed)
            yield name, parsed
        except UsageError as error:
            problems.append(f"{place}{key}: {error}")


def _globs(data: Mapping[str, Any], key: str, problems: list[str]) -> tuple[str, ...]:
    value = data.get(key, [])
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        problems.append(f"{key}: a list of path globs is expected, found {value!r}")
        return ()
    for glob in globs:
        _check_glob(glob, key, problems)
    return tuple(globs)


def _check_glob(glob: str, place: str, problems: list[str]) -> None:
    try:
        check_glob(glob)
    except UsageError as error:
        problems.append(f"{place}: {error}")

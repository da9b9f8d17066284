"""The options of the tables as keywords of public functions: typed, named by `help`, and resolvable.

python tests/zarrlift/recipe/test_keywords.py     write zarrlift/recipe/keywords.py again
"""

from __future__ import annotations

import inspect
import typing
from dataclasses import fields
from pathlib import Path

import pytest

import zarrlift
import zarrlift.models
import zarrstack
from zarrlift.recipe import keywords
from zarrlift.recipe.options import TABLES

FUNCTIONS = [
    (module, name)
    for module in (zarrlift, zarrlift.models, zarrstack)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]
FUNCTIONS += [(zarrlift.Batch, name) for name in ("run", "resume", "verify", "update", "finish", "undo")]


def text() -> str:
    """The module with one TypedDict for each table."""
    lines = [
        '"""The tables of `options` as types of keywords; written by its test, test_keywords.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TypedDict",
        "",
        "from ..storage.open_storage import Place",
        "from .options import Axes, ExecutorChoice, Format, Link, PathText, StorageOptions, VerifyLevel",
    ]
    for table in TABLES:
        bases = [base for base in table.__bases__ if base in TABLES]
        above = ", ".join(f"{base.__name__}Keywords" for base in bases) or "TypedDict"
        known = {each.name for base in bases for each in fields(base)}
        lines += ["", "", f"class {table.__name__}Keywords({above}, total=False):"]
        lines += [f'    """{(table.__doc__ or "").strip()}"""', ""]
        lines += [f"    {each.name}: {each.type}" for each in fields(table) if each.name not in known]
    return "\n".join(lines) + "\n"


def test_every_table_is_a_type_of_keywords() -> None:
    assert Path(keywords.__file__).read_text() == text(), "run this file to write it again"


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_the_types_of_every_public_function_are_known_at_run_time(module: object, name: str) -> None:
    hints = typing.get_type_hints(getattr(module, name))
    assert "return" in hints


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_help_names_every_keyword_with_its_default(module: object, name: str) -> None:
    function = getattr(module, name)
    known = {each.name: each for table in TABLES for each in fields(table)}
    shown = inspect.signature(function).parameters
    hints = typing.get_type_hints(function)
    options = hints.get("options", hints.get("how"))
    if options in (None, typing.Any):
        return
    (words,) = typing.get_args(options)
    for word in known.keys() & words.__annotations__.keys():
        assert shown[word].default == known[word].default
    assert not [each for each in shown.values() if each.kind is each.VAR_KEYWORD]


def test_a_keyword_that_no_function_has_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'follow_link'"):
        zarrlift.plan("a.zarr", "b.zarr", follow_link=True)  # type: ignore[call-arg]


if __name__ == "__main__":
    Path(keywords.__file__).write_text(text())

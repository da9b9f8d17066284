"""The options of the tables as keywords of public functions: typed, named by `help`, and resolvable.

UPDATE=1 writes zarrlift/recipe/keywords.py again.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
import typing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import zarr

import zarrlift
import zarrlift.models
import zarrstack
from zarrlift.recipe import changes, keywords
from zarrlift.recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from zarrlift.recipe.options import TABLES
from zarrlift.recipe.recipe import ArrayRecipe
from zarrstack.core.errors import UsageError

FUNCTIONS = [
    (module, name)
    for module in (zarrlift, zarrlift.models, zarrstack)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]
FUNCTIONS += [(zarrlift.Batch, name) for name in ("run", "resume", "verify", "update", "finish", "undo")]


LITERALS = sorted(name for name, kind in vars(changes).items() if typing.get_origin(kind) is typing.Literal)


def text() -> str:
    """The module with one TypedDict for each table."""
    lines = [
        '"""The tables of `options` as types of keywords; written by its test, test_keywords.py."""',
        "",
        "from __future__ import annotations",
        "",
        "import os",
        "from collections.abc import Mapping, Sequence",
        "from typing import TypedDict",
        "",
        "from zarrstack.core.json_text import JSONObject",
        "",
        "from ..core.data_types.v3 import DataType",
        "from ..storage.open_storage import Place",
        "from .changes import (",
        *(f"    {name}," for name in LITERALS),
        ")",
        "from .options import Axes, ExecutorChoice, Format, Link, PathText, StorageOptions, VerifyLevel",
        "from .parsing import ShardRequest",
        "from .recipe import CodecForms, RequiredModel",
    ]
    for table in TABLES:
        bases = [base for base in table.__bases__ if base in TABLES]
        above = ", ".join(f"{base.__name__}Keywords" for base in bases) or "TypedDict"
        known = {each.name for base in bases for each in fields(base)}
        lines += ["", "", f"class {table.__name__}Keywords({above}, total=False):"]
        lines += [f'    """{(table.__doc__ or "").strip()}"""', ""]
        lines += [f"    {each.name}: {each.type}" for each in fields(table) if each.name not in known]
    lines += ["", "", "class RecipeKeywords(TypedDict, total=False):"]
    lines += ['    """A recipe for all arrays, and of the whole archive; None is what the recipe has."""', ""]
    lines += [f"    {name}: {kind}" for name, kind in recipe_types().items()]
    return "\n".join(lines) + "\n"


def recipe_types() -> dict[str, str]:
    """The forms in which each option of a recipe may be given, as in its dataclasses."""
    parsed = re.compile(r"_Parsed\[(?P<given>(?:[^,\[]|\[[^\]]*\])*), .*\]")
    forms = {name: parsed.sub(r"\g<given>", ArrayRecipe.__annotations__[name]) for name in ARRAY_OPTIONS}
    whole = {
        "memory": "str | int", "include": "str | Sequence[str]", "exclude": "str | Sequence[str]",
        "consolidate": "bool", "model": "str | os.PathLike[str] | RequiredModel",
    }  # fmt: skip
    assert whole.keys() == WHOLE_OPTIONS.keys()
    return {
        name: kind if kind.endswith("| None") else f"{kind} | None"
        for name, kind in {**forms, **whole}.items()
    }


@pytest.mark.golden
def test_every_table_is_a_type_of_keywords() -> None:
    if os.environ.get("UPDATE"):
        Path(keywords.__file__).write_text(text())
    assert Path(keywords.__file__).read_text() == text(), "run: UPDATE=1 python3 go.py test"


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


@pytest.mark.parametrize(
    ("wrong", "right"),
    {
        "follow_link": "follow_links",
        "compressor": "codecs",
        "shard": "shards",
        "source_format": "format",
    }.items(),
)
def test_a_wrong_keyword_is_refused_with_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'; did you mean '{right}'"):
        zarrlift.plan("a.zarr", "b.zarr", **{wrong: 1})  # type: ignore[call-arg]


def test_every_option_of_a_recipe_is_a_keyword_of_what_plans() -> None:
    for function in (zarrlift.migrate, zarrlift.plan, zarrlift.batch):
        assert recipe_types().keys() <= inspect.signature(function).parameters.keys()


def test_a_recipe_is_given_in_any_form_and_keywords_replace_its_general_part(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.arange(100), zarr_format=2, path="x")
    toml = 'codecs = "gzip:1"\n[arrays."**"]\nshards = "auto"\n'
    (tmp_path / "recipe.toml").write_text(toml)
    asked = zarrlift.Recipe(
        base=zarrlift.ArrayRecipe(codecs="gzip:1"), sections=(("**", (("shards", "auto"),)),)
    )
    for form in (asked, tmp_path / "recipe.toml", str(tmp_path / "recipe.toml"), tomllib.loads(toml)):
        plain = zarrlift.plan(tmp_path / "a.zarr", recipe=form)
        assert plain.recipe == asked
        changed = zarrlift.plan(tmp_path / "a.zarr", recipe=form, codecs="zstd:3", chunks=[10], include="x")
        base = zarrlift.ArrayRecipe(codecs="zstd:3", chunks="10")
        assert changed.recipe == replace(asked, base=base, include=("x",))


def test_what_is_no_recipe_is_refused(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.arange(100), zarr_format=2)
    for wrong in (
        {"recipe": 5}, {"recipe": {"codec": "zstd"}}, {"memory": "much"}, {"codecs": "zstdd"},
        {"recipe": zarrlift.ArrayRecipe()}, {"include": ["[a"]}, {"model": tmp_path / "none.json"},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            zarrlift.plan(tmp_path / "a.zarr", **wrong)  # type: ignore[call-overload,arg-type]


def test_a_dry_run_is_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.arange(100), zarr_format=2)
    plan = zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", shards="auto", dry_run=True)
    same = zarrlift.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", shards="auto")
    assert plan == replace(same, free_bytes=plan.free_bytes)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]

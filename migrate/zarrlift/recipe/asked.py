"""The recipe that arguments of functions and words of the command line ask for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from zarrstack.core.errors import UsageError
from zarrstack.core.sizes import parse_size

from .changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from .parsing import parse_conventions, require_conventions
from .recipe import Recipe, RequiredModel, check_glob

RecipeForm: TypeAlias = Recipe | str | os.PathLike[str] | Mapping[str, Any]
"""A recipe, the path of a TOML file, or the content of one."""


def asked_recipe(recipe: RecipeForm | None, changes: Mapping[str, Any]) -> Recipe:
    """A recipe in any form, of which some options have other values, as keywords and words of commands give.

    Those for arrays replace the recipe's general part. UsageError if something is not valid.
    """
    if recipe is None:
        recipe = Recipe()
    elif isinstance(recipe, str | os.PathLike | Mapping):
        from .toml_file import load_recipe, parse_recipe  # rarely needed

        recipe = parse_recipe(recipe) if isinstance(recipe, Mapping) else load_recipe(recipe)
    elif not isinstance(recipe, Recipe):
        raise UsageError(
            "recipe has the wrong type",
            found=type(recipe).__name__,
            expected="a Recipe, a TOML file or a dict",
        )
    base = {name: value for name, value in changes.items() if name in ARRAY_OPTIONS}
    require_conventions(parse_conventions(base.get("conventions", "auto")))
    whole = {name: value for name, value in changes.items() if name in WHOLE_OPTIONS}
    for name in whole.keys() & {"include", "exclude"}:
        whole[name] = (whole[name],) if isinstance(whole[name], str) else tuple(whole[name])
        for glob in whole[name]:
            check_glob(glob)
    if isinstance(whole.get("memory"), str):
        size = parse_size(whole["memory"])
        if not isinstance(size, int):
            raise UsageError("memory is not a size", found=repr(whole["memory"]), expected="such as 2GB")
        whole["memory"] = size
    if "model" in whole and not isinstance(whole["model"], RequiredModel):
        whole["model"] = RequiredModel.at(os.fspath(whole["model"]))
    return replace(recipe, base=replace(recipe.base, **base), **whole)

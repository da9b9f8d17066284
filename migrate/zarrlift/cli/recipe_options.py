"""The options for the requested changes, and the recipe that they describe."""

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from zarrstack.core.similar_names import did_you_mean

from ..recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ..recipe.options import Option, Reading, flag_of
from .option_groups import Group, described, option, size, usage

if TYPE_CHECKING:
    from ..recipe import recipe

_READING: Final = {each.name: each.metadata["option"] for each in fields(Reading) if each.metadata}
_ROWS: Final = {**ARRAY_OPTIONS, **_READING}
_RARE: Final = tuple(name.replace("_", "-") for name, row in _ROWS.items() if row.rare)
_TRUTHS: Final = {"true": True, "false": False}

Recipe: TypeAlias = Annotated[
    str | None, option("--recipe", help="A TOML recipe: that of the migration.", metavar="FILE.toml")
]


def _completed(incomplete: str) -> list[str]:
    """What `--set` may be continued with."""
    name, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{word}=" for word in _RARE if word.startswith(name)]
    row = _ROWS.get(name.replace("-", "_"))
    return [f"{name}={choice}" for choice in (_choices(row) if row else ())]


def _choices(row: Option) -> tuple[str, ...]:
    """The values that `--set` takes for an option."""
    return tuple(_TRUTHS) if row.type is bool else row.choices


class RecipeOptions(Group):
    """The requested changes: a recipe file, the options of `ArrayRecipe`, and those of a whole archive."""

    heading = "How"

    recipe_file: Annotated[
        str | None,
        option(
            "--recipe",
            help="A TOML recipe. Options on the command line replace its general part; its sections for "
            "paths have priority over both.",
            metavar="FILE.toml",
        ),
    ] = None
    rare: Annotated[
        list[str] | None,
        option(
            "--set",
            help=f"A rare option (repeatable): {', '.join(_RARE)}.",
            metavar="NAME=VALUE",
            autocompletion=_completed,
        ),
    ] = None

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The options declared here and those of recipes; None means "not given"."""
        file, rare = super().parameters()
        arrays = [
            described(name, row, False if row.type is bool else None)
            for name, row in ARRAY_OPTIONS.items()
            if not row.rare
        ]
        return (file, *arrays, rare, *(described(name, row, None) for name, row in WHOLE_OPTIONS.items()))

    def recipe(self) -> "recipe.Recipe":
        """The recipe of the file, or the default one, modified by the other options. Raises UsageError."""
        from dataclasses import replace

        from ..recipe import recipe
        from ..recipe.convention_names import parse_conventions, require_known

        result = load_recipe(self.recipe_file) or recipe.Recipe()
        given = {name: value for name, value in vars(self).items() if value is not None}
        base = {name: value for name, value in given.items() if name in ARRAY_OPTIONS and value is not False}
        require_known(parse_conventions(base.get("conventions", "auto")))
        base |= {name: value for name, value in _rare(self.rare or ()).items() if name in ARRAY_OPTIONS}
        if "casting" in base and self.recipe_file is None and "dtype" not in base:
            raise usage("--set casting=... requires --dtype", expected="--dtype NAME")
        whole = {name: value for name, value in given.items() if name in WHOLE_OPTIONS}
        for name in whole.keys() & {"include", "exclude"}:
            whole[name] = tuple(whole[name])
        if "memory" in whole:
            whole["memory"] = size(whole["memory"], "--memory")
        if "model" in whole:
            from ..models.requirement import load as load_model

            whole["model"] = load_model(whole["model"]).named()
        return replace(result, base=replace(result.base, **base), **whole)

    def reading(self) -> dict[str, Any]:
        """What `--set` gives of how an archive is read, as arguments of the public functions; UsageError."""
        return {name: value for name, value in _rare(self.rare or ()).items() if name in _READING}


def _rare(texts: Iterable[str]) -> dict[str, Any]:
    """The options that `--set` gives, by name; UsageError."""
    members: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        row = _ROWS.get(name)
        if row is not None and not row.rare:
            raise usage(f"--set {name}: this has an option of its own", expected=flag_of(name, row))
        if row is None or not equals:
            near = did_you_mean(name.replace("_", "-"), _RARE)
            raise usage(f"--set takes NAME=VALUE, found {text}", expected=", ".join(_RARE), advice=near)
        if (choices := _choices(row)) and value not in choices:
            raise usage(f"--set {name}: {value!r}", expected=", ".join(choices))
        members[name] = _TRUTHS[value] if row.type is bool else value
    return members


def load_recipe(path: str | None) -> "recipe.Recipe | None":
    """The recipe in a TOML file, if one is given; raises UsageError."""
    if path is None:
        return None
    from ..recipe.toml_file import load_recipe as load

    return load(path)

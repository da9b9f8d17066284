"""The options for the requested changes, and the recipe that they describe."""

from functools import cache
from inspect import Parameter
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from ..recipe.options import ARRAY_OPTIONS
from .option_groups import Group, option, parameter
from .option_values import size, usage

if TYPE_CHECKING:
    from ..recipe.recipe import Recipe

ViewRecipe: TypeAlias = Annotated[
    str | None,
    option("--recipe", help="A TOML recipe: show the result of a migration with it.", metavar="FILE.toml"),
]
VerifyRecipe: TypeAlias = Annotated[
    str | None,
    option("--recipe", help="The recipe of the migration, if there is no job.", metavar="FILE.toml"),
]


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
    clamp: Annotated[
        bool, option("--clamp", help="With --dtype: values out of range become the nearest valid one.")
    ] = False
    round_: Annotated[bool, option("--round", help="With --dtype: values may be rounded.")] = False
    memory: Annotated[
        str | None,
        option(
            "--memory",
            heading="Running",
            help="With --chunks: memory limit of the process, such as 2GB; by default a quarter of the "
            "machine's memory.",
            metavar="SIZE",
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        option(
            "--include",
            heading="What to convert",
            help="Only nodes whose path matches; repeatable.",
            metavar="GLOB",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        option(
            "--exclude",
            heading="What to convert",
            help="Omit nodes whose path matches; repeatable.",
            metavar="GLOB",
        ),
    ] = None
    consolidate: Annotated[
        bool | None,
        option(
            "--consolidate/--no-consolidate",
            heading="Result",
            help="Whether to write consolidated metadata; by default as in the source.",
        ),
    ] = None
    model: Annotated[
        str | None,
        option(
            "--model",
            heading="Result",
            help="Required structure of the result: a ZOM or JSON Schema in a file, or module:Name. "
            "Checked during planning.",
            metavar="MODEL",
        ),
    ] = None

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The options declared here and those of `ArrayRecipe`; None and False mean "not given"."""
        file, clamp, round_, *others = super().parameters()
        arrays: dict[str, tuple[Parameter, ...]] = {}
        for name, known in ARRAY_OPTIONS.items():
            flag = known.type is bool
            words = option(
                f"--{name.replace('_', '-')}", help=known.help, metavar=known.metavar, heading=cls.heading
            )
            kind: Any = bool if flag else known.type | None
            arrays[name] = (parameter(name, Annotated[kind, words], False if flag else None),)
        arrays["casting"] = (clamp, round_)
        return (file, *chain.from_iterable(arrays.values()), *others)

    def recipe(self) -> "Recipe":
        """The recipe of the file, or the default one, modified by the other options. Raises UsageError."""
        from dataclasses import replace

        from ..recipe.convention_names import parse_conventions, require_known
        from ..recipe.recipe import Recipe

        result = load_recipe(self.recipe_file) or Recipe()
        given = {name: value for name, value in vars(self).items() if value not in (None, False)}
        base = {name: value for name, value in given.items() if name in ARRAY_OPTIONS}
        require_known(parse_conventions(base.get("conventions", "auto")))
        casting = "+".join(word for word, wanted in (("clamp", self.clamp), ("round", self.round_)) if wanted)
        if casting:
            if self.recipe_file is None and "dtype" not in base:
                raise usage("--clamp and --round require --dtype", expected="--dtype NAME")
            base["casting"] = casting
        whole: dict[str, Any] = {name: tuple(given[name]) for name in ("include", "exclude") if name in given}
        if self.consolidate is not None:
            whole["consolidate"] = self.consolidate
        if self.memory is not None:
            whole["memory"] = size(self.memory, "--memory")
        if self.model is not None:
            from ..models.requirement import load as load_model

            whole["model"] = load_model(self.model).named()
        return replace(result, base=replace(result.base, **base), **whole)


def load_recipe(path: str | None) -> "Recipe | None":
    """The recipe in a TOML file, if one is given; raises UsageError."""
    if path is None:
        return None
    from ..recipe.toml_file import load_recipe as load

    return load(path)

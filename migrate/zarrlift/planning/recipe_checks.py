"""Refuses recipes: options that exclude each other, and options that no array of a plan takes.

Options that only say what to do with values that may occur, such as `--set objects=json`, are not requests:
they apply where there are such values. What some arrays do not take is a warning of each of those arrays. So
is what zarrlift leaves out for a reason of its own, such as shards of data types that zarr-python cannot read
there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from zarrstack.core.errors import Problem, UnsupportedError, UsageError

from ..core.grid.frames import Shards
from ..core.problems import note, warning
from ..recipe.changes import ARRAY_OPTIONS
from ..recipe.options import Format, flag_of
from ..recipe.parsing import ByName, CodecRequest, conventions_text
from ..recipe.recipe import ArrayRecipe, Recipe, matches
from .chunks_and_shards import along_axes
from .plans import ArrayPlan, Plan

_NAMED: Final = 3
"""Reasons that the error names."""
_MAY_HAVE_SHARDS: Final[frozenset[Format]] = frozenset({"zarr3", "zarr3-draft"})
"""Formats whose arrays keep their shards: the options of a shard's index apply wherever there are any."""


def check_recipe(recipe: ArrayRecipe, *, in_place: bool = False) -> None:
    """Raise UsageError if the requested changes contradict each other, or the place of the chunks."""
    if recipe.multiscale is not None and not {"auto", "n5"} & {*recipe.conventions}:
        raise UsageError(
            "--set multiscale=ome requires the convention n5, which is not requested",
            found=f"--conventions {conventions_text(recipe.conventions)}",
            expected="auto, or n5 among the names",
        )
    if recipe.ome != ArrayRecipe.ome and not {"auto", "ome"} & {*recipe.conventions}:
        raise UsageError(
            f"--set ome={recipe.ome} requires the convention ome, which is not requested",
            found=f"--conventions {conventions_text(recipe.conventions)}",
            expected="auto, or ome among the names",
        )
    changes = {
        flag_of(name, row): row.changes
        for name, row in ARRAY_OPTIONS.items()
        if row.changes is not None and _changes_chunks(recipe, name)
    }
    if in_place and changes:
        raise UsageError(
            "in place only metadata is added; chunks and their keys do not change",
            found=", ".join(changes),
            advice="Migrate to a new destination, or omit the option.",
        )
    of_payloads = [flag for flag, changed in changes.items() if changed == "payloads"]
    if recipe.codecs.mode == "keep" and of_payloads:
        raise UsageError(
            "--codecs keep does not change stored bytes",
            found=", ".join(of_payloads),
            advice="Omit one of the two.",
        )
    if recipe.codecs.head and (recipe.endian != "keep" or recipe.order != "keep"):
        raise UsageError(
            "a complete codec chain defines byte order and memory order",
            found="--set endian or order in addition",
            advice="Omit them.",
        )


def changes_payloads(recipe: ArrayRecipe) -> bool:
    """Whether an option requires that chunks are decoded to values."""
    return any(
        row.changes == "payloads" and _changes_chunks(recipe, name) for name, row in ARRAY_OPTIONS.items()
    )


def _changes_chunks(recipe: ArrayRecipe, name: str) -> bool:
    """Whether an option that can change chunks is set to do so."""
    if name == "codecs":
        return recipe.codecs.mode == "explicit"
    if name == "key_encoding":
        return recipe.key_encoding == "default"  # the other one is that of the source
    return bool(getattr(recipe, name) != getattr(ArrayRecipe, name))


_CHANGES: Final = (
    "separator",
    *(name for name, row in ARRAY_OPTIONS.items() if row.changes is not None),
)
"""The options that ask for other objects than those of the source."""


def refuse_changes(recipe: Recipe, path: str) -> None:
    """Raise UnsupportedError if a section of the recipe names an array that is passed through."""
    for glob, name, value in _requests(recipe, _CHANGES):
        if glob is not None and glob.strip("/") == path and _is_change(name, value):
            raise UnsupportedError(
                "an array that is not described here cannot be changed",
                found=_text(glob, name, value),
                advice="Remove its section from the recipe, or exclude the array.",
            )


def unchanged_arrays(recipe: Recipe, passed: Sequence[str]) -> Iterator[Problem]:
    """A note for each option that is not applied to arrays that are passed through, whose paths are given."""
    for option, paths in _applied(recipe, _CHANGES, passed):
        what = f"{option} is not applied to arrays that are not described here"
        yield note("passed-through", what, found=_paths_text(paths))


def unconverted_nodes(recipe: Recipe, unconverted: Mapping[str, frozenset[str]]) -> Iterator[Problem]:
    """A note for each option that keeps metadata of conventions as readers do not find them in Zarr v3.

    `unconverted` has the paths of the nodes by the name of the convention.
    """
    for option, paths in _applied(recipe, ("conventions",), sorted({*chain(*unconverted.values())})):
        names = [name for name, nodes in unconverted.items() if not nodes.isdisjoint(paths)]
        what = f"with {option}, metadata of {' and '.join(names)} is kept in its old form"
        yield note(
            "convention",
            f"{what}, which its readers do not find in Zarr v3",
            found=_paths_text(paths),
            advice=f"To convert it, omit the option, or add {' and '.join(names)} to its names.",
        )


def _applied(recipe: Recipe, names: Collection[str], paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option that requests a change in these fields, with those of `paths` whose recipe has it."""
    for glob, name, value in _requests(recipe, names):
        concerned = [
            path
            for path in paths
            if (glob is None or matches(glob, path)) and getattr(recipe.for_array(path), name) == value
        ]
        if concerned and _is_change(name, value):
            yield _text(glob, name, value), concerned


def _paths_text(paths: Sequence[str]) -> str:
    more = f", and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(f"/{path}" for path in paths[:_NAMED]) + more


def _is_change(name: str, value: object) -> bool:
    return name != "codecs" or (isinstance(value, CodecRequest) and value.mode == "explicit")


def refuse_unapplied(plan: Plan) -> None:
    """Raise UsageError if the recipe requests something that no array of the plan takes."""
    if any(refusal.kind == "array" for refusal in plan.refusals):
        return  # those arrays might take it
    options, reasons = [], []
    for text, takers, causes in _applications(plan, (*_REASONS, "multiscale")):
        if not takers:
            options.append(text)
            reasons += causes
    if options:
        unique = list(dict.fromkeys(reasons))
        more = f", and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
        raise UsageError(
            f"no array takes {' or '.join(options)}",
            found=", ".join(unique[:_NAMED]) + more,
            expected="an option that at least one array takes",
            advice="Change or omit it; in a recipe, it can be set by path.",
        )


def partly_applied(plan: Plan) -> Iterator[Problem]:
    """A warning for each request of chunks and shards that only some arrays take, with those arrays."""
    for text, takers, causes in _applications(plan, ("chunks", "shards")):
        if takers and causes:
            count = f"{len(takers)} of {len(takers) + len(causes)} arrays"
            yield warning("grid", f"{text} is applied to {count}: {_paths_text(takers)}")


def _applications(plan: Plan, names: Collection[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each option that is requested for arrays, the paths of those that take it, and why others do not."""
    for glob, name, value in _requests(plan.recipe, names):
        text = _text(glob, name, value)
        if name == "multiscale":
            if plan.format != "n5":
                yield text, [], [f"format {plan.format}"]
            continue
        if _REASONS[name] is _shard_index and plan.format in _MAY_HAVE_SHARDS:
            continue
        takers, causes = [], []
        for array in plan.arrays:
            recipe = plan.recipe.for_array(array.path)
            if array.route.name == "pass" or getattr(recipe, name) != value:
                continue
            if glob is None or matches(glob, array.path):
                reason = _REASONS[name](array, recipe)
                takers += [array.path] * (reason is None)
                causes += [] if reason is None else [reason]
        if takers or causes:
            yield text, takers, causes


def _requests(recipe: Recipe, names: Collection[str]) -> Iterator[tuple[str | None, str, object]]:
    """(glob of a section or None, field, value) of everything that is requested of these fields."""
    for name in names:
        value = getattr(recipe.base, name)
        if value != getattr(ArrayRecipe, name):
            yield None, name, value
    for glob, changes in recipe.sections:
        for name, value in changes:
            if name in names and value != getattr(ArrayRecipe, name):
                yield glob, name, value


def _text(glob: str | None, name: str, value: object) -> str:
    """The option as it was given."""
    as_json = ArrayRecipe(**{name: value}).to_json()[name]  # type: ignore[arg-type]
    if glob is not None:
        return f"{name} = {as_json!r} of {glob!r}"
    if name == "casting":  # two flags of the command line
        return f"{name} = {as_json!r}"
    row = ARRAY_OPTIONS[name]
    return f"{flag_of(name, row)}{'=' if row.rare else ' '}{as_json}"


def _axes(array: ArrayPlan, request: object) -> str | None:
    """Why lengths or numbers along axes do not fit an array."""
    layout = array.destination
    if isinstance(request, tuple | ByName):
        try:
            along_axes("", request, layout.dimension_names, layout.shape)
        except UnsupportedError as error:
            count = f"{len(layout.shape)} {'axis' if len(layout.shape) == 1 else 'axes'}"
            return f"{error.problem.expected if isinstance(request, ByName) else count} (/{array.path})"
    return None


def _shard_index(array: ArrayPlan, recipe: ArrayRecipe) -> str | None:
    """Why there is no index; None if shards were requested, though the array has none."""
    if recipe.shards is not None or isinstance(array.destination.frame, Shards):
        return None
    return f"no shards (/{array.path})"


def _casting(array: ArrayPlan, recipe: ArrayRecipe) -> str | None:
    return None if recipe.dtype is not None else f"no --dtype (/{array.path})"


_REASONS: Final[Mapping[str, Callable[[ArrayPlan, ArrayRecipe], str | None]]] = {
    "chunks": lambda array, recipe: _axes(array, recipe.chunks),
    "shards": lambda array, recipe: _axes(array, recipe.shards),
    "shard_index": _shard_index,
    "shard_index_location": _shard_index,
    "casting": _casting,
}
"""Why an array does not take an option, by field of `ArrayRecipe`; None if it does."""

"""The functions show, schema, validate and diff, for archives and models."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.json_text import JSONObject

from ..formats.describe import open_source
from ..recipe.asked import RecipeForm, asked_recipe
from ..recipe.keywords import DescribingKeywords, SourceOptionsKeywords
from ..recipe.signatures import explicit
from ..storage.local.files import is_file
from ..storage.open_storage import Place, is_url
from .differences import Difference, differences
from .hierarchy import (
    STANDARD_INPUT,
    Hierarchy,
    as_v3,
    checked_model,
    in_v3_terms,
    read_hierarchy,
    read_model,
)
from .requirement import Requirement, load
from .schemas import format_schema, hierarchy_schema, library
from .zom import FormatNumber, copied, format_of, is_group

if TYPE_CHECKING:
    from zarr import Array, Group

    Modelled: TypeAlias = Place | Group | Array[Any] | JSONObject | Hierarchy
else:  # resolvable at run time, without loading zarr
    Modelled = Place | Hierarchy | Any
"""An archive (path, URL, store, zarr's open group or array), a model file, or a model."""


class _Describing(DescribingKeywords, SourceOptionsKeywords):
    """The arguments that `show` shares with `zarrlift.inspect`."""


class Reading(_Describing, total=False):
    """How an archive is read; the arguments of `show`."""

    migrated: bool
    recipe: RecipeForm | None


@explicit
def show(
    place: Modelled,
    *,
    migrated: bool = False,
    recipe: RecipeForm | None = None,
    **options: Unpack[_Describing],
) -> Hierarchy:
    """The model of an archive: v2 and v3 unchanged, other formats as the v3 model of their layout.

    `place` is an archive (a path, a URL with `storage_options`, a zarr store, group or array), a model or a
    file with one. With `migrated`, the model of the result of a migration with `recipe`, by the plan's own
    mapping. `format`, `follow_links`, `axes`, `allow_fallback` and `max_document_size` are those of
    `zarrlift.inspect`. Chunks are not read. Nodes that cannot be read are omitted and listed in `problems`.

    Raises
    ------
    UsageError
        If there is nothing at the place.
    MetadataError
        If the root cannot be read.

    Examples
    --------
    >>> sorted(zarrlift.models.show("ocean.zarr").model["members"])
    ['lat', 'lon', 'sst', 'time']
    """
    if isinstance(place, Hierarchy):
        return as_v3(place, asked_recipe(recipe, {})) if migrated else place
    if isinstance(place, dict) or is_model_file(place):
        read = checked_model(place, "the model") if isinstance(place, dict) else read_model(place)  # type: ignore[arg-type]
        return as_v3(read, asked_recipe(recipe, {})) if migrated else read
    target: Any = getattr(place, "store_path", place)  # for an object that zarr has opened
    storage, reading, format = open_source(target, options)  # noqa: A001 - as in the public functions
    hierarchy = read_hierarchy(storage, format=format, options=reading)
    return as_v3(hierarchy, asked_recipe(recipe, {})) if migrated else hierarchy


def is_model_file(place: object) -> bool:
    """Whether a place is a model file: any file that is not a zip, and standard input."""
    if not isinstance(place, (str, os.PathLike)) or (isinstance(place, str) and is_url(place)):
        return False
    if place == STANDARD_INPUT:
        return True
    path = Path(place).expanduser()
    return is_file(path) and path.suffix != ".zip"


@explicit
def schema(
    place: Modelled | None = None,
    *,
    zarr_format: FormatNumber = 3,
    leave_open: Collection[str] = (),
    **options: Unpack[Reading],
) -> JSONObject:
    """The JSON Schema of all models of Zarr v2 or v3 (`zarr_format`), or of the hierarchy at `place`.

    The schema of a hierarchy accepts only this structure, except for the parts in `leave_open`: "shape",
    "chunks", "codecs", "fill_value", "keys", "attributes", "members". The other arguments are those of
    `show`.

    Raises
    ------
    UsageError
        If there is nothing at the place, or for an unknown part in `leave_open`.

    Examples
    --------
    >>> schema = zarrlift.models.schema("ocean.zarr", leave_open=["attributes"])
    >>> zarrlift.models.validate("ocean.zarr", schema)
    ()
    """
    if place is None:
        return format_schema(zarr_format)
    return hierarchy_schema(show(place, **options).model, leave_open=leave_open)


@explicit
def validate(
    place: Modelled,
    model: str | JSONObject | Requirement,
    *,
    leave_open: Collection[str] = (),
    **options: Unpack[Reading],
) -> tuple[Problem, ...]:
    """Every violation of a model by the archive at `place`, by path; empty if it conforms.

    `model` is a JSON Schema or a ZOM, a file or its content; of a ZOM, `leave_open` names parts that may
    differ (see `schema`). Unreadable parts of the archive are among the problems. The other arguments are
    those of `show`.

    Raises
    ------
    UsageError
        For an invalid model, and for a ZOM of another format.

    Examples
    --------
    >>> model = zarrlift.models.show("ocean.zarr").model
    >>> del model["members"]["lat"]
    >>> [problem.message for problem in zarrlift.models.validate("ocean.zarr", model)]
    ['the array is not in the model']
    """
    requirement = model if isinstance(model, Requirement) else load(model, leave_open=leave_open)
    hierarchy = show(place, **options)
    return (*hierarchy.unread_problems, *requirement.violations(hierarchy.model))


@explicit
def diff(
    first: Modelled, second: Modelled, *, ignore: Collection[str] = (), **options: Unpack[Reading]
) -> tuple[Difference, ...]:
    """The structural differences of `second` from `first`, by path; empty if they are equal.

    Values and storage are not compared. Models of one format are compared directly, others as the v3 models
    of their layouts. `ignore` names members of metadata to skip, such as "codecs". The other arguments are
    those of `show`, for both.

    Raises
    ------
    UsageError, MetadataError
        As `show`.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> differences = zarrlift.models.diff("ocean.zarr", "new.zarr", ignore=["codecs"])
    >>> [(one.path, one.member) for one in differences][:2]
    [('lat', 'chunk_key_encoding'), ('lat', 'dimension_names')]
    """
    one, other = show(first, **options), show(second, **options)
    if (one.format == "zarr2") != (other.format == "zarr2"):
        one, other = in_v3_terms(one), in_v3_terms(other)
    return tuple(differences(one.model, other.model, ignore=ignore))


def to_pydantic(model: JSONObject) -> Any:
    """The `model` as pydantic-zarr's `GroupSpec` or `ArraySpec` of its Zarr format.

    `model_dump(mode="json")` of the result is a model again. A v2 array without a `dimension_separator` gets
    the specification's default, ".", for which pydantic-zarr takes "/".

    Raises
    ------
    MetadataError
        If this is not a model, or if pydantic-zarr does not accept it.
    UsageError
        If pydantic-zarr is not installed.

    Examples
    --------
    >>> spec = zarrlift.models.to_pydantic(zarrlift.models.show("ocean.zarr").model)
    >>> spec.members["lat"].shape
    (90,)
    """
    whole = checked_model(model, "the model").model
    number = format_of(whole)
    if number == 2:
        whole = copied(whole, lambda node: is_group(node) or node.setdefault("dimension_separator", "."))
    module = library(f"pydantic_zarr.v{number}", "a model of pydantic-zarr")
    kind: Any = module.GroupSpec if is_group(whole) else module.ArraySpec
    try:
        return kind.model_validate(whole)
    except ValueError as error:
        raise MetadataError("pydantic-zarr does not accept the model", found=str(error)) from error

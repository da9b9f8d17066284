"""The functions show, schema, validate and diff, for archives and models."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSONObject

from ..archive.read_options import ReadOptions
from ..recipe.options import Axes, Format
from ..recipe.recipe import Recipe
from ..storage.open_storage import Place, is_url, open_storage
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
from .schemas import format_schema, hierarchy_schema
from .zom import FormatNumber

if TYPE_CHECKING:
    from zarr import Array, Group

Modelled: TypeAlias = "Place | Group | Array[Any] | JSONObject | Hierarchy"
"""An archive (path, URL, store, zarr's open group or array), a model file, or a model."""


class Reading(TypedDict, total=False):
    """How an archive is read; the arguments of `show`."""

    migrated: bool
    recipe: Recipe | None
    format: Format | None
    storage_options: Mapping[str, Any] | None
    follow_links: bool
    axes: Axes | None
    allow_fallback: bool
    max_document_size: int | None


def show(
    place: Modelled,
    *,
    migrated: bool = False,
    recipe: Recipe | None = None,
    format: Format | None = None,
    storage_options: Mapping[str, Any] | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
) -> Hierarchy:
    """The model of an archive: v2 and v3 unchanged, other formats as the v3 model of their layout.

    With `migrated`, the model of the result of a migration with `recipe`, by the plan's own mapping. Chunks
    are not read. Documents larger than `max_document_size` bytes (64 MiB by default) are refused. Nodes that
    cannot be read are omitted and listed in `problems`. Raises UsageError if there is nothing at the place,
    MetadataError if the root cannot be read.
    """
    if isinstance(place, Hierarchy):
        return as_v3(place, recipe) if migrated else place
    if isinstance(place, dict) or is_model_file(place):
        read = checked_model(place, "the model") if isinstance(place, dict) else read_model(place)  # type: ignore[arg-type]
        return as_v3(read, recipe) if migrated else read
    options = ReadOptions.asked(
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
    )
    there: Any = getattr(place, "store_path", place)  # for an object that zarr has opened
    storage = open_storage(there, storage_options=storage_options, follow_links=follow_links)
    hierarchy = read_hierarchy(storage, format=format, options=options)
    return as_v3(hierarchy, recipe) if migrated else hierarchy


def is_model_file(place: object) -> bool:
    """Whether a place is a model file: any file that is not a zip, and standard input."""
    if not isinstance(place, (str, os.PathLike)) or (isinstance(place, str) and is_url(place)):
        return False
    if place == STANDARD_INPUT:
        return True
    path = Path(place).expanduser()
    return path.is_file() and path.suffix != ".zip"


def schema(
    place: Modelled | None = None,
    *,
    zarr_format: FormatNumber = 3,
    leave_open: Collection[str] = (),
    **reading: Unpack[Reading],
) -> JSONObject:
    """The JSON Schema of all models of a format, or of one hierarchy.

    The schema of a hierarchy accepts only this structure, except for the parts in `leave_open`: "shape",
    "chunks", "codecs", "fill_value", "keys", "attributes", "members". `reading` is as for `show`. Raises
    UsageError.
    """
    if place is None:
        return format_schema(zarr_format)
    return hierarchy_schema(show(place, **reading).model, leave_open=leave_open)


def validate(
    place: Modelled,
    model: str | JSONObject | type | Requirement,
    *,
    leave_open: Collection[str] = (),
    **reading: Unpack[Reading],
) -> tuple[Problem, ...]:
    """Every violation of a model by an archive, by path; empty if it conforms.

    `model` is a JSON Schema or a ZOM (a file or its content), or a Python type (`module:Name` or the type
    itself). Unreadable parts of the archive are among the problems. `reading` is as for `show`. Raises
    UsageError for an invalid model, and for a ZOM of another format.
    """
    requirement = model if isinstance(model, Requirement) else load(model, leave_open=leave_open)
    hierarchy = show(place, **reading)
    return (*hierarchy.unread_problems, *requirement.violations(hierarchy.model))


def validate_many(
    places: Iterable[Modelled], model: str | JSONObject | type | Requirement, **reading: Unpack[Reading]
) -> Iterator[tuple[Modelled, tuple[Problem, ...]]]:
    """Validate many archives against one model; yields each with its violations.

    An archive that cannot be read has a single problem with the reason; the others are still validated.
    """
    requirement = model if isinstance(model, Requirement) else load(model)
    for place in places:
        try:
            yield place, validate(place, requirement, **reading)
        except ZarrstackError as error:
            yield place, (error.problem,)


def diff(
    first: Modelled, second: Modelled, *, ignore: Collection[str] = (), **reading: Unpack[Reading]
) -> tuple[Difference, ...]:
    """The structural differences between two hierarchies, by path; empty if they are equal.

    Values and storage are not compared. Models of one format are compared directly, others as the v3 models
    of their layouts. `ignore` names members of metadata to skip, such as "codecs". `reading` is as for
    `show`, for both.
    """
    one, other = show(first, **reading), show(second, **reading)
    if (one.format == "zarr2") != (other.format == "zarr2"):
        one, other = in_v3_terms(one), in_v3_terms(other)
    return tuple(differences(one.model, other.model, ignore=ignore))

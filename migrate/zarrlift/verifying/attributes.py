"""What a node's attributes must be after a migration, derived from the source's alone.

The documented changes are two: numbers that strict JSON cannot say become strings, and
xarray's `_ARRAY_DIMENSIONS` becomes `dimension_names` (xarray 2026.9,
`xarray/backends/zarr.py`: v3 arrays are read by `dimension_names` only). Everything else
is to be found again, value for value. Written apart from the code that makes the change,
so that the two can disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from zarrstack.core.jsons import JSON, JSONObject, canonical

from ..recipe import ArrayRecipe

DIMENSIONS = "_ARRAY_DIMENSIONS"


def expected_attributes(
    attributes: Mapping[str, JSON], ndim: int | None, recipe: ArrayRecipe
) -> tuple[JSONObject, tuple[str | None, ...] | None]:
    """The attributes to be found, and the dimension names they turned into (None if none).

    `ndim` is None for a group.
    """
    kept = dict(attributes)
    names: tuple[str | None, ...] | None = None
    if ndim is not None and recipe.conventions == "auto" and DIMENSIONS in kept:
        labels = kept[DIMENSIONS]
        if (
            isinstance(labels, (list, tuple))
            and len(labels) == ndim
            and all(label is None or isinstance(label, str) for label in labels)
        ):
            names = tuple(labels)
            del kept[DIMENSIONS]
    if recipe.attributes == "strict":
        kept = {name: strict(value) for name, value in kept.items()}
    return kept, names


def strict(value: JSON) -> JSON:
    """A JSON value with non-finite numbers as the strings "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    return value


def attribute_differences(found: JSON, expected: JSON) -> list[tuple[str, tuple[str, str]]]:
    """Names of attributes that differ, with what was found and what was expected as JSON text."""
    result = []
    for name in sorted(found.keys() | expected.keys()):
        mine = canonical(found[name]) if name in found else "nothing"
        theirs = canonical(expected[name]) if name in expected else "nothing"
        if mine != theirs:
            result.append((name, (mine, theirs)))
    return result

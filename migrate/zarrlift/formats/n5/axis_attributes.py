"""Attributes of N5 nodes with one entry per axis, in N5's axis order: x, y, z.

They are unchanged for either axis order of the arrays. They cannot be reversed in general, because some state
their own order, and others are read by programs that expect it
(https://github.com/constantinpape/z5/issues/44). The plan lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON

from ...core.problems import note
from ...recipe.options import Axes

_OF_GROUPS: Final = frozenset(
    {"axes", "downsamplingFactors", "offset", "pixelResolution", "resolution", "scales", "translate", "units"}
)
"""Attributes that COSEM, n5-viewer, Paintera and BigDataViewer write on groups."""
_SAYS_ITS_ORDER: Final = frozenset({"multiscales", "ome", "transform", "_ARRAY_DIMENSIONS"})
"""Attributes that state their own axis order: OME-NGFF, COSEM's `transform` and xarray's names."""


def axes_note(attributes: Mapping[str, JSON], axes: Axes, ndim: int | None = None) -> Iterator[Problem]:
    """A note with the attributes whose axis order differs from the array's.

    `ndim` is the number of axes of an array, None for a group. There is no note for one axis, or if axes are
    kept.
    """
    if axes == "kept" or ndim in (0, 1):
        return
    names = [
        name
        for name, value in attributes.items()
        if name not in _SAYS_ITS_ORDER and (name in _OF_GROUPS if ndim is None else _per_axis(value, ndim))
    ]
    if names:
        yield note(
            "axes",
            "these attributes are kept in N5's axis order, usually (x, y, z); "
            "arrays are presented as (z, y, x)",
            found=", ".join(sorted(names)),
            advice="Use --axes kept to present arrays in N5's order too.",
        )


def _per_axis(value: JSON, ndim: int) -> bool:
    """Whether a value, or a member of it, is a list with one number or name per axis."""
    if isinstance(value, dict):
        return any(_per_axis(item, ndim) for item in value.values() if isinstance(item, list))
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, list) for item in value):
        return all(_per_axis(item, ndim) for item in value)
    return len(value) == ndim and (
        all(isinstance(item, str) for item in value)
        or all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )

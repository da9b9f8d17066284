"""xarray on Zarr v2: the attribute `_ARRAY_DIMENSIONS` names an array's dimensions.

On Zarr v3 xarray reads and writes `dimension_names` instead, and shows `_ARRAY_DIMENSIONS`
as an attribute of the user's (xarray 2026.9.0, `xarray/backends/zarr.py`,
https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html).
"""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.jsons import canonical

from ..archive import ArrayNode
from .base import Recognised

ATTRIBUTE: Final = "_ARRAY_DIMENSIONS"


def recognise(node: ArrayNode) -> Recognised | None:
    """Dimension names instead of the attribute; None where the attribute is absent.

    The attribute moves only if it is a list of one str or null per dimension; else it stays,
    with a warning. Names the layout has already (NCZarr writes both) win over it.
    """
    if ATTRIBUTE not in node.attributes or node.layout is None:
        return None
    names = node.attributes[ATTRIBUTE]
    ndim = len(node.layout.shape)
    if (
        not isinstance(names, list)
        or len(names) != ndim
        or any(not isinstance(name, str | None) for name in names)
    ):
        problem = Problem(
            kind="convention",
            severity="warning",
            message=f"{ATTRIBUTE} stays an attribute: it does not name the dimensions",
            found=canonical(names)[:200],
            expected=f"a list of {ndim} strings or nulls",
        )
        return Recognised(attributes=node.attributes, problems=(problem,))
    attributes = {key: value for key, value in node.attributes.items() if key != ATTRIBUTE}
    present = node.layout.dimension_names
    if present is not None and any(name is not None for name in present) and present != tuple(names):
        problem = Problem(
            kind="convention",
            severity="warning",
            message=f"{ATTRIBUTE} stays an attribute: the array names its dimensions otherwise",
            found=canonical(names)[:200],
            expected=canonical(list(present)),
        )
        return Recognised(attributes=node.attributes, dimension_names=present, problems=(problem,))
    return Recognised(attributes=attributes, dimension_names=tuple(names))

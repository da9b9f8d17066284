"""xarray on Zarr v2: the attribute `_ARRAY_DIMENSIONS` names an array's dimensions.

On Zarr v3 xarray reads and writes `dimension_names` instead, and shows `_ARRAY_DIMENSIONS`
as an attribute of the user's (xarray 2026.9.0, `xarray/backends/zarr.py`,
https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html).
"""

from __future__ import annotations

from typing import ClassVar, Final

from zarrstack.core.errors import Problem
from zarrstack.core.jsons import canonical

from ..archive import ArrayNode
from .base import Change, Convention, Recognised, View

ATTRIBUTE: Final = "_ARRAY_DIMENSIONS"


class Xarray(Convention):
    """xarray and CF: names of dimensions, and fill values that mask."""

    name: ClassVar[str] = "xarray"

    def recognise(self, view: View) -> Recognised | None:
        """Arrays that bear `_ARRAY_DIMENSIONS`."""
        changes: dict[str, Change] = {}
        problems: list[Problem] = []
        for node in view.archive.nodes:
            if isinstance(node, ArrayNode) and node.layout is not None and ATTRIBUTE in node.attributes:
                change = _names(node, problems)
                if change is not None:
                    changes[node.path] = change
        if not changes and not problems:
            return None
        return Recognised(
            summary=f"{len(changes)} arrays with {ATTRIBUTE}", changes=changes, problems=tuple(problems)
        )


def _names(node: ArrayNode, problems: list[Problem]) -> Change | None:
    """Dimension names instead of the attribute.

    The attribute moves only if it is a list of one str or null per dimension; else it stays,
    with a warning. Names the layout has already (NCZarr writes both) win over it.
    """
    assert node.layout is not None
    names = node.attributes[ATTRIBUTE]
    ndim = len(node.layout.shape)
    if (
        not isinstance(names, list)
        or len(names) != ndim
        or any(not isinstance(name, str | None) for name in names)
    ):
        problems.append(
            Problem(
                kind="convention",
                severity="warning",
                node=node.path,
                message=f"{ATTRIBUTE} stays an attribute: it does not name the dimensions",
                found=canonical(names)[:200],
                expected=f"a list of {ndim} strings or nulls",
            )
        )
        return None
    present = node.layout.dimension_names
    if present is not None and any(name is not None for name in present) and present != tuple(names):
        problems.append(
            Problem(
                kind="convention",
                severity="warning",
                node=node.path,
                message=f"{ATTRIBUTE} stays an attribute: the array names its dimensions otherwise",
                found=canonical(names)[:200],
                expected=canonical(list(present)),
            )
        )
        return None
    attributes = {key: value for key, value in node.attributes.items() if key != ATTRIBUTE}
    return Change(attributes=attributes, dimension_names=tuple(names))

"""Axis names and multiscale pyramids on N5, converted to OME-Zarr on request.

The original attributes are kept; `pyramids` documents which program writes what. OME-Zarr 0.5:
https://ngff.openmicroscopy.org/0.5/index.html (multiscales: an image's levels, their axes, and a scale and a
translation each, in the order of the array's axes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject, excerpt

from ...archive.nodes import ArrayNode, GroupNode
from ...core.grid.frames import N5Blocks
from ...recipe.recipe import ArrayRecipe
from ..base import Change, Convention, Recognised, View, finding

if TYPE_CHECKING:
    from .pyramids import Pyramid

_OME: Final = "ome"
_UNITS: Final[Mapping[str, str]] = {
    "pm": "picometer",
    "Å": "angstrom",
    "angstrom": "angstrom",
    "nm": "nanometer",
    "um": "micrometer",
    "µm": "micrometer",  # the sign for micro
    "μm": "micrometer",  # the Greek letter
    "micron": "micrometer",
    "microns": "micrometer",
    "mm": "millimeter",
    "cm": "centimeter",
    "m": "meter",
}
"""Abbreviations in use -> the names that OME-Zarr 0.5 requires (UDUNITS-2)."""
_NO_UNIT: Final = frozenset({"", "pixel", "pixels", "px", "voxel"})


@dataclass(slots=True)
class _Account:
    """The results collected so far."""

    changes: dict[str, Change] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    pyramids: int = 0


class N5(Convention):
    """COSEM, n5-viewer, Paintera and BigDataViewer on N5: names of axes, and scales if they are asked for."""

    name: ClassVar[str] = "n5"

    @classmethod
    def refuses(cls, recipe: ArrayRecipe) -> bool:
        """Only if the conversion is requested: without it, no value is lost."""
        return cls.name in recipe.conventions or recipe.multiscale == _OME

    def recognise(self, view: View) -> Recognised | None:
        """Recognize groups whose levels are s0, s1, ..., and arrays that name their axes."""
        if view.archive.format != "n5":
            return None
        from .ome import recognise_in_n5  # only for N5 archives

        ngff = recognise_in_n5(view)
        account = _Account(changes=dict(ngff.changes), problems=list(ngff.problems))
        for node in view.archive.nodes:
            if isinstance(node, GroupNode) and node.path not in ngff.changes:
                _group(view, node, account)
        for node in view.archive.nodes:
            if isinstance(node, ArrayNode) and node.path not in account.changes:
                _array(node, account)
        if not account.changes and not account.problems:
            return None
        named = sum(change.dimension_names is not None for change in account.changes.values())
        words = [f"{account.pyramids} image{'s' * (account.pyramids > 1)} of several scales"] * bool(
            account.pyramids
        )
        words += [ngff.summary] * bool(ngff.summary)
        words.append(f"{named} array{'s' * (named != 1)} with named axes")
        return Recognised(
            summary=", ".join(words),
            changes=account.changes,
            problems=tuple(account.problems),
            files=ngff.files,
        )


def _array(node: ArrayNode, account: _Account) -> None:
    """Add an array outside of pyramids, if it names its axes."""
    if node.layout is None or not isinstance(node.layout.frame, N5Blocks) or "axes" not in node.attributes:
        return
    from .pyramids import axis_names  # only for N5 archives

    names = axis_names(node.attributes["axes"], len(node.layout.shape))
    if names is None:
        account.problems.append(
            finding(
                "warning",
                node.path,
                "axes does not name the array's axes in N5's order",
                excerpt(node.attributes["axes"]),
            )
        )
        return
    presented_names = names[::-1] if node.layout.frame.axes == "reversed" else names
    account.changes[node.path] = Change(dimension_names=presented_names)


def _group(view: View, node: GroupNode, account: _Account) -> None:
    from .pyramids import pyramid_of

    pyramid = pyramid_of(view, node)
    if pyramid is None:
        return
    account.pyramids += 1
    for level in pyramid.levels:
        account.changes[level.path] = Change(dimension_names=pyramid.shown(pyramid.axes))
    if view.recipe.for_array(node.path).multiscale != "ome":
        return
    if _OME in node.attributes:
        what = "the group already has an attribute `ome`, which is kept"
        account.problems.append(finding("warning", node.path, what, excerpt(node.attributes[_OME])))
        return
    missing = [level.path for level in pyramid.levels if not view.recipe.selects(level.path)]
    if missing or pyramid.refused:
        what = "a level of an image is not migrated, so no `ome` is written"
        levels = excerpt(sorted([*missing, *pyramid.refused]))
        account.problems.append(finding("warning", node.path, what, levels))
        return
    for unit in dict.fromkeys(pyramid.units):
        if unit not in _NO_UNIT and unit not in _UNITS and unit not in _UNITS.values():
            what = "a unit that OME-Zarr does not define is omitted"
            account.problems.append(finding("warning", node.path, what, excerpt(unit)))
    account.changes[node.path] = Change(attributes={**node.attributes, _OME: _image(node.path, pyramid)})


def _image(path: str, pyramid: Pyramid) -> JSONObject:
    """The `ome` attribute of an image's group."""
    axes = [_axis(*axis) for axis in zip(pyramid.axes, pyramid.units, strict=True)]
    return {
        "version": "0.5",
        "multiscales": [
            {
                "name": pyramid.name or path.rpartition("/")[2] or "image",
                "axes": list(pyramid.shown(tuple(axes))),
                "datasets": [
                    {
                        "path": level.path.rpartition("/")[2],
                        "coordinateTransformations": [
                            {"type": "scale", "scale": list(pyramid.shown(level.scale))},
                            {"type": "translation", "translation": list(pyramid.shown(level.translation))},
                        ],
                    }
                    for level in pyramid.levels
                ],
            }
        ],
    }


def _axis(name: str, unit: str) -> JSONObject:
    axis: JSONObject = {"name": name, "type": "space"}
    unit_name = unit if unit in _UNITS.values() else _UNITS.get(unit)
    return axis if unit_name is None else {**axis, "unit": unit_name}

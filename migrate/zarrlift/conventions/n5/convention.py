"""Axis names and multiscale pyramids on N5, converted to OME-Zarr on request.

The original attributes are kept; `pyramids` documents which program writes what. OME-Zarr 0.5:
https://ngff.openmicroscopy.org/0.5/index.html (multiscales: an image's levels, their axes, and a scale and a
translation each, in the order of the array's axes).

OME-NGFF, which may be inside N5 already, lists axes, scales and translations in the order of Zarr's
dimensions. Inside N5, n5-universe 1 and 2 (Fiji) and programs using zarr-python's N5Store, which presents (z,
y, x), write that order; n5-universe 3 writes N5's own order, (x, y, z)
(https://github.com/saalfeldlab/n5-universe, `OmeNgffMetadataParser`: 2.3.0 reverses in any container, 3.0.2
in Zarr only). All of them store x fastest, so the position of x in the axis names determines the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...archive.nodes import ArrayNode, GroupNode, Node
from ...core.grid.frames import N5Blocks
from ...recipe.options import Axes
from ...recipe.recipe import ArrayRecipe
from .. import Change, Convention, Recognised, View, finding
from ..ome.convention import FROM, recognise_ngff
from ..ome.images import image_problems, version_of
from ..ome.versions import BLOCK, TRANSFORMS, VERSION

if TYPE_CHECKING:
    from .pyramids import Pyramid


_IMAGES: Final = "multiscales"
_RANKS: Final = {"time": 0, "space": 2}
"""Types of axes in the order that OME-NGFF requires; channels and other types come in between."""
_ORDERED: Final = "x first or last; in the order of the arrays time, then channels, then space"
_ASK: Final = "Use --set multiscale=ome to convert it to OME-Zarr 0.5, with axes in the order of the arrays."
_OFFER: Final = "Use --set multiscale=ome to describe it as OME-Zarr 0.5, too."


def recognise_in_n5(view: View) -> Recognised:
    """Convert OME-NGFF 0.4 to 0.5 if `--set multiscale=ome` is given; otherwise note that it is kept."""
    problems: list[Problem] = []
    changes: dict[str, Change] = {}
    nodes = [_node_in_array_order(view, node, problems) for node in view.archive.nodes]
    result = recognise_ngff(replace(view, archive=replace(view.archive, nodes=tuple(nodes))), (FROM,))
    for node in view.archive.nodes:
        if isinstance(node, GroupNode) and isinstance(node.attributes.get(BLOCK), dict):
            changes.update(_block_in_array_order(view, node, problems))
    if result is None:
        return Recognised(summary="", changes=changes, problems=tuple(problems))
    return replace(result, changes={**changes, **result.changes}, problems=(*problems, *result.problems))


def _node_in_array_order(view: View, node: Node, problems: list[Problem]) -> Node:
    """A group with its OME-NGFF 0.4 in the order of its arrays; without `multiscales` that are kept."""
    if not isinstance(node, GroupNode) or not isinstance(images := node.attributes.get(_IMAGES), list):
        return node
    if _is_ngff(images):
        reordered = _images_in_array_order(view, node, images, f"OME-NGFF {FROM}", problems)
        if reordered is not None:
            return replace(node, attributes={**node.attributes, _IMAGES: reordered})
    elif any(isinstance(image, dict) and "version" in image for image in images):
        return node
    return replace(node, attributes={k: v for k, v in node.attributes.items() if k != _IMAGES})


def _block_in_array_order(
    view: View, node: GroupNode, problems: list[Problem]
) -> Iterator[tuple[str, Change]]:
    """A group with OME-Zarr 0.5 in the order of its arrays, if the order differs."""
    block = node.attributes[BLOCK]
    images = block.get(_IMAGES)
    if (
        block.get("version") != VERSION
        or not isinstance(images, list)
        or _reordered_images(view, images) == images
    ):
        return
    reordered = _images_in_array_order(view, node, images, f"OME-Zarr {VERSION}", problems)
    if reordered is not None and not any(image_problems(view, node.path, {_IMAGES: reordered})):
        yield node.path, Change(attributes={**node.attributes, BLOCK: {**block, _IMAGES: reordered}})


def _is_ngff(images: list[JSON]) -> bool:
    """Whether `multiscales` is OME-NGFF 0.4: COSEM uses the same name, without a version."""
    return (
        any(isinstance(image, dict) and "axes" in image for image in images)
        and version_of(_IMAGES, images) == FROM
    )


def _images_in_array_order(
    view: View, node: GroupNode, images: list[JSON], what: str, problems: list[Problem]
) -> list[JSON] | None:
    """The images in the order of their arrays; None, with a note, if they are kept unchanged."""
    reordered = _reordered_images(view, images)
    if view.recipe.for_array(node.path).multiscale == BLOCK and reordered is not None:
        return reordered
    problems.append(
        finding(
            "note",
            node.path,
            f"{what} inside N5 is kept unchanged",
            f"axes {excerpt([_names_of(image) for image in images])}",
            None if reordered is not None else _ORDERED,
            advice=_ASK if reordered is not None else None,
        )
    )
    return None


def _reordered_images(view: View, images: list[JSON]) -> list[JSON] | None:
    """The images in the order of their arrays; None if that order is unknown or cannot be expressed."""
    frames = (node.layout.frame for node in view.archive.nodes if isinstance(node, ArrayNode) and node.layout)
    axes = next((frame.axes for frame in frames if isinstance(frame, N5Blocks)), None)
    result = []
    for image in images:
        own = _order_of(image)
        if own is None or axes is None:
            return None
        reordered = image if own == axes else _reversed(image)
        if reordered is None:
            return None
        result.append(reordered)
    return result


def _names_of(image: JSON) -> JSON:
    axes = image.get("axes") if isinstance(image, dict) else None
    return (
        [axis.get("name") if isinstance(axis, dict) else axis for axis in axes]
        if isinstance(axes, list)
        else axes
    )


def _order_of(image: JSON) -> Axes | None:
    """Whether an image's axes are in N5's order ("kept") or Zarr's; None if x is at neither end."""
    axes = image.get("axes") if isinstance(image, dict) else None
    if not isinstance(axes, list) or not axes or not all(isinstance(axis, dict) for axis in axes):
        return None
    names = [str(name).lower() for name in _names_of(image)]
    return "reversed" if names[-1] == "x" else "kept" if names[0] == "x" else None


def _reversed(image: JSONObject) -> JSONObject | None:
    """An image with reversed axis order; None if OME-NGFF does not allow it."""
    axes = image["axes"][::-1]
    ranks = [_RANKS.get(axis.get("type"), 1) for axis in axes]
    datasets = image.get("datasets")
    if ranks != sorted(ranks) or not isinstance(datasets, list):
        return None
    reordered = [_with_reversed_vectors(item) for item in (image, *datasets)]
    if any(item is None for item in reordered):
        return None
    return {**reordered[0], "axes": axes, "datasets": reordered[1:]}


def _with_reversed_vectors(value: JSON) -> JSON:
    """An image or level with reversed scales and translations; None if one is stored elsewhere."""
    transforms = value.get(TRANSFORMS) if isinstance(value, dict) else None
    if not isinstance(transforms, list):
        return value
    if any(isinstance(transform, dict) and "path" in transform for transform in transforms):
        return None
    return {**value, TRANSFORMS: [_turned_vector(transform) for transform in transforms]}


def _turned_vector(transform: JSON) -> JSON:
    if not isinstance(transform, dict):
        return transform
    return {
        name: item[::-1] if name in ("scale", "translation") and isinstance(item, list) else item
        for name, item in transform.items()
    }


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
    from .pyramids import axis_names

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
    missing = [level.path for level in pyramid.levels if not view.recipe.selects(level.path)]
    if view.recipe.for_array(node.path).multiscale != "ome":
        if not (_OME in node.attributes or missing or pyramid.refused):
            what = "an image of several scales keeps the metadata of its N5 program"
            account.problems.append(finding("note", node.path, what, advice=_OFFER))
        return
    if _OME in node.attributes:
        what = "the group already has an attribute `ome`, which is kept"
        account.problems.append(finding("warning", node.path, what, excerpt(node.attributes[_OME])))
        return
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

"""OME-NGFF metadata inside N5, in the axis order in which the arrays are presented.

OME-NGFF lists axes, scales and translations in the order of Zarr's dimensions. Inside N5, n5-universe 1 and 2
(Fiji) and programs using zarr-python's N5Store, which presents (z, y, x), write that order; n5-universe 3
writes N5's own order, (x, y, z) (https://github.com/saalfeldlab/n5-universe, `OmeNgffMetadataParser`: 2.3.0
reverses in any container, 3.0.2 in Zarr only). All of them store x fastest, so the position of x in the axis
names determines the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...archive.nodes import ArrayNode, GroupNode, Node
from ...core.grid.frames import N5Blocks
from ...recipe.options import Axes
from ..base import Change, Recognised, View, finding
from ..ome.convention import BLOCK, FROM, VERSION, recognise_ngff
from ..ome.images import image_problems, version_of

_IMAGES: Final = "multiscales"
_TRANSFORMS: Final = "coordinateTransformations"
_RANKS: Final = {"time": 0, "space": 2}
"""Types of axes in the order that OME-NGFF requires; channels and other types come in between."""
_ORDERED: Final = "x first or last; in the order of the arrays time, then channels, then space"
_ASK: Final = "Use --set multiscale=ome to convert it to OME-Zarr 0.5, with axes in the order of the arrays."


def recognise_in_n5(view: View) -> Recognised:
    """Convert OME-NGFF 0.4 to 0.5 if `--set multiscale=ome` is given; otherwise note that it is kept."""
    problems: list[Problem] = []
    changes: dict[str, Change] = {}
    nodes = [_turned_node(view, node, problems) for node in view.archive.nodes]
    result = recognise_ngff(replace(view, archive=replace(view.archive, nodes=tuple(nodes))), (FROM,))
    for node in view.archive.nodes:
        if isinstance(node, GroupNode) and isinstance(node.attributes.get(BLOCK), dict):
            changes.update(_turned_block(view, node, problems))
    if result is None:
        return Recognised(summary="", changes=changes, problems=tuple(problems))
    return replace(result, changes={**changes, **result.changes}, problems=(*problems, *result.problems))


def _turned_node(view: View, node: Node, problems: list[Problem]) -> Node:
    """A group with its OME-NGFF 0.4 in the order of its arrays; without `multiscales` that are kept."""
    if not isinstance(node, GroupNode) or not isinstance(images := node.attributes.get(_IMAGES), list):
        return node
    if _is_ngff(images):
        turned = _turned(view, node, images, f"OME-NGFF {FROM}", problems)
        if turned is not None:
            return replace(node, attributes={**node.attributes, _IMAGES: turned})
    elif any(isinstance(image, dict) and "version" in image for image in images):
        return node
    return replace(node, attributes={k: v for k, v in node.attributes.items() if k != _IMAGES})


def _turned_block(view: View, node: GroupNode, problems: list[Problem]) -> Iterator[tuple[str, Change]]:
    """A group with OME-Zarr 0.5 in the order of its arrays, if the order differs."""
    block = node.attributes[BLOCK]
    images = block.get(_IMAGES)
    if block.get("version") != VERSION or not isinstance(images, list) or _reordered(view, images) == images:
        return
    turned = _turned(view, node, images, f"OME-Zarr {VERSION}", problems)
    if turned is not None and not any(image_problems(view, node.path, {_IMAGES: turned})):
        yield node.path, Change(attributes={**node.attributes, BLOCK: {**block, _IMAGES: turned}})


def _is_ngff(images: list[JSON]) -> bool:
    """Whether `multiscales` is OME-NGFF 0.4: COSEM uses the same name, without a version."""
    return (
        any(isinstance(image, dict) and "axes" in image for image in images)
        and version_of(_IMAGES, images) == FROM
    )


def _turned(
    view: View, node: GroupNode, images: list[JSON], what: str, problems: list[Problem]
) -> list[JSON] | None:
    """The images in the order of their arrays; None, with a note, if they are kept unchanged."""
    turned = _reordered(view, images)
    if view.recipe.for_array(node.path).multiscale == BLOCK and turned is not None:
        return turned
    problems.append(
        finding(
            "note",
            node.path,
            f"{what} inside N5 is kept unchanged",
            f"axes {excerpt([_names_of(image) for image in images])}",
            None if turned is not None else _ORDERED,
            advice=_ASK if turned is not None else None,
        )
    )
    return None


def _reordered(view: View, images: list[JSON]) -> list[JSON] | None:
    """The images in the order of their arrays; None if that order is unknown or cannot be expressed."""
    frames = (node.layout.frame for node in view.archive.nodes if isinstance(node, ArrayNode) and node.layout)
    axes = next((frame.axes for frame in frames if isinstance(frame, N5Blocks)), None)
    result = []
    for image in images:
        own = _order_of(image)
        if own is None or axes is None:
            return None
        turned = image if own == axes else _reversed(image)
        if turned is None:
            return None
        result.append(turned)
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
    turned = [_with_turned_vectors(item) for item in (image, *datasets)]
    if any(item is None for item in turned):
        return None
    return {**turned[0], "axes": axes, "datasets": turned[1:]}


def _with_turned_vectors(value: JSON) -> JSON:
    """An image or level with reversed scales and translations; None if one is stored elsewhere."""
    transforms = value.get(_TRANSFORMS) if isinstance(value, dict) else None
    if not isinstance(transforms, list):
        return value
    if any(isinstance(transform, dict) and "path" in transform for transform in transforms):
        return None
    return {**value, _TRANSFORMS: [_turned_vector(transform) for transform in transforms]}


def _turned_vector(transform: JSON) -> JSON:
    if not isinstance(transform, dict):
        return transform
    return {
        name: item[::-1] if name in ("scale", "translation") and isinstance(item, list) else item
        for name, item in transform.items()
    }

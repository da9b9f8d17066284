"""Brings OME-Zarr 0.5 into the form of 0.6, on request (`--set ome=0.6`).

0.6 (September 2026; https://ngff.openmicroscopy.org/0.6/schemas/image.schema) replaces `axes` of an image by
named coordinate systems. The transformation of each level leads from its array to one system, those of the
whole image from that system to another one. Plates, wells, labels and layouts differ in their version only.

Where an image has transformations of its own, the units of its axes hold after them. The system in between
has no units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...archive.nodes import GroupNode
from ..base import Change, Recognised, View, finding
from .older import TRANSFORMS, NoFormError

NEWEST: Final = "0.6"
VERSION: Final = "0.5"
BLOCK: Final = "ome"
_SYSTEM, _LEVELS = "physical", "intrinsic"
"""Names of the system with units, and of the one below it where an image has transformations of its own."""


def in_form_of_06(view: View, recognised: Recognised | None) -> Recognised | None:
    """What was recognized, with OME-Zarr 0.5 in the form of 0.6 where the recipe requests it."""
    changes = dict(recognised.changes) if recognised else {}
    problems: list[Problem] = []
    count = 0
    for node in view.archive.nodes:
        if not isinstance(node, GroupNode):
            continue
        change = changes.get(node.path) or Change()
        attributes = node.attributes if change.attributes is None else change.attributes
        block = attributes.get(BLOCK)
        if not isinstance(block, dict) or block.get("version") != VERSION:
            continue
        if view.recipe.for_array(node.path).ome != NEWEST:
            continue
        try:
            updates = {BLOCK: _block(block)}
        except NoFormError as error:
            place, what, value, expected = error.args
            advice = f"Omit --set ome={NEWEST}, for all or for this path in a recipe."
            problems.append(finding("refusal", node.path, f"{place}: {what}", value, expected, advice=advice))
            changes.pop(node.path, None)
        else:
            old = node.attributes.get(BLOCK)
            version = (f"/{BLOCK}/version",) if isinstance(old, dict) else ()
            changes[node.path] = replace(
                change, attributes={**attributes, **updates}, replaced=(*change.replaced, *version)
            )
            count += 1
    if not count and not problems:
        return recognised
    base = recognised or Recognised(summary="")
    summary = ", ".join(
        text for text in (base.summary, f"{count} group{'s' * (count != 1)} as OME-Zarr {NEWEST}") if text
    )
    return replace(base, summary=summary, changes=changes, problems=(*base.problems, *problems))


def _block(block: JSONObject) -> JSONObject:
    result = {**block, "version": NEWEST}
    images = block.get("multiscales")
    if isinstance(images, list):
        result["multiscales"] = [_image(f"multiscales/{i}", image) for i, image in enumerate(images)]
    return result


def _image(place: str, image: JSON) -> JSONObject:
    axes = image.get("axes") if isinstance(image, dict) else None
    datasets = image.get("datasets") if isinstance(image, dict) else None
    if not isinstance(axes, list) or not isinstance(datasets, list) or "coordinateSystems" in image:
        raise NoFormError(place, f"not an image of OME-Zarr {VERSION}", excerpt(image), None)
    whole = image.get(TRANSFORMS)
    target = _LEVELS if whole else _SYSTEM
    systems: list[JSON] = [{"name": _SYSTEM, "axes": axes}]
    levels: list[JSON] = []
    for number, dataset in enumerate(datasets):
        at = f"{place}/datasets/{number}"
        transform = _transform(at, dataset.get(TRANSFORMS) if isinstance(dataset, dict) else None)
        ends = {"input": {"path": dataset.get("path")}, "output": {"name": target}}
        levels.append({**dataset, TRANSFORMS: [{**transform, **ends}]})
    if not whole:
        return {**_without(image, "axes"), "coordinateSystems": systems, "datasets": levels}
    axes_without_units = [_without(axis, "unit") if isinstance(axis, dict) else axis for axis in axes]
    ends = {"input": {"name": _LEVELS}, "output": {"name": _SYSTEM}}
    return {
        **_without(image, "axes"),
        "coordinateSystems": [{"name": _LEVELS, "axes": axes_without_units}, *systems],
        "datasets": levels,
        TRANSFORMS: [{**_transform(place, whole), **ends}],
    }


def _without(value: JSONObject, name: str) -> JSONObject:
    return {key: item for key, item in value.items() if key != name}


def _transform(place: str, transforms: JSON) -> JSONObject:
    """A scale, or the sequence of a scale and a translation: 0.6 allows no others for a level."""
    entries = transforms if isinstance(transforms, list) else []
    kinds = [one.get("type") if isinstance(one, dict) else None for one in entries]
    vectors = all(isinstance(one.get(kind), list) for one, kind in zip(entries, kinds, strict=True) if kind)
    if kinds not in (["scale"], ["scale", "translation"]) or not vectors or not all(_positive(entries[0])):
        raise NoFormError(
            f"{place}/{TRANSFORMS}",
            f"no form in OME-Zarr {NEWEST}",
            excerpt(transforms),
            "a scale of positive numbers, alone or before a translation",
        )
    return entries[0] if len(entries) == 1 else {"type": "sequence", "transformations": entries}


def _positive(scale: JSONObject) -> Iterator[bool]:
    return (isinstance(number, int | float) and number > 0 for number in scale["scale"])

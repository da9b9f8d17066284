"""Brings OME-NGFF 0.1 to 0.3 into the form of 0.4; and 0.5, on request (`--set ome=0.6`), into that of 0.6.

- 0.1 and 0.2: every image has five dimensions, t, c, z, y, x
  (https://ngff.openmicroscopy.org/0.1/#image-layout); they differ in the separator of chunk keys only.
- 0.3: `axes` has one of these letters per dimension (https://ngff.openmicroscopy.org/0.3/#multiscale-md).
- None of them has sizes of pixels. 0.4 and 0.5 require a scale per level, which "MUST express the scaling
  factor between the current resolution and the first resolution" if there is no physical size
  (https://ngff.openmicroscopy.org/0.5/#multiscale-md). It is the ratio of their lengths, as ome-zarr-py
  writes it for 0.4 (0.3.1 and 0.21.0, `FormatV04.generate_coordinate_transformations`).
- bioformats2raw halves x and y with each level and drops the last pixel of an odd length, so its factor is a
  power of 2, as in its own 0.4 (0.5.0, `Converter.setSeriesLevelMetadata`, `PYRAMID_SCALE`).
- 0.4 adds `rowIndex` and `columnIndex` to the wells of a plate. The path of a well is `row/column`; 0.1 and
  0.2 also show paths with an acquisition in front, for which 0.4 has no form.

0.6 (September 2026; https://ngff.openmicroscopy.org/0.6/schemas/image.schema) replaces `axes` of an image by
named coordinate systems. The transformation of each level leads from its array to one system, those of the
whole image from that system to another one. Plates, wells, labels and layouts differ in their version only.
Where an image has transformations of its own, the units of its axes hold after them. The system in between
has no units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join, parents

from ...archive.nodes import GroupNode
from .. import Change, Recognised, View, finding

OLDER: Final = ("0.1", "0.2", "0.3")
UNSTATED: Final = "0.3 or older"
"""The version of a plate that states none and whose wells have no `rowIndex`."""
_TYPES: Final[Mapping[str, str]] = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_ORDER: Final = ("time", "channel", "space")
LAYOUT: Final = "bioformats2raw.layout"
_BIOFORMATS: Final = ("loci.common.image.", "org.opencv.imgproc.")
"""How bioformats2raw names its downscalers in `metadata/method`."""
TRANSFORMS: Final = "coordinateTransformations"
PLAIN: Final = "Use --conventions none, for all or for this path in a recipe, to migrate it as plain data."


class NoFormError(Exception):
    """Metadata without a form in a later version: place, problem, found and expected."""


def in_form_of_04(
    view: View, node: GroupNode, versions: Mapping[str, str]
) -> tuple[GroupNode, list[Problem]]:
    """A group with images and plates of 0.1 to 0.3 in the form of 0.4; or unchanged, with a refusal.

    `versions` are those of the attributes `multiscales` and `plate`. Versions inside stay as stated.
    """
    attributes = dict(node.attributes)
    notes: list[Problem] = []
    try:
        if (version := versions.get("multiscales", "")) in OLDER:
            images = attributes["multiscales"]
            updated = [
                _image(view, node.path, version, f"multiscales/{i}", one) for i, one in enumerate(images)
            ]
            attributes["multiscales"] = updated
            notes += _derived(node.path, version, images, updated)
            notes += _incomplete_channels(node)
        if versions.get("plate") in (*OLDER, UNSTATED):
            attributes["plate"] = _plate(attributes["plate"])
    except NoFormError as undecided:
        place, what, found, expected = undecided.args
        return node, [finding("refusal", node.path, f"{place}: {what}", found, expected, advice=PLAIN)]
    return replace(node, attributes=attributes), notes


# ----- images


def _image(view: View, path: str, version: str, place: str, image: Any) -> JSON:
    """An image with axes as objects and a scale per level.

    Metadata that is broken in any version is left to the checks of 0.4.
    """
    datasets = image.get("datasets") if isinstance(image, dict) else None
    if not isinstance(datasets, list):
        return image
    names = _axes(version, place, image.get("axes"))
    axes: list[JSON] = [{"name": name, "type": _TYPES[name]} for name in names]
    shapes = [_shape(view, path, dataset) for dataset in datasets]
    if any(shape is None or len(shape) != len(names) for shape in shapes):
        return {**image, "axes": axes}
    level_shapes = [shape for shape in shapes if shape is not None]
    _check_order_of_bioformats2raw(view, path, version, place, image, level_shapes)
    stated = [dataset[TRANSFORMS] for dataset in datasets if TRANSFORMS in dataset]
    if stated:
        if len(stated) < len(datasets):
            raise NoFormError(f"{place}/datasets", f"only some levels have {TRANSFORMS}", None, "all or none")
        return {**image, "axes": axes}
    levels: list[JSON] = []
    for level, (dataset, shape) in enumerate(zip(datasets, level_shapes, strict=True)):
        scale = [
            _factor(
                f"{place}/datasets/{level}", name, level, level_shapes[0][axis], shape[axis], _halves(image)
            )
            for axis, name in enumerate(names)
        ]
        levels.append({**dataset, TRANSFORMS: [{"type": "scale", "scale": scale}]})
    return {**image, "axes": axes, "datasets": levels}


def _axes(version: str, place: str, axes: JSON) -> list[str]:
    """The names of the axes, which 0.5 can have in this order."""
    if axes is None and version != "0.3":
        return list(_TYPES)
    expected = f"letters of {', '.join(_TYPES)}"
    names = axes if isinstance(axes, list) else []
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        raise NoFormError(f"{place}/axes", f"not the axes of version {version}", excerpt(axes), expected)
    ranks = [_ORDER.index(_TYPES[name]) for name in names]
    if ranks != sorted(ranks) or ranks.count(_ORDER.index("space")) < 2:
        what = "OME-Zarr 0.5 has no image with these axes"
        raise NoFormError(
            f"{place}/axes", what, ", ".join(names), "time, then channels, then two or three of space"
        )
    return names


def _shape(view: View, path: str, dataset: JSON) -> tuple[int, ...] | None:
    name = dataset.get("path") if isinstance(dataset, dict) else None
    node = view.array(join(path, name).strip("/")) if isinstance(name, str) else None
    return node.layout.shape if node is not None and node.layout is not None else None


def _method(image: JSONObject) -> str:
    metadata = image.get("metadata")
    return str(metadata.get("method", "")) if isinstance(metadata, dict) else ""


def _halves(image: JSONObject) -> bool:
    """Whether the writer halves x and y with each level and drops the last pixel of an odd length."""
    return _method(image).startswith(_BIOFORMATS)


def _check_order_of_bioformats2raw(
    view: View, path: str, version: str, place: str, image: JSONObject, shapes: list[tuple[int, ...]]
) -> None:
    """Refuse images whose axes have the order of the file that bioformats2raw 0.2 converted.

    Up to 0.2.6 it kept that order, stated version 0.1 and recorded the order nowhere in Zarr; its layout is 1
    (its README, on `--dimension-order`). From layout 3 on, it is t, c, z, y, x.
    """
    if version != "0.1" or not _halves(image) or all(shape[:3] == (1, 1, 1) for shape in shapes):
        return
    above = (view.group(parent) for parent in (path, *parents(path)))
    if any(group is not None and group.attributes.get(LAYOUT) == 3 for group in above):
        return
    raise NoFormError(
        place,
        "bioformats2raw 0.2 wrote t, c and z in the order of its input, which is not stated",
        f"shape {'x'.join(map(str, shapes[0]))}",
        f"{LAYOUT} 3 in this group or above it",
    )


def _factor(place: str, name: str, level: int, first: int, length: int, halves: bool) -> float:
    """How many pixels of the first level one pixel of this level covers along an axis."""
    if length == first:
        return 1.0
    if not 0 < length < first:
        what = f"the level is larger than the first along {name}" if length else f"it has no {name}"
        raise NoFormError(place, what, f"length {length}", f"at most {first}")
    if halves and name in "yx" and first >> level == length:
        return float(1 << level)
    return first / length


def _derived(path: str, version: str, before: JSON, after: list[JSON]) -> Iterator[Problem]:
    """Note that scales are derived, with the first that is not a whole number."""
    if before == after:
        return
    message = f"OME-NGFF {version} has no scales; they are derived from the shapes of the levels"
    for place, image in enumerate(after):
        for number, dataset in enumerate(image["datasets"] if isinstance(image, dict) else ()):
            if not isinstance(dataset, dict) or TRANSFORMS in before[place]["datasets"][number]:
                continue
            scale = dataset.get(TRANSFORMS, [{}])[0].get("scale", [])
            if any(not factor.is_integer() for factor in scale):
                found = f"multiscales/{place}/datasets/{number}: {', '.join(f'{n:g}' for n in scale)}"
                yield finding("note", path, message, found)
                return
    yield finding("note", path, message)


def _incomplete_channels(node: GroupNode) -> Iterator[Problem]:
    """Note what viewers miss: 0.1 to 0.5 require it, and ome-zarr-py 0.0.17 did not write it."""
    omero = node.attributes.get("omero")
    channels = omero.get("channels") if isinstance(omero, dict) else None
    missing = set()
    for channel in channels if isinstance(channels, list) else ():
        window = channel.get("window") if isinstance(channel, dict) else None
        if isinstance(window, dict):
            missing |= {f"window/{name}" for name in ("start", "min", "end", "max") if name not in window}
            missing |= {"color"} - channel.keys()
    if missing:
        message = "channels without values that OME-Zarr requires are kept"
        yield finding("note", node.path, f"omero: {message}", f"no {', '.join(sorted(missing))}")


# ----- plates


def _plate(plate: JSONObject) -> JSONObject:
    """A plate whose wells have `rowIndex` and `columnIndex`."""
    wells = plate.get("wells")
    if not isinstance(wells, list):
        return plate
    return {**plate, "wells": [_well(plate, f"plate/wells/{i}", well) for i, well in enumerate(wells)]}


def _well(plate: JSONObject, place: str, well: JSON) -> JSON:
    path = well.get("path") if isinstance(well, dict) else None
    parts = path.split("/") if isinstance(path, str) else []
    if len(parts) != 2:
        raise NoFormError(
            f"{place}/path", "not the names of a row and of a column", excerpt(path), "such as A/1"
        )
    result = dict(well)
    for key, kind, name in (("rowIndex", "rows", parts[0]), ("columnIndex", "columns", parts[1])):
        names = [item.get("name") for item in plate.get(kind) or () if isinstance(item, dict)]
        if names.count(name) != 1:
            found = f"{names.count(name)} of that name"
            raise NoFormError(f"{place}/path", f"{name!r} is not one of {kind}", found, "one")
        index = names.index(name)
        if result.setdefault(key, index) != index:
            raise NoFormError(
                f"{place}/{key}", f"not the place of {name!r} in {kind}", excerpt(result[key]), str(index)
            )
    return result


NEWEST: Final = "0.6"
VERSION: Final = "0.5"
BLOCK: Final = "ome"
_SYSTEM, _LEVELS = "physical", "intrinsic"
"""Names of the system with units, and of the one below it where an image has transformations of its own."""


def blocks_of(view: View, changes: Mapping[str, Change]) -> Iterator[tuple[GroupNode, JSONObject]]:
    """The migrated groups with OME-Zarr metadata, and the attribute `ome` of their results."""
    for node in view.archive.nodes:
        if isinstance(node, GroupNode) and node.path in view.migrated:
            attributes = changes.get(node.path, Change()).attributes
            block = (node.attributes if attributes is None else attributes).get(BLOCK)
            if isinstance(block, dict):
                yield node, block


def with_block(node: GroupNode, change: Change | None, block: JSONObject, places: Iterable[str]) -> Change:
    """The change of a group, with this attribute `ome`; values at places in that of the source are absent."""
    change = change or Change()
    attributes = node.attributes if change.attributes is None else change.attributes
    lead = f"/{BLOCK}" if BLOCK in node.attributes else ""
    replaced = [f"{lead}/{place}" for place in places if lead or place != "version"]
    return replace(change, attributes={**attributes, BLOCK: block}, replaced=(*change.replaced, *replaced))


def in_form_of_06(view: View, recognised: Recognised | None) -> Recognised | None:
    """What was recognized, with OME-Zarr 0.5 in the form of 0.6 where the recipe requests it."""
    changes = dict(recognised.changes) if recognised else {}
    problems: list[Problem] = []
    count = 0
    blocks = [each for each in blocks_of(view, changes) if each[1].get("version") == VERSION]
    newest = {node.path for node, _ in blocks if view.recipe.for_array(node.path).ome == NEWEST}
    others = {node.path for node, _ in blocks} - newest
    above = {line for path in others for line in parents(path)}
    for node, block in blocks:
        if node.path not in newest:
            continue
        try:
            alone = node.path not in above and others.isdisjoint(parents(node.path))
            updates = _block(block, alone=alone)
        except NoFormError as error:
            place, what, value, expected = error.args
            advice = f"Omit --set ome={NEWEST}, for all or for this path in a recipe."
            problems.append(finding("refusal", node.path, f"{place}: {what}", value, expected, advice=advice))
            changes.pop(node.path, None)
        else:
            changes[node.path] = with_block(node, changes.get(node.path), updates, ("version",))
            count += 1
    if not count and not problems:
        return recognised
    base = recognised or Recognised(summary="")
    summary = ", ".join(
        text for text in (base.summary, f"{count} group{'s' * (count != 1)} as OME-Zarr {NEWEST}") if text
    )
    return replace(base, summary=summary, changes=changes, problems=(*base.problems, *problems))


def _block(block: JSONObject, *, alone: bool) -> JSONObject:
    if not alone:
        raise NoFormError(BLOCK, "groups above or below would have another version", NEWEST, VERSION)
    result = {**block, "version": NEWEST}
    images = block.get("multiscales")
    if isinstance(images, list):
        result["multiscales"] = [_image_06(f"multiscales/{i}", image) for i, image in enumerate(images)]
    return result


def _image_06(place: str, image: JSON) -> JSONObject:
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

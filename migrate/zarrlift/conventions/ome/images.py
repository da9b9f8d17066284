"""Checks an OME-NGFF image's metadata against its arrays, and detects the version of metadata.

https://ngff.openmicroscopy.org/0.4/index.html#multiscale-md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from zarrstack.core.json_text import JSON, excerpt

from .. import View
from .versions import UNSTATED

UNKNOWN: Final = "unknown"
"""The version of images that state none and have no axes of OME-NGFF, such as ndpyramid's."""
Finding: TypeAlias = tuple[str, str, str | None, str | None, bool]
"""(location, problem, found, expected, whether the image would be broken)."""


def version_of(key: str, value: Any) -> str:
    """The version in metadata, or inferred from its form: the version is optional (0.4, "SHOULD").

    Axes are objects from 0.4 on and letters in 0.3; wells have `rowIndex` from 0.4 on.
    """
    entries = value if isinstance(value, list) else [value]
    stated = {str(entry["version"]) for entry in entries if isinstance(entry, dict) and "version" in entry}
    if stated:
        return stated.pop() if len(stated) == 1 else " and ".join(sorted(stated))
    if key == "multiscales":
        axes = next((entry.get("axes") for entry in entries if isinstance(entry, dict)), None)
        if isinstance(axes, list) and axes:
            if all(isinstance(axis, dict) for axis in axes):
                return "0.4"
            return "0.3" if all(axis in tuple("tczyx") for axis in axes) else UNKNOWN
        return UNKNOWN
    if key == "plate":
        wells = value.get("wells")
        wells = wells if isinstance(wells, list) else []
        return "0.4" if any(isinstance(well, dict) and "rowIndex" in well for well in wells) else UNSTATED
    return "0.4"  # a well, unchanged since 0.1


def with_text_paths(
    attributes: Mapping[str, JSON], keys: Iterable[str]
) -> tuple[Mapping[str, JSON], tuple[str, ...]]:
    """Attributes with whole numbers as text where OME-NGFF has the path of a level or of a well's image.

    Also the locations of these numbers. ez_zarr's plates have `"path": 0`; all versions require text.
    """
    result = dict(attributes)
    places: list[str] = []
    if "multiscales" in keys:
        result["multiscales"] = [
            _with_text_paths(image, "datasets", f"multiscales/{index}", places)
            for index, image in enumerate(attributes["multiscales"])
        ]
    if "well" in keys:
        result["well"] = _with_text_paths(attributes["well"], "images", "well", places)
    return (result, tuple(places)) if places else (attributes, ())


def _with_text_paths(value: JSON, member: str, place: str, places: list[str]) -> JSON:
    entries = value.get(member) if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return value
    items = []
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and type(entry.get("path")) is int:
            places.append(f"{place}/{member}/{index}/path")
            items.append({**entry, "path": str(entry["path"])})
        else:
            items.append(entry)
    return {**value, member: items}


def image_problems(view: View, path: str, attributes: Mapping[str, JSON]) -> Iterator[Finding]:
    """Contradictions within `multiscales`, or with the arrays it names."""
    for index, image in enumerate(attributes["multiscales"]):
        place = f"multiscales/{index}"
        if not isinstance(image, dict):
            yield place, "an image is not an object", excerpt(image), None, True
            continue
        names = _axes(image.get("axes"))
        if names is None:
            yield f"{place}/axes", "axes are not objects with names", excerpt(image.get("axes")), None, True
            continue
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"{place}/axes", "a name is used twice", ", ".join(twice), "each name once", True
        datasets = image.get("datasets")
        if not isinstance(datasets, list) or not datasets:
            yield f"{place}/datasets", "not a list of levels", excerpt(datasets), None, True
            continue
        for number, dataset in enumerate(datasets):
            yield from _level(view, path, f"{place}/datasets/{number}", dataset, len(names))


def _axes(axes: JSON) -> list[str] | None:
    if not isinstance(axes, list) or not axes:
        return None
    names = [axis["name"] for axis in axes if isinstance(axis, dict) and isinstance(axis.get("name"), str)]
    return names if len(names) == len(axes) else None


def _level(view: View, path: str, place: str, dataset: Any, ndim: int) -> Iterator[Finding]:
    """Check one dataset against its array."""
    name = dataset.get("path") if isinstance(dataset, dict) else None
    if not isinstance(name, str):
        what = "a level has no path" if name is None else "the path of a level is not text"
        yield place, what, excerpt(dataset), None, True
        return
    node = view.array(f"{path}/{name}".strip("/"))
    if node is None:
        yield f"{place}/path", "there is no such array", excerpt(name), None, True
        return
    if node.layout is not None and len(node.layout.shape) != ndim:
        expected = f"one per dimension of {name!r}, which has {len(node.layout.shape)}"
        yield place, f"{ndim} axes do not fit the array", None, expected, True
        return
    transforms = dataset.get("coordinateTransformations")
    if not isinstance(transforms, list) or not transforms:
        found = excerpt(transforms) if transforms is not None else None
        yield place, "OME-Zarr 0.5 requires coordinateTransformations", found, "a scale for each level", False
        return
    for transform in transforms:
        for kind in ("scale", "translation"):
            numbers = transform.get(kind) if isinstance(transform, dict) else None
            if isinstance(numbers, list) and len(numbers) != ndim:
                yield (
                    f"{place}/coordinateTransformations",
                    f"the {kind} does not fit the axes",
                    f"{len(numbers)} numbers",
                    f"{ndim}",
                    True,
                )

"""Converts OME-NGFF 0.1 to 0.4 on Zarr v2 to OME-Zarr 0.5 on Zarr v3.

Version 0.5 is 0.4 with its metadata under the attribute `ome`, which alone has a `version`, and with each
level's `dimension_names` equal to the axis names; nothing else differs.
https://ngff.openmicroscopy.org/0.4/index.html, https://ngff.openmicroscopy.org/0.5/index.html
`older` brings 0.1 to 0.3 into the form of 0.4 first.

The rasters of SpatialData are kept, because it has its own version and expects 0.4 in its 0.1 containers, on
Zarr v3 too (spatialdata 0.8.0, `_io/io_zarr.py`, `get_raster_format_for_read`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from zarrstack.core.errors import Problem, Severity
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import prefix_of

from ...archive.nodes import GroupNode
from ...core.problems import any_refusal
from ...recipe.recipe import ArrayRecipe
from .. import Change, Convention, Recognised, View, finding
from .images import UNKNOWN, image_problems, version_of, with_text_paths
from .migrated import as_migrated
from .versions import (
    BLOCK,
    LAYOUT,
    NEWEST,
    OLDER,
    PLAIN,
    TRANSFORMS,
    UNSTATED,
    VERSION,
    in_form_of_04,
    in_form_of_06,
)

FROM: Final = "0.4"
_LIFTED: Final = (*OLDER, UNSTATED, FROM)
_LAYOUT_NUMBER: Final = 3
"""The only one that 0.4 and 0.5 allow; 1 and 2 have other places for series and XML (bioformats2raw 0.2)."""
_NOT_EMPTY: Final[Mapping[str, tuple[str, ...]]] = {
    "multiscales": (TRANSFORMS,),
    "image-label": ("colors", "properties"),
}
"""Optional lists that the schema of 0.5 forbids to be empty; Java writers leave the first one empty."""
_SPATIALDATA: Final = "spatialdata_attrs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """OME groups by path, classified by their conversion."""

    lifted: Mapping[str, tuple[str, ...]]
    """Path -> the attributes that move."""
    versions: Mapping[str, Mapping[str, str]]
    """Path -> the versions of these attributes."""
    older: Mapping[str, str]
    """Path -> the version that is kept, and its origin."""


@dataclass(slots=True)
class _Account:
    """The results collected so far."""

    changes: dict[str, Change] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Ome(Convention):
    """OME-NGFF: images, labels, plates, wells and bioformats2raw's layout become OME-Zarr 0.5."""

    name: ClassVar[str] = "ome"

    @classmethod
    def refuses(cls, recipe: ArrayRecipe) -> bool:
        """Only if OME is requested by name or by version: without it, no value is lost."""
        return cls.name in recipe.conventions or recipe.ome == NEWEST

    def recognise(self, view: View) -> Recognised | None:
        """Recognize groups with OME attributes."""
        result = None if view.archive.format == "n5" else recognise_ngff(view)  # handled by `n5`
        return in_form_of_06(view, as_migrated(view, result))


def recognise_ngff(view: View, versions: tuple[str, ...] = _LIFTED) -> Recognised | None:
    """The conversion of OME-NGFF of these versions, with all axes in the order of the arrays."""
    metadata = _find(view, versions)
    if not metadata.lifted and not metadata.older:
        return None
    account = _Account()
    for path, version in metadata.older.items():
        account.problems.append(_older(path, version, versions))
    view, updates, numbers = _updated_view(view, metadata)
    for path, keys in metadata.lifted.items():
        node = view.group(path)
        assert node is not None
        problems = updates[path]
        if not any_refusal(problems):
            problems += _contradictions(view, node, keys)
        account.problems += problems
        account.count.update(_kinds(keys))
        if LAYOUT in keys:
            account.files.update(_xml(view, path))
        if not any_refusal(problems):
            account.changes[path] = _lift(node.attributes, keys, numbers.get(path, ()))
            account.problems += _left_out(path, account.changes[path])
            _name_axes(view, path, node.attributes if "multiscales" in keys else {}, account)
    words = [f"{n} {kind}" + ("s" if n > 1 else "") for kind, n in account.count.items() if n]
    stated = sorted({version for each in metadata.versions.values() for version in each.values()})
    summary = ", ".join(words) + (f" of {' and '.join(stated or [FROM])}" if words else "")
    if metadata.older:
        summary += (", " if words else "") + f"{len(metadata.older)} kept unchanged"
    return Recognised(
        summary=summary,
        changes=account.changes,
        problems=tuple(account.problems),
        files=account.files,
    )


def _updated_view(
    view: View, metadata: _Found
) -> tuple[View, dict[str, list[Problem]], dict[str, tuple[str, ...]]]:
    """The archive with its older metadata in the form of 0.4, and what there is to say of each group.

    Also the locations of numbers that became text, by group.
    """
    problems: dict[str, list[Problem]] = {}
    updated_nodes: dict[str, GroupNode] = {}
    numbers: dict[str, tuple[str, ...]] = {}
    for path, keys in metadata.lifted.items():
        if (node := view.group(path)) is not None:
            attributes, places = with_text_paths(node.attributes, keys)
            node = replace(node, attributes=attributes)
            updated_nodes[path], problems[path] = in_form_of_04(view, node, metadata.versions.get(path, {}))
            if places:
                numbers[path] = places
                message = "paths are numbers, which are read as text"
                problems[path].append(finding("note", path, message, ", ".join(places[:3])))
    nodes = tuple(updated_nodes.get(node.path, node) for node in view.archive.nodes)
    return replace(view, archive=replace(view.archive, nodes=nodes)), problems, numbers


def _xml(view: View, path: str) -> dict[str, tuple[str, ...]]:
    """The XML of bioformats2raw; before 0.5.0 its folder was not a group (README)."""
    folder = _join(path, "OME")
    if view.group(folder) is not None:
        return {folder: view.files(folder)}
    keys = tuple(key for key in view.files(path) if key.startswith(f"{folder}/"))
    return {path: keys} if keys else {}


# ----- selection of groups


def _find(view: View, versions: tuple[str, ...]) -> _Found:
    """Find OME groups.

    Images, plates and wells describe themselves; groups that list others are classified by their members.
    """
    lifted: dict[str, tuple[str, ...]] = {}
    stated: dict[str, dict[str, str]] = {}
    older: dict[str, str] = {}
    groups = [node for node in view.archive.nodes if isinstance(node, GroupNode) and node.attributes]
    for node in groups:
        for key in ("multiscales", "plate", "well"):
            if key not in node.attributes or not _is(key, node.attributes[key]):
                continue
            version = version_of(key, node.attributes[key])
            if _SPATIALDATA in node.attributes:
                older[node.path] = f"{version}, of SpatialData"
            elif version in versions:
                lifted[node.path] = (*lifted.get(node.path, ()), key)
                if key != "well" or "version" in node.attributes[key]:  # wells are the same in all of them
                    stated.setdefault(node.path, {})[key] = version
            else:
                older[node.path] = version
    for node in groups:
        if "multiscales" in lifted.get(node.path, ()):
            more = tuple(key for key in ("omero", "image-label") if key in node.attributes)
            lifted[node.path] = (*lifted[node.path], *more)
    for node in groups:
        if _lists_converted(node, lifted, older):
            key = "labels" if _is_labels(node) else LAYOUT
            lifted[node.path] = (*lifted.get(node.path, ()), key)
    for node in groups:
        parent, _, name = node.path.rpartition("/")
        above = LAYOUT in lifted.get(parent, ()) and node.path != parent
        if name == "OME" and above and _is_names(node.attributes.get("series")):
            lifted[node.path] = (*lifted.get(node.path, ()), "series")
    return _Found(lifted=dict(sorted(lifted.items())), versions=stated, older=dict(sorted(older.items())))


def _is(key: str, value: JSON) -> bool:
    """Whether an attribute can be OME's; other applications use the same names."""
    if key == "multiscales":
        return isinstance(value, list) and any(
            isinstance(item, dict) and "datasets" in item for item in value
        )
    return isinstance(value, dict) and ("wells" if key == "plate" else "images") in value


def _is_labels(node: GroupNode) -> bool:
    return node.path.rpartition("/")[2] == "labels" and _is_names(node.attributes.get("labels"))


def _is_names(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _lists_converted(
    node: GroupNode, lifted: Mapping[str, tuple[str, ...]], older: Mapping[str, str]
) -> bool:
    """Whether a group that only lists others refers to converted images and to no kept ones."""
    lead = prefix_of(node.path)
    if _is_labels(node):
        below = [lead + name for name in node.attributes["labels"]]
        parent = node.path.rpartition("/")[0]
        return (any(path in lifted for path in below) or parent in lifted) and parent not in older
    if node.attributes.get(LAYOUT) != _LAYOUT_NUMBER:
        return False
    return any(path.startswith(lead) for path in lifted) and not any(path.startswith(lead) for path in older)


def _kinds(keys: tuple[str, ...]) -> Iterator[str]:
    if "multiscales" in keys:
        yield "label image" if "image-label" in keys else "image"
    for key, word in (
        ("plate", "plate"),
        ("well", "well"),
        (LAYOUT, "bioformats2raw layout"),
    ):
        if key in keys:
            yield word


# ----- conversion


def _lift(attributes: Mapping[str, JSON], keys: tuple[str, ...], numbers: tuple[str, ...]) -> Change:
    """OME attributes under `ome` in the form of 0.5; all others unchanged.

    `numbers` are the locations of source values that are text now.
    """
    block: JSONObject = {"version": VERSION}
    replaced = [f"/{place}" for place in numbers]
    for key in keys:
        block[key] = _updated(attributes[key], f"/{key}", replaced)
    others = {key: value for key, value in attributes.items() if key not in keys}
    return Change(attributes={BLOCK: block, **others}, replaced=tuple(replaced))


def _updated(value: JSON, place: str, replaced: list[str]) -> JSON:
    """An attribute or entry without its own version and without empty lists that 0.5 forbids."""
    if isinstance(value, list):
        return [
            _updated(item, f"{place}/{index}", replaced) if isinstance(item, dict) else item
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    empty = [name for name in _NOT_EMPTY.get(place.split("/")[1], ()) if value.get(name) == []]
    absent = [*empty, "version"] if value.get("version") in _LIFTED else empty
    replaced.extend(f"{place}/{name}" for name in absent)
    return {name: item for name, item in value.items() if name not in absent}


def _left_out(path: str, change: Change) -> Iterator[Problem]:
    for place in change.replaced:
        if not place.endswith(("/version", "/path")):
            message = f"an empty list is omitted, because OME-Zarr {VERSION} does not allow it"
            yield finding("note", path, message, place.removeprefix("/"))


def _name_axes(view: View, path: str, attributes: Mapping[str, JSON], account: _Account) -> None:
    """Set dimension names from axes for levels without names; warn if they have different ones."""
    for image in attributes.get("multiscales", ()):
        names = tuple(axis["name"] for axis in image["axes"])
        for dataset in image["datasets"]:
            level = _join(path, dataset["path"])
            node = view.array(level)
            if node is None or node.layout is None:
                continue
            present = node.layout.dimension_names
            if present is None or all(name is None for name in present):
                account.changes[level] = Change(dimension_names=names)
            elif present != names:
                message = "OME-Zarr 0.5 requires the names of the image's axes as dimension names"
                found, expected = ", ".join(map(str, present)), ", ".join(names)
                account.problems.append(finding("warning", level, message, found, expected))


def _join(group: str, path: str) -> str:
    return f"{group}/{path}".strip("/")


# ----- problems


def _older(path: str, version: str, versions: tuple[str, ...]) -> Problem:
    theirs = version.endswith("SpatialData")
    convertible = FROM if versions == (FROM,) else f"{OLDER[0]} to {FROM}"
    reason = "SpatialData expects it" if theirs else f"only {convertible} can be converted to {VERSION}"
    advice = None if theirs else f"Upgrade it to {FROM} first if an application needs {VERSION}."
    message = f"OME-NGFF metadata is kept unchanged: {reason}"
    if version == UNKNOWN:
        message = "multiscales is kept unchanged: it states neither a version nor the axes of OME-NGFF"
        return finding("note", path, message)
    return finding("note", path, message, f"version {version}", advice=advice)


def _contradictions(view: View, node: GroupNode, keys: tuple[str, ...]) -> Iterator[Problem]:
    """Contradictions between a group's metadata and the archive; refusals for broken images."""
    if BLOCK in node.attributes:
        message = f"an attribute {BLOCK!r} is next to metadata of {FROM}"
        yield finding("refusal", node.path, message, None, "one of the two", advice=PLAIN)
        return
    if "multiscales" in keys:
        for place, what, found, expected, severe in image_problems(view, node.path, node.attributes):
            severity: Severity = "refusal" if severe else "warning"
            advice = PLAIN if severe else None
            yield finding(severity, node.path, f"{place}: {what}", found, expected, advice=advice)
    for place, names in _listed(node.attributes, keys):
        missing = [name for name in names if view.group(_join(node.path, name)) is None]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            found = f"no group at {', '.join(missing[:3])}{more}"
            yield finding("warning", node.path, f"{place}: groups that it lists do not exist", found)


def _listed(attributes: Mapping[str, JSON], keys: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """The groups that a plate, a well or a list of labels or series names."""
    for key, member in (("plate", "wells"), ("well", "images")):
        if key in keys:
            entries: Any = attributes[key].get(member)
            entries = entries if isinstance(entries, list) else []
            yield (
                f"{key}/{member}",
                [e["path"] for e in entries if isinstance(e, dict) and isinstance(e.get("path"), str)],
            )
    if "labels" in keys:
        yield "labels", attributes["labels"]

"""Keeps OME-Zarr metadata true where a recipe leaves out levels and images, or casts labels."""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject

from .. import Recognised, View, finding
from .versions import blocks_of, with_block

_NAMED: Final = 3
_LISTS: Final = (("plate", "wells"), ("well", "images"))


def as_migrated(view: View, recognised: Recognised | None) -> Recognised | None:
    """What was recognized, without the levels and images that the recipe leaves out.

    Scales are absolute, so that those of the other levels stay as they are. Casts of labels to other types
    than integers are refused (https://ngff.openmicroscopy.org/0.5/#labels-md).
    """
    base = recognised or Recognised(summary="")
    changes = dict(base.changes)
    problems = []
    for node, block in blocks_of(view, base.changes):
        listed = _Listed(view, node.path)
        result = listed.without_excluded(block)
        if listed.places:
            changes[node.path] = with_block(node, changes.get(node.path), result, listed.places)
            more = f", and {len(listed.places) - _NAMED} more" if len(listed.places) > _NAMED else ""
            message = "levels and images that are not migrated are removed from the metadata"
            problems.append(finding("note", node.path, message, ", ".join(listed.places[:_NAMED]) + more))
        if listed.empty:
            message = f"nothing that {listed.empty} lists is migrated, and it is kept"
            problems.append(finding("note", node.path, message, advice="Exclude the group, too."))
        if "image-label" in block:
            problems += [_cast(view, path) for path in listed.levels if _is_cast(view, path)]
    if not problems:
        return recognised
    return Recognised(
        summary=base.summary or "images without excluded parts",
        changes=changes,
        problems=(*base.problems, *problems),
        files=base.files,
    )


def _is_cast(view: View, path: str) -> bool:
    data_type = view.recipe.for_array(path).dtype
    return path in view.migrated and data_type is not None and data_type.numpy.kind not in "iu"


def _cast(view: View, path: str) -> Problem:
    """The refusal of a cast of labels."""
    found = str(view.recipe.for_array(path).dtype)
    advice = "Give labels an integer type in a recipe, or exclude them."
    return finding(
        "refusal", path, "labels of OME-Zarr cannot have this type", found, "an integer type",
        advice=advice, kind="recipe",
    )  # fmt: skip


class _Listed:
    """The nodes that the metadata of a group lists."""

    def __init__(self, view: View, path: str) -> None:
        self._view = view
        self._path = path
        self.levels: list[str] = []
        """Paths of the levels of its images."""
        self.places: list[str] = []
        """Where nodes are listed that are not migrated."""
        self.empty: str | None = None
        """A list of which nothing is migrated."""

    def without_excluded(self, block: JSONObject) -> JSONObject:
        """The attribute `ome` without the nodes that are not migrated."""
        result = dict(block)
        images = block.get("multiscales")
        if isinstance(images, list):
            result["multiscales"] = [
                self._member(image, "datasets", f"multiscales/{index}") for index, image in enumerate(images)
            ]
        for key, member in _LISTS:
            if key in block:
                result[key] = self._member(block[key], member, key)
        if "labels" in block:
            result["labels"] = self._migrated(block["labels"], "labels", self._path)
        if "series" in block:
            result["series"] = self._migrated(block["series"], "series", self._path.rpartition("/")[0])
        return result

    def _member(self, value: JSON, member: str, place: str) -> JSON:
        if not isinstance(value, dict) or not isinstance(value.get(member), list):
            return value
        known = len(self.places)
        entries = self._migrated(value[member], f"{place}/{member}", self._path)
        if entries or not value[member]:
            return {**value, member: entries}
        del self.places[known:]
        self.empty = f"{place}/{member}"
        return value

    def _migrated(self, entries: JSON, place: str, group: str) -> JSON:
        if not isinstance(entries, list):
            return entries
        result = []
        for index, entry in enumerate(entries):
            name = entry.get("path") if isinstance(entry, dict) else entry
            path = f"{group}/{name}".strip("/")
            if place.endswith("datasets"):
                self.levels.append(path)
            if path in self._view.nodes and path not in self._view.migrated:
                self.places.append(f"{place}/{index}")
            else:
                result.append(entry)
        return result

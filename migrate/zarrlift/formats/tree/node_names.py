"""Problems of node names, and of the depth of a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zarrstack.core.errors import Problem

from ...core.problems import refusal, warning
from .directory import NodeDirectory

MAX_LEVELS: Final = 256
"""Maximum depth of groups; real archives have about ten. Also limits paths too long for the system."""


def bad_name(name: str) -> str | None:
    """The problem of a node name, or None.

    https://zarr-specs.readthedocs.io/en/latest/v3/core/#node-names forbids empty names and names consisting
    of periods; a node named `zarr.json` would collide with its parent's document.
    """
    if not name:
        return "a node has an empty name"
    if not name.strip("."):
        return "a node's name consists of periods only"
    if name == "zarr.json":
        return "a node is named zarr.json, the name of Zarr v3 metadata"
    if "\0" in name or "\\" in name:
        return "a node's name contains a character that stores do not allow"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "a node's name is not UTF-8"
    return None


def name_problems(path: str) -> list[Problem]:
    """Problems of the last name of a path, and refusals for the names above it."""
    *above, name = path.split("/")
    if len(above) >= MAX_LEVELS:
        message = f"a node is more than {MAX_LEVELS} levels deep"
        return [refusal("name", message, node=path, advice="Move it up, or exclude it.")]
    for other in above:
        if bad_name(other) is not None:
            message = "the name of a node above is not allowed in Zarr v3"
            advice = "Rename or exclude that node."
            return [refusal("name", message, node=path, found=repr(other), advice=advice)]
    wrong = bad_name(name) if path else None
    if wrong is not None:
        return [refusal("name", wrong, node=path, found=repr(name), advice="Rename or exclude it.")]
    if name.startswith("__"):
        message = "names that start with __ are reserved in Zarr v3"
        return [warning("name", message, node=path, found=repr(name))]
    return []


def warn_of_case(children: Sequence[NodeDirectory]) -> None:
    """Add a warning to siblings whose names are equal on case-insensitive file systems."""
    seen: dict[str, str] = {}
    for child in children:
        other = seen.setdefault(child.path.casefold(), child.path)
        if other != child.path:
            message = "two names differ only by case; a case-insensitive file system keeps only one of them"
            child.problems.append(warning("name", message, node=child.path, found=f"/{other} too"))

"""Resolves links and references of hdmf-zarr, within the file or to other files.

Sources: hdmf-zarr 0.11 to 0.13, `ZarrIO.resolve_ref` and `_create_ref`. A source is relative to the file that
contains it, "." being that file; a path is relative to the root of its file. Only links refer to other files:
references were always written with ".".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, excerpt

from ...archive.nodes import ArrayNode
from ...storage.local.files import is_file
from ...storage.local.storage import LocalStorage
from .. import View, finding

_DOCUMENTS: Final = (".zgroup", ".zarray", "zarr.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTarget:
    """The target of a link or reference; `problem` is the reason if it is broken."""

    path: str = ""
    """Path in its file, without the leading "/"."""
    source: str = "."
    own: bool = True
    """Whether the target is in the same file."""
    problem: str | None = None


class FileNodes:
    """The nodes of a file, and the files next to it as far as they are visible."""

    def __init__(self, view: View) -> None:
        self._view = view
        root = view.storage.root if isinstance(view.storage, LocalStorage) else None
        self._root = None if root is None else os.path.abspath(root)
        self._files: dict[str, str] = {}
        """Source of another file -> the first group with a link to it."""

    def is_own(self, source: JSON) -> bool:
        """Whether a source is the file itself.

        Before 0.11 it may be the file's own path, relative to its folder.
        """
        if source in (None, "", "."):
            return True
        if self._root is None or not isinstance(source, str):
            return False
        here = (os.path.join(self._root, source), os.path.join(os.path.dirname(self._root), source))
        return any(os.path.normpath(place) == self._root for place in here)

    def reference(self, item: JSON) -> ReferenceTarget:
        """The target of a reference in a dataset or an attribute."""
        if not isinstance(item, dict) or not isinstance(item.get("path", ""), str | None):
            return ReferenceTarget(problem="not a reference")
        if "region" in item:
            return ReferenceTarget(problem="a reference to a region, which hdmf-zarr does not read")
        if not self.is_own(item.get("source")):
            return ReferenceTarget(problem="a reference to another file", own=False)
        return self._within(item.get("path"))

    def attribute(self, value: dict[str, JSON]) -> ReferenceTarget:
        """The target of the reference in an attribute."""
        if value["zarr_dtype"] == "region":
            return ReferenceTarget(problem="a reference to a region, which hdmf-zarr does not read")
        if value["zarr_dtype"] != "object" or not isinstance(value.get("value"), dict):
            return ReferenceTarget(problem="not a reference that hdmf-zarr supports")
        return self.reference(value["value"])

    def link(self, group: str, link: JSON) -> ReferenceTarget:
        """The target of a link in a group."""
        if not isinstance(link, dict) or not all(isinstance(link.get(key), str) for key in ("name", "path")):
            return ReferenceTarget(problem="not a link: name or path is missing")
        source = link.get("source")
        if self.is_own(source):
            return self._within(link["path"])
        if not isinstance(source, str):
            return ReferenceTarget(problem="not a link: its source is not text")
        self._files.setdefault(source, group)
        path = _clean(link["path"])
        return ReferenceTarget(path=path, source=source, own=False, problem=self._link_problem(source, path))

    def _within(self, path: JSON) -> ReferenceTarget:
        name = _clean(path or "")
        node = self._view.nodes.get(name)
        if node is None:
            return ReferenceTarget(problem="its target does not exist in this file")
        if not self._view.recipe.selects(name) and name:
            return ReferenceTarget(problem="its target is an excluded node")
        return ReferenceTarget(path=name)

    def _link_problem(self, source: str, path: str) -> str | None:
        """The visible problem of a link to another file, if any."""
        if self._root is None or "://" in source:
            return None  # reported once per file
        if ".." in path.split("/"):
            return "a path that points outside its file"
        place = Path(os.path.normpath(os.path.join(self._root, source)))
        if not any(is_file(place / name) for name in _DOCUMENTS):
            return "the other file does not exist"
        if not any(is_file(place / path / name) for name in _DOCUMENTS):
            return "its target does not exist in the other file"
        return None

    def problems(self) -> list[Problem]:
        """Problems with other files: links keep their sources, so these files must be migrated as well."""
        problems = []
        for source, group in self._files.items():
            checked = self._root is not None and "://" not in source
            message = "links refer to another file and keep their source"
            message += "" if checked else "; its existence was not checked"
            advice = "Migrate that file too, to the same place relative to this one."
            problems.append(finding("warning", group, message, source, advice=advice))
        return problems


def _clean(path: str) -> str:
    """A path from a file's root in the form of node paths."""
    return "/".join(name for name in path.split("/") if name)


ADVICE: Final = "Fix the file, exclude the node, or use --conventions none to migrate it as plain data."
_MAX_TOLD: Final = 10
_MAX_SOURCES: Final = 100
"""Maximum number of spellings of the file's own name, which are stored in the plan."""


class ItemFindings:
    """The first problems of a dataset, and the references that were followed."""

    def __init__(self, node: ArrayNode, places: FileNodes) -> None:
        self._node = node
        self._places = places
        self._first: list[Problem] = []
        self._count = 0
        self.references = 0
        self.own: dict[str, None] = {".": None}
        """Sources of references to the file itself."""

    def follow(self, key: str, place: tuple[int, ...], item: Any) -> None:
        """Check the target of a reference."""
        self.references += 1
        target = self._places.reference(item)
        if target.problem is not None:
            self.refuse(key, f"{target.problem}, at {place}", excerpt(item))
        elif isinstance(source := item.get("source"), str) and source not in self.own:
            if len(self.own) >= _MAX_SOURCES:
                self.refuse(key, f"the file itself has more than {_MAX_SOURCES} names", excerpt(source))
            else:
                self.own[source] = None

    def refuse(self, key: str | None, message: str, found: str | None) -> None:
        """Add a refusal of the dataset."""
        self.add(finding("refusal", self._node.path, message, found, key=key, advice=ADVICE))

    def add(self, problem: Problem) -> None:
        """Add a problem."""
        self._count += 1
        if len(self._first) < _MAX_TOLD:
            self._first.append(problem)

    def problems(self) -> tuple[Problem, ...]:
        """The first problems, and the number of further ones."""
        more = self._count - len(self._first)
        if not more:
            return tuple(self._first)
        message = f"{more} more items have such problems"
        return (*self._first, finding("refusal", self._node.path, message, advice=ADVICE))

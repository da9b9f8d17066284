"""What links and references of hdmf-zarr lead to: in the file itself, or in another one.

Facts: hdmf-zarr 0.11 to 0.13, `ZarrIO.resolve_ref` and `_create_ref`. A source is relative to the
file that names it, "." being that file; a path is one from the root of its file. Only links lead to
other files: references were always written with ".".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON

from ...storage.local.storage import LocalStorage
from ..base import View

_DOCUMENTS: Final = (".zgroup", ".zarray", "zarr.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where something leads; `problem` says why it leads nowhere."""

    path: str = ""
    """In its file, without the first "/"."""
    source: str = "."
    own: bool = True
    """Whether that file is this one."""
    problem: str | None = None


class Places:
    """The nodes of a file, and the files beside it as far as they can be seen."""

    def __init__(self, view: View) -> None:
        self._view = view
        root = view.storage.root if isinstance(view.storage, LocalStorage) else None
        self._root = None if root is None else os.path.abspath(root)
        self._files: dict[str, str] = {}
        """Source of another file -> the first group whose link names it."""

    def is_own(self, source: JSON) -> bool:
        """Whether a source means the file itself.

        Before 0.11 it may be the file's own path, relative to the folder it is in.
        """
        if source in (None, "", "."):
            return True
        if self._root is None or not isinstance(source, str):
            return False
        here = (os.path.join(self._root, source), os.path.join(os.path.dirname(self._root), source))
        return any(os.path.normpath(place) == self._root for place in here)

    def reference(self, item: JSON) -> Target:
        """Where a reference of a dataset or an attribute leads."""
        if not isinstance(item, dict) or not isinstance(item.get("path", ""), str | None):
            return Target(problem="no reference")
        if "region" in item:
            return Target(problem="a reference to a region, which hdmf-zarr never came to read")
        if not self.is_own(item.get("source")):
            return Target(problem="a reference that leads out of the file", own=False)
        return self._within(item.get("path"))

    def attribute(self, value: dict[str, JSON]) -> Target:
        """Where the reference in an attribute leads."""
        if value["zarr_dtype"] == "region":
            return Target(problem="a reference to a region, which hdmf-zarr never came to read")
        if value["zarr_dtype"] != "object" or not isinstance(value.get("value"), dict):
            return Target(problem="no reference that hdmf-zarr knows")
        return self.reference(value["value"])

    def link(self, group: str, link: JSON) -> Target:
        """Where a link of a group leads."""
        if not isinstance(link, dict) or not all(isinstance(link.get(key), str) for key in ("name", "path")):
            return Target(problem="no link: name and path are missing")
        source = link.get("source")
        if self.is_own(source):
            return self._within(link["path"])
        if not isinstance(source, str):
            return Target(problem="no link: its source is no text")
        self._files.setdefault(source, group)
        path = _clean(link["path"])
        return Target(path=path, source=source, own=False, problem=self._outside(source, path))

    def _within(self, path: JSON) -> Target:
        name = _clean(path or "")
        node = self._view.nodes.get(name)
        if node is None:
            return Target(problem="it leads to nothing in this file")
        if not self._view.recipe.selects(name) and name:
            return Target(problem="it leads to a node that is left out")
        return Target(path=name)

    def _outside(self, source: str, path: str) -> str | None:
        """What is wrong with a link to another file, as far as that can be seen from here."""
        if self._root is None or "://" in source:
            return None  # told once for each file
        if ".." in path.split("/"):
            return "a path that leads out of its file"
        place = Path(os.path.normpath(os.path.join(self._root, source)))
        if not any((place / name).is_file() for name in _DOCUMENTS):
            return "it leads to a file that is not there"
        if not any((place / path / name).is_file() for name in _DOCUMENTS):
            return "it leads to nothing in the other file"
        return None

    def told(self) -> list[Problem]:
        """What there is to say about other files: links keep their sources, so these must come along."""
        told = []
        for source, group in self._files.items():
            checked = self._root is not None and "://" not in source
            told.append(
                Problem(
                    kind="convention",
                    severity="warning",
                    node=group,
                    message="links lead into another file and keep their source"
                    + ("" if checked else "; whether it is there was not looked at"),
                    found=source,
                    advice="Migrate that file too, to the same place as seen from this one.",
                )
            )
        return told


def _clean(path: str) -> str:
    """A path from a file's root as nodes have it."""
    return "/".join(name for name in path.split("/") if name)

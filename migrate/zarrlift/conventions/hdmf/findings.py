"""Collects the findings in the items of one hdmf-zarr dataset."""

from __future__ import annotations

from typing import Any, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import excerpt

from ...archive.nodes import ArrayNode
from ..base import finding
from .references import FileNodes

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

"""What is gathered of one node while it is compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from zarrstack.core.errors import Problem

from ..recipe import ArrayRecipe
from .attributes import attribute_differences, expected_attributes
from .tree import FoundNode, key_below

MOST_LISTED: Final = 20
"""Differences listed per node; all are counted."""


@dataclass(slots=True)
class Differences:
    """Differences of one node: the first few, and how many there are."""

    node: str
    listed: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, problems: Iterable[Problem]) -> None:
        """Take more of them."""
        for problem in problems:
            self.count += 1
            if len(self.listed) < MOST_LISTED:
                self.listed.append(problem.at(node=self.node))

    def say(self, what: str, found: object, expected: object, *, kind: str = "verify-metadata") -> None:
        """Take one about the node's document."""
        self.add(
            [
                Problem(
                    kind=kind,
                    message=f"the {what} differs",
                    node=self.node,
                    key=key_below(self.node),
                    found=str(found),
                    expected=str(expected),
                )
            ]
        )


def compare_attributes(
    differences: Differences, attributes: Any, found: FoundNode, ndim: int | None, recipe: ArrayRecipe
) -> tuple[str | None, ...] | None:
    """Compare attributes after the documented changes; gives the dimension names they became."""
    expected, names = expected_attributes(attributes, ndim, recipe)
    for name, (mine, theirs) in attribute_differences(found.attributes, expected):
        differences.say(f"attribute {name!r}", mine, theirs, kind="verify-attributes")
    return names

"""What is gathered of one node while it is compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem

from ..archive.nodes import ArrayNode, Node
from ..conventions.base import Change
from ..recipe.recipe import ArrayRecipe
from .attributes import attribute_differences, lost_values, strict
from .conventions import findings
from .v3_tree import FoundNode, key_below

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
    differences: Differences, node: Node, found: FoundNode, change: Change, recipe: ArrayRecipe
) -> None:
    """Compare attributes after the changes that strict JSON and conventions make.

    `change` is what the conventions make of the source. Where they make something of the node, the
    source's values are looked for one by one besides, and zarrlift's own conventions held to their word.
    """
    expected = dict(node.attributes if change.attributes is None else change.attributes)
    source = dict(node.attributes)
    if recipe.attributes == "strict":
        expected, source = strict(expected), strict(source)
    for name, (mine, theirs) in attribute_differences(found.attributes, expected):
        differences.say(f"attribute {name!r}", mine, theirs, kind="verify-attributes")
    if change.attributes is not None:
        ndim = len(node.layout.shape) if isinstance(node, ArrayNode) and node.layout is not None else None
        names = found.metadata.dimension_names if found.metadata is not None else None
        for place, text in lost_values(source, found.attributes, names, ndim, change.replaced):
            differences.say(
                f"attribute at {place}", "nothing that holds its value", text, kind="verify-attributes"
            )
    for what, mine, theirs in findings(node, found, recipe):
        differences.say(what, mine, theirs, kind="verify-attributes")

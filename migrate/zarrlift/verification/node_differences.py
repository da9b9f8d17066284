"""Collects the differences of one node during a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ..archive.nodes import ArrayNode, Node
from ..conventions.base import Change
from ..core.problems import refusal
from ..recipe.recipe import ArrayRecipe
from .attributes import attribute_differences, lost_values, strict
from .conventions import findings
from .v3_tree import DOCUMENT, ResultNode

MAX_LISTED: Final = 20
"""Maximum number of differences listed per node; all are counted."""


@dataclass(slots=True)
class Differences:
    """The first differences of one node, and their total number."""

    node: str
    listed: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems."""
        for problem in problems:
            self.count += 1
            if len(self.listed) < MAX_LISTED:
                self.listed.append(problem.at(node=self.node))

    def say(self, what: str, found: object, expected: object, *, kind: str = "verify-metadata") -> None:
        """Add one difference in the node's document."""
        self.add(
            [
                refusal(
                    kind,
                    f"the {what} differs",
                    node=self.node,
                    key=join(self.node, DOCUMENT),
                    found=str(found),
                    expected=str(expected),
                )
            ]
        )


def compare_attributes(
    differences: Differences, node: Node, result: ResultNode, change: Change, recipe: ArrayRecipe
) -> None:
    """Compare attributes after the changes made by strict JSON and conventions.

    `change` is the conventions' result for the source. If they change the node, every value of the source's
    attributes is also searched for in the result, and the requirements of zarrlift's own conventions are
    checked.
    """
    expected = dict(node.attributes if change.attributes is None else change.attributes)
    source = dict(node.attributes)
    if recipe.attributes == "strict":
        expected, source = strict(expected), strict(source)
    for name, (mine, theirs) in attribute_differences(result.attributes, expected):
        differences.say(f"attribute {name!r}", mine, theirs, kind="verify-attributes")
    if change.attributes is not None:
        ndim = len(node.layout.shape) if isinstance(node, ArrayNode) and node.layout is not None else None
        names = result.metadata.dimension_names if result.metadata is not None else None
        for place, text in lost_values(source, result.attributes, names, ndim, change.replaced):
            differences.say(
                f"attribute at {place}", "nothing that holds its value", text, kind="verify-attributes"
            )
    for what, mine, theirs in findings(node, result, recipe):
        differences.say(what, mine, theirs, kind="verify-attributes")

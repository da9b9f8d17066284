"""The output of `zarrlift update --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..jobs.units import bytes_text, count_text, node_text
from . import problems as report_problems
from .table import Column

if TYPE_CHECKING:
    from ..jobs.update.steps import NodeUpdate
    from ..jobs.update.update import UpdatePlan
    from .page import Page

_NODES: Final = 20
"""Maximum number of rows; the rest is counted."""
_COLUMNS: Final = (
    Column(title="node"),
    Column(title="what is done"),
    Column(title="chunks", right=True, spare=1),
    Column(title="bytes", right=True),
)


def lines(plan: UpdatePlan, page: Page) -> Iterator[str]:
    """What an update would do, node by node."""
    if not plan.nodes:
        yield "Nothing to do: the source has not changed."
        return
    amount = f"{count_text(plan.objects, 'chunk')} to read, {bytes_text(plan.bytes)}"
    yield from page.paragraph(f"{count_text(len(plan.nodes), 'node')} to change: {amount}.", tone="title")
    yield from page.apart(page.listing(_COLUMNS, plan.nodes, _row, most=_NODES, what="node"))
    if any(node.visible for node in plan.nodes):
        yield ""
        yield from page.paragraph(
            "Objects of visible arrays are replaced one by one: until an array is complete, a reader may see"
            " some of its objects as they were and others as they are now."
        )
    problems = [problem for node in plan.nodes for problem in node.problems]
    yield from page.apart(report_problems.lines(problems, page, refusal="kept"))


def _row(node: NodeUpdate) -> tuple[str, ...]:
    return (node_text(node.path), _what(node), *_amounts(node))


def _what(node: NodeUpdate) -> str:
    match node.action:
        case "new":
            return "new"
        case "removed":
            return "removed"
        case "kept":
            return "kept as it is"
        case "replaced":
            return "hidden, then migrated as a whole"
        case "changed":
            return "its objects one by one, then its metadata" if node.visible else "its metadata"


def _amounts(node: NodeUpdate) -> tuple[str, str]:
    return (count_text(node.objects), bytes_text(node.bytes)) if node.objects else ("", "")

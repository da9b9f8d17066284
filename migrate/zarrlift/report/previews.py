"""The output of `zarrlift update --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.units import bytes_text, count_text, node_text

from . import blocks as b

if TYPE_CHECKING:
    from ..jobs.update.steps import NodeUpdate, UpdatePlan

_NODES: Final = 20
"""Maximum number of rows; the rest is counted."""
_COLUMNS: Final = (
    b.Column(title="node"),
    b.Column(title="what is done"),
    b.Column(title="chunks", right=True, spare=1),
    b.Column(title="bytes", right=True),
)


def update_blocks(plan: UpdatePlan) -> Iterator[b.Block]:
    """What an update would do, node by node."""
    if not plan.nodes:
        yield b.Text("Nothing to do: the source has not changed.")
        return
    amount = f"{count_text(plan.objects, 'chunk')} to read, {bytes_text(plan.bytes)}"
    yield b.Title(f"{count_text(len(plan.nodes), 'node')} to change: {amount}.", hang=0)
    yield b.Section()
    yield b.Table(columns=_COLUMNS, items=plan.nodes, row=_row, most=_NODES, what="node")
    if any(node.visible for node in plan.nodes):
        yield b.Section()
        yield b.Text(
            "Objects of visible arrays are replaced one by one: until an array is complete, a reader may see"
            " some of its objects as they were and others as they are now."
        )
    yield b.Section()
    yield b.Problems.of((problem for node in plan.nodes for problem in node.problems), "kept")


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

"""What `zarrlift status` shows: how far a job is, and what keeps it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .outcome import command
from .table import Column
from .units import bytes_text, count_text, node_text, safe

if TYPE_CHECKING:
    from ..outcome import NodeStatus, Status
    from . import Page

_NODES: Final = 20
"""Rows before the rest is only counted; what failed stands first."""
_URGENCY: Final = {"failed": 0, "refused": 1, "pending": 2, "done": 3}
_COLUMNS: Final = (
    Column(title="node"),
    Column(title="state"),
    Column(title="route"),
    Column(title="tasks", right=True),
    Column(title="bytes", right=True),
    Column(title="error", wraps=True),
)


def lines(status: Status, page: Page) -> Iterator[str]:
    """The report on a job."""
    where = "in place" if status.in_place else f"-> {safe(status.destination)}"
    yield from page.paragraph(f"{safe(status.source)} {where}", hang=2, tone="title")
    yield from page.pairs(
        (
            ("state", status.state),
            ("verified", {None: "no", "sample": "a sample"}.get(status.verified, "every value")),
            ("job", safe(status.job)),
            ("created", _moment(status.created)),
            ("updated", _moment(status.updated)),
        )
    )
    rows = sorted(status.nodes, key=lambda row: (_URGENCY.get(row.state, 2), row.path))
    shown = rows if page.everything else rows[:_NODES]
    if rows:
        yield ""
        yield from page.table(_COLUMNS, (_row(row) for row in shown))
    if len(shown) < len(rows):
        yield f"  and {count_text(len(rows) - len(shown), 'more node')} (--all shows them)"
    yield ""
    yield from page.paragraph(_summary(rows), hang=2)
    if status.state == "undone":
        yield "What the job had done was taken back."
    if status.state == "incomplete":
        yield from page.advice("Go on with:", command("resume", status.job))


def _row(row: NodeStatus) -> tuple[str, ...]:
    tasks = f"{count_text(row.tasks_done)}/{count_text(row.tasks_total)}" if row.tasks_total else ""
    size = f"{bytes_text(row.bytes_done)} of {bytes_text(row.bytes_total)}" if _moves(row) else ""
    return (
        node_text(row.path),
        row.state,
        row.route or ("group" if row.kind == "group" else ""),
        tasks,
        size,
        safe(row.error or ""),
    )


def _moves(row: NodeStatus) -> bool:
    """Whether bytes are read for a node; chunks that stay where they are are not."""
    return row.bytes_total > 0 and row.route != "stay"


def _summary(rows: list[NodeStatus]) -> str:
    counts: Counter[str] = Counter(row.state for row in rows)
    states = ", ".join(f"{count_text(counts[state])} {state}" for state in _URGENCY if counts[state])
    done = sum(row.bytes_done for row in rows)
    total = sum(row.bytes_total for row in rows if _moves(row))
    moved = f"; {bytes_text(done)} of {bytes_text(total)}" if total else ""
    return f"{count_text(len(rows), 'node')}: {states or 'none'}{moved}."


def _moment(seconds: float) -> str:
    """Local time with its offset, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))

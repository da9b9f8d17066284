"""The rows of a ledger that matter for jobs in parts.

A part records its work in a ledger of its own, a job file without a plan, whose nodes have the ids of those
in the job. When the job forgets all work of a node, because it is planned again or is wrong, the node begins
a new round, so that what parts have recorded before is not taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...transfer.counts import MoveResult
from .rows import NodeRow

_TASKS: Final = """
SELECT node, number, chunks, bytes_in, bytes_out, dropped, sums, synced.number IS NOT NULL
FROM task LEFT JOIN synced USING (node, number) LEFT JOIN task_digest USING (node, number)"""
_TASK: Final = f"{_TASKS} WHERE node = ? AND number = ?"


class TaskRow(NamedTuple):
    """A recorded task."""

    node: int
    number: int
    moved: MoveResult
    synced: bool
    """Whether its objects have reached the disk."""


class PartRows:
    """Reads and writes these rows; what is written is durable at the next commit."""

    def __init__(
        self,
        write: Callable[[str, Sequence[Any]], object],
        rows: Callable[[str, Sequence[Any]], list[Any]],
        facts: Callable[..., None],
        fact: Callable[[str], str | None],
    ) -> None:
        """`write` executes a statement in the job's transaction, `rows` a query; `facts` stores notes."""
        self._write = write
        self._rows = rows
        self._facts = facts
        self._fact = fact

    def round(self, node: int) -> str | None:
        """The round of a node; None for the first."""
        return self._fact(f"round_{node}")

    def begin_round(self, node: int) -> None:
        """Begin a new round of a node, if this is the file of a job in parts."""
        if self._fact("parts") is not None:
            number = str(int(self._fact("rounds") or 0) + 1)
            self._facts(rounds=number, **{f"round_{node}": number})

    def adopt(self, nodes: Iterable[tuple[NodeRow, str | None]]) -> None:
        """Add nodes of a job with their rounds, as not failed; forget what is of earlier rounds."""
        for row, number in nodes:
            self._write(
                "INSERT OR REPLACE INTO node (id, path, kind, plan, state) VALUES (?, ?, ?, '', 'pending')",
                (row.id, row.path, row.kind),
            )
            if self.round(row.id) != number:
                self._write("DELETE FROM task WHERE node = ?", (row.id,))
                self._write("DELETE FROM synced WHERE node = ?", (row.id,))
                self._write("DELETE FROM task_digest WHERE node = ?", (row.id,))
                self._facts(**{f"round_{row.id}": number})

    def tasks(self) -> Iterator[TaskRow]:
        """All recorded tasks."""
        return map(_task_row, self._rows(_TASKS, ()))

    def task(self, node: int, number: int) -> TaskRow | None:
        """A recorded task."""
        return next(map(_task_row, self._rows(_TASK, (node, number))), None)

    def mark_synced(self, node: int, number: int) -> None:
        """Record that a task's objects have reached the disk."""
        self._write("INSERT OR IGNORE INTO synced VALUES (?, ?)", (node, number))


def _task_row(values: Sequence[Any]) -> TaskRow:
    node, number, chunks, bytes_in, bytes_out, dropped, sums, synced = values
    moved = MoveResult(chunks=chunks, bytes_in=bytes_in, bytes_out=bytes_out, dropped=dropped, sums=sums)
    return TaskRow(node, number, moved, bool(synced))

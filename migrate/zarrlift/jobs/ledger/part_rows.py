"""The rows of a ledger that matter for jobs in parts.

A part records its work in its own ledger, a job file without a plan, whose nodes have the ids of those
in the job. When the job forgets all work of a node, because it is planned again or is wrong, the node begins
a new round, so that what parts have recorded before is not taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from .rows import NodeRow

_TASKS: Final = """
SELECT node, number, chunks, bytes_in, bytes_out, dropped, sums, synced.number IS NOT NULL
FROM task LEFT JOIN synced USING (node, number) LEFT JOIN task_digest USING (node, number)
WHERE (node, number) BETWEEN (?, ?) AND (?, ?) ORDER BY node, number"""
_ALL: Final = (0, 0, 1 << 62, 0)
"""Ids of nodes are positive."""


class TaskRow(NamedTuple):
    """A recorded task."""

    node: int
    number: int
    chunks: int
    bytes_in: int
    bytes_out: int
    dropped: int
    sums: bytes | None
    """The digest of the values moved, if known."""
    synced: int
    """Whether its objects have reached the disk."""


class PartRows:
    """Reads and writes these rows; what is written is durable at the next commit."""

    def __init__(
        self,
        write: Callable[[str, Sequence[Any]], object],
        write_many: Callable[[str, Iterable[Sequence[Any]]], object],
        rows: Callable[[str, Sequence[Any]], list[Any]],
        facts: Callable[..., None],
        fact: Callable[[str], str | None],
    ) -> None:
        """`write` executes a statement in the job's transaction, `rows` a query; `facts` stores notes."""
        self._write = write
        self._write_many = write_many
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

    def tasks(self, like: Sequence[TaskRow] = ()) -> list[TaskRow]:
        """All recorded tasks, sorted; with `like`, those from the first to the last of these."""
        bounds = (*like[0][:2], *like[-1][:2]) if like else _ALL
        return list(map(TaskRow._make, self._rows(_TASKS, bounds)))

    def record(self, rows: Sequence[TaskRow]) -> None:
        """Record tasks as another ledger has them."""
        self._write_many("INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?)", [row[:6] for row in rows])
        self._write_many(
            "INSERT OR IGNORE INTO synced VALUES (?, ?)", [row[:2] for row in rows if row.synced]
        )
        sums = [(row.node, row.number, row.sums) for row in rows if row.sums is not None]
        self._write_many("INSERT OR REPLACE INTO task_digest VALUES (?, ?, ?)", sums)

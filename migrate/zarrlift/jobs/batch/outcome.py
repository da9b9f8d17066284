"""The result of a call on a batch, as frozen data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Self, TypeAlias

from zarrstack.core.json_text import JSONObject

from ...core.problems import JoinedProblems, any_refusal
from ...errors import JobError
from ..units import columns, safe
from .rows import COMPLETE, BatchRow, counts

BatchState: TypeAlias = Literal["planned", "done", "incomplete", "nothing to do", "finished", "undone"]

_PROGRESS: Final = ("bytes_done", "bytes_total", "rate", "seconds_left")
_TOTALS: Final = ("arrays", "objects", "bytes_in", "bytes_out", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The result of a call on a batch, or its status.

    Examples
    --------
    >>> outcome = zarrlift.batch(".", to="v3/{relative}.zarr").outcome
    >>> outcome.state, outcome.ok, outcome.ran
    ('done', True, 2)
    """

    list_file: str
    """Path of the list of the batch."""
    state: BatchState
    rows: tuple[BatchRow, ...] = field(repr=False)
    """All archives."""
    ran: int = 0
    """Archives that this call has worked on."""
    left: int = 0
    """Archives that this call has left to other processes, which have claimed them."""
    added: tuple[str, ...] = ()
    """Archives that were found and that the list has not."""
    seconds: float = 0.0
    """Duration of this call."""
    running: bool = False
    """Whether a process runs the batch now."""
    bytes_done: int = 0
    """Bytes of the sources read, of archives that are done or under way."""
    bytes_total: int = 0
    """The same when everything is done, without archives that are refused."""
    rate: float | None = None
    """Bytes per second of a run that is under way."""

    @property
    def seconds_left(self) -> float | None:
        """Estimated at this rate."""
        return (self.bytes_total - self.bytes_done) / self.rate if self.rate else None

    @property
    def ok(self) -> bool:
        """Whether everything requested is done, or is being done by other processes.

        Of a plan: whether every archive can be migrated.
        """
        refused = self.state == "planned" and "refused" in self.counts
        others = sum(row.state not in COMPLETE for row in self.rows)
        refused = refused or any(any_refusal(row.problems) for row in self.rows if self.left)
        is_done = self.state != "incomplete" or 0 < self.left == others
        return is_done and not refused and not self.added

    def raise_for_problems(self) -> Self:
        """This outcome if it is `ok`; otherwise JobError with the refusals and failures of every archive."""
        if self.ok:
            return self
        found = [
            f"{row.relative}: {problem}"
            for row in self.rows
            for problem in row.problems
            if problem.severity == "refusal"
        ]
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        raise JobError(
            JoinedProblems.of(found, before=f"{counts}; " if found else counts), key=self.list_file
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of archives in each state."""
        return counts(self.rows)

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        return {
            "list_file": self.list_file,
            "state": self.state,
            "counts": dict(self.counts),
            "totals": {name: sum(getattr(row, name) for row in self.rows) for name in _TOTALS},
            "ran": self.ran,
            "left": self.left,
            "added": list(self.added),
            "seconds": self.seconds,
            "running": self.running,
            **{name: getattr(self, name) for name in _PROGRESS},
            "archives": [row.to_json() for row in self.rows],
        }


def state_of(rows: Iterable[BatchRow]) -> BatchState:
    """The state of a batch."""
    states = {row.state for row in rows}
    if "undone" in states and states <= {"undone", "pending"}:
        return "undone"
    if states == {"finished"}:
        return "finished"
    return "done" if states <= COMPLETE else "incomplete"


def table(rows: Iterable[BatchRow]) -> str:
    """Archives as text, one line each."""
    cells = [("row", "archive", "state", "arrays", "problem"), *map(_cells, rows)]
    widths = [max(columns(row[place]) for row in cells) for place in range(4)]
    lines = (
        "  ".join(
            [
                *(text + " " * (width - columns(text)) for text, width in zip(row, widths, strict=False)),
                row[4],
            ]
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _cells(row: BatchRow) -> tuple[str, str, str, str, str]:
    refusal = next((str(problem) for problem in row.problems if problem.severity == "refusal"), "")
    return str(row.number), safe(row.relative), row.state, str(row.arrays), safe(refusal)

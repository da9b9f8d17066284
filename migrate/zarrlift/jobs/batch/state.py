"""The state of the archives of a batch, which is that of their jobs, and the result of a call.

Where an archive has no job because it is refused, or because something went wrong first, the reason is in a
small file in its place.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ...core.problems import JoinedProblems, any_refusal
from ...errors import JobError
from ...storage.base import BESIDE
from ...storage.local.own_names import sibling
from ...storage.local.partial_files import replace_file
from ...storage.open_storage import is_url
from ..claim import ClaimHolder
from ..ledger.database import VERSION, reporting_damage, stable_notes
from ..ledger.job_places import SUFFIX, names_of
from ..ledger.last_run import activity, last_run, seconds_spent
from ..ledger.ledger import Job
from ..outcome import Figures
from .rows import BatchRow

COMPLETE: Final = frozenset({"done", "finished"})
"""States in which nothing is left to migrate."""
LARGE: Final = 64 << 20
"""Bytes from which an archive is run alone, with all workers: it keeps them busy for longer than a thread
takes to start.
"""
REFUSED_SUFFIX: Final = ".zarrlift.refused"
"""Of the file beside a result that says why an archive has no job."""


def state(row: BatchRow) -> BatchRow:
    """An archive as its job has it; without one, as the reason in its place does."""
    notes = stable_notes(row.job)
    if notes is not None and (done := _of_notes(notes, row)):
        return replace(row, **done)
    path = Path(row.job)
    try:
        with reporting_damage(path), Job.open(path, write=False) as job:
            return replace(row, **_of_job(job, row))
    except JobError as error:
        if row.begun():
            return replace(row, state="failed", problems=(error.problem,))
    return replace(row, **_reason(row), running=_is_claimed(row))


def _of_notes(notes: Mapping[str, str], row: BatchRow) -> dict[str, Any]:
    """The fields that the notes of a job that is done determine; none if the job must be opened for them."""
    if notes.get("state") not in COMPLETE or notes.get("version") != VERSION:
        return {}
    try:
        header, run, figures = (json.loads(notes[name]) for name in ("plan", "run", "figures"))
        is_same = header["source"] == row.source or (header["in_place"] and "beside" in notes)
        if not is_same or header["recipe"] != row.request.recipe_json or run["ended"] is None:
            return {}
        return {
            "format": header["format"],
            "state": notes["state"],
            "seconds": run["seconds"],
            "verified": notes.get("verified"),
            **Figures(*figures)._asdict(),
        }
    except (ValueError, KeyError, TypeError):
        return {}


def _of_job(job: Job, row: BatchRow) -> dict[str, Any]:
    """The fields that a job determines."""
    header, nodes = job.header, job.nodes()
    if header["recipe"] != row.request.recipe_json or not _is_of(job, row):
        raise JobError(
            "this destination belongs to a different job",
            key=row.job,
            found=f"{header['source']} to {header['destination']}",
            advice="Undo it, or give the archive another destination.",
        )
    # The whole plan takes time to read, for each of thousands of archives.
    refusals = job.plan().refusals if any(node.kind == "refusal" for node in nodes) else ()
    refused = [Problem.from_json(problem) for problem in header["problems"]]
    refused = [problem for problem in refused if problem.severity == "refusal"]
    refused += [problem for refusal in refusals for problem in refusal.problems]
    failed = [problem for node in nodes if node.state == "failed" for problem in node.problems]
    current: str = job.state
    if current == "incomplete":
        left = any(node.state == "pending" and node.kind == "array" for node in nodes)
        current = "failed" if failed else "incomplete" if left or not refused else "refused"
    return {
        "format": header["format"],
        "state": current,
        "running": job.state == "incomplete" and activity(job.path, last_run(job)) == "running",
        "problems": tuple(dict.fromkeys((*refused, *failed))),
        "seconds": seconds_spent(job),
        "verified": job.fact("verified"),
        "large": sum(node.work.bytes_in for node in nodes) >= LARGE,
        **Figures.of(job)._asdict(),
        "arrays": sum(node.kind == "array" for node in nodes)
        + sum(refusal.kind == "array" for refusal in refusals),
    }


def _is_of(job: Job, row: BatchRow) -> bool:
    """Whether a job has the source of an archive, where it was or where it is now."""
    names = [name for source in job.sources for name in source]
    return row.source in names or any(names_of(row.source) & names_of(name) for name in names)


def may_be_claimed(row: BatchRow) -> bool:
    """Whether an undo that was killed may have left its claim; in a store, only a request could tell."""
    return is_url(row.destination) or os.path.lexists(_claim(row))


def _is_claimed(row: BatchRow) -> bool:
    """Whether a process of this machine has claimed the place of an archive."""
    if is_url(row.destination):
        return False
    try:
        holder = ClaimHolder.from_bytes(_claim(row).read_bytes())
    except OSError:
        return False
    return holder is not None and holder.state == "running"


def _claim(row: BatchRow) -> Path:
    return sibling(Path(row.destination), BESIDE)


# ----- reasons


def reason_path(row: BatchRow) -> str:
    """The path of the file with the reason why an archive has no job."""
    return row.job.removesuffix(SUFFIX) + REFUSED_SUFFIX


def _reason(row: BatchRow) -> dict[str, Any]:
    """The state and the problems of an archive without a job."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(reason_path(row), "rb") as file:
        data = json.loads(file.read())
        problems = tuple(map(Problem.from_json, data["problems"]))
        return {"state": "failed" if data["state"] == "failed" else "refused", "problems": problems}
    return {"state": "pending", "problems": ()}


def write_reason(row: BatchRow) -> None:
    """Write why an archive has no job; what cannot be written is in the outcome of the call alone."""
    path = reason_path(row)
    text = json.dumps({"state": row.state, "problems": [each.to_json() for each in row.problems]}, indent=1)
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, f"{text}\n".encode())


def remove_reason(row: BatchRow) -> None:
    """Remove the reason, because the archive has a job now or was undone."""
    with suppress(OSError):
        os.unlink(reason_path(row))


# ----- the result of a call

BatchState: TypeAlias = Literal["planned", "done", "incomplete", "nothing to do", "finished", "undone"]
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
    seconds: float = 0.0
    """Duration of this call."""
    running: bool = False
    """Whether a process runs the batch now."""

    @property
    def ok(self) -> bool:
        """Whether everything requested is done, or is being done by other processes.

        Of a plan: whether every archive can be migrated.
        """
        if self.state == "planned":
            return not self.counts.keys() & {"refused", "failed"}
        others = sum(row.state not in COMPLETE for row in self.rows)
        refused = self.left > 0 and any(any_refusal(row.problems) for row in self.rows)
        return (self.state != "incomplete" or 0 < self.left == others) and not refused

    def raise_for_problems(self) -> Self:
        """This outcome if it is `ok`; otherwise JobError with the refusals and failures of every archive."""
        if self.ok:
            return self
        problems = [
            f"{row.name}: {problem}"
            for row in self.rows
            for problem in row.problems
            if problem.severity == "refusal"
        ]
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        raise JobError(
            JoinedProblems.of(problems, before=f"{counts}; " if problems else counts), key=self.list_file
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of archives in each state."""
        return dict(Counter(row.state for row in self.rows))

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        return {
            "list_file": self.list_file,
            "state": self.state,
            "counts": self.counts,
            "totals": {name: sum(getattr(row, name) for row in self.rows) for name in _TOTALS},
            "ran": self.ran,
            "left": self.left,
            "seconds": self.seconds,
            "running": self.running,
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

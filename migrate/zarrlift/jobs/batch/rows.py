"""The archives of a batch, as frozen data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ...core.json_fields import json_of_fields
from ...errors import JobError
from ..current_status import activity
from ..ledger.database import damage_told, stamp
from ..ledger.find_job import names_of, places_of
from ..ledger.last_run import last_run, seconds_spent
from ..ledger.ledger import Job
from .requests import RowRequest

ArchiveState: TypeAlias = Literal["pending", "incomplete", "refused", "failed", "done", "finished", "undone"]
"""`pending`: not started. `incomplete`: interrupted. `refused`: the archive, or some of its nodes, cannot be
migrated. `failed`: something went wrong with what was to be migrated.
"""
COMPLETE: Final = frozenset({"done", "finished"})
"""States in which nothing is left to migrate."""
PLANNED: Final = ("state", "format", "arrays", "objects", "bytes_in", "large")
"""Fields that are known of an archive without a job."""
DONE: Final = (
    "state",
    "format",
    "arrays",
    "objects",
    "bytes_in",
    "bytes_out",
    "seconds",
    "verified",
    "stamp",
)
"""Fields that a job determines of an archive that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One archive of a batch.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr")
    >>> [(row.relative, row.state) for row in batch.rows]
    [('cells.n5', 'done'), ('ocean.zarr', 'done')]
    """

    number: int
    """Counted from 1, in the order of the list."""
    source: str
    destination: str
    """In place, the source."""
    relative: str
    """The path of the source below the place that was searched."""
    request: RowRequest = field(default_factory=RowRequest, repr=False)
    """What is asked for it."""
    job: str = ""
    """Path of its job file, where `migrate` puts it; it exists once the archive was begun."""
    format: str | None = None
    """None for an archive that cannot be read."""
    state: ArchiveState = "pending"
    running: bool = False
    """Whether a process works on it."""
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    objects: int = 0
    """Objects of the source that are moved; before the archive is run, the planned number."""
    bytes_in: int = 0
    """Bytes of the source that are read; before the archive is run, the planned number."""
    bytes_out: int = 0
    seconds: float = 0.0
    """Duration of all its runs."""
    verified: str | None = None
    """"sample" or "full" if a verification has passed since the last change."""
    large: bool = False
    """Whether it is run alone, with all workers."""
    stamp: str = field(default="", repr=False, compare=False)
    """That of the job file from which all this was read."""

    @property
    def in_place(self) -> bool:
        """Whether it is migrated in place."""
        return self.request.in_place

    def begun(self) -> bool:
        """Whether it has a job."""
        return os.path.exists(self.job)

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        return json_of_fields(self, "request", "stamp")


def counts(rows: Iterable[BatchRow]) -> dict[str, int]:
    """The number of archives in each state."""
    return dict(Counter(row.state for row in rows))


def amounts(rows: Iterable[BatchRow], planned: Callable[[BatchRow], int]) -> tuple[int, int]:
    """Bytes read so far and in total; `planned` gives those of an archive that is not done."""
    done = total = 0
    for row in rows:
        if row.state in COMPLETE:
            done += row.bytes_in
            total += row.bytes_in
        elif row.state in ("pending", "incomplete"):
            done += row.bytes_in if row.state == "incomplete" else 0
            total += max(planned(row), row.bytes_in)
    return done, total


def of_job(row: BatchRow) -> BatchRow:
    """An archive as its job has it."""
    path = Path(row.job)
    before = stamp(row.job)
    try:
        with damage_told(path), Job.open(path, write=False) as job:
            return replace(row, **_of_job(job, row), stamp=before)
    except JobError as error:
        return replace(row, state="failed", problems=(error.problem,))


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
    known = [Problem.from_json(problem) for problem in header["problems"]]
    known = [problem for problem in known if problem.severity == "refusal"]
    known += [problem for refusal in refusals for problem in refusal.problems]
    failed = [problem for node in nodes if node.state == "failed" for problem in node.problems]
    state: str = job.state
    if state == "incomplete":
        left = any(node.state == "pending" and node.kind == "array" for node in nodes)
        state = "failed" if failed else "incomplete" if left or not known else "refused"
    totals = job.totals().values()
    return {
        "format": header["format"],
        "state": state,
        "running": job.state == "incomplete" and activity(job.path, last_run(job)) == "running",
        "problems": tuple(dict.fromkeys((*known, *failed))),
        "arrays": sum(node.kind == "array" for node in nodes)
        + sum(refusal.kind == "array" for refusal in refusals),
        "objects": sum(total.chunks for total in totals),
        "bytes_in": sum(total.bytes_in for total in totals),
        "bytes_out": sum(total.bytes_out for total in totals),
        "seconds": seconds_spent(job),
        "verified": job.fact("verified"),
    }


def _is_of(job: Job, row: BatchRow) -> bool:
    """Whether a job has the source of an archive, where it was or where it is now."""
    if job.header["source"] == row.source or job.fact("source_place") == row.source:
        return True
    return any(names_of(row.source) & names_of(place) for place in places_of(job))

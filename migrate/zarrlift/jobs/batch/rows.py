"""The archives of a batch, what is asked for each, and the result of a call, as frozen data."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject
from zarrstack.core.units import columns, safe

from ...core.json_fields import json_of_fields
from ...core.problems import JoinedProblems, any_refusal
from ...errors import JobError
from ...recipe.options import Request, values
from ...recipe.recipe import Recipe
from ..ledger.database import reporting_damage, stamp
from ..ledger.job_places import names_of
from ..ledger.last_run import activity, last_run, seconds_spent
from ..ledger.ledger import Job

_DEFAULTS: Final = values(Request(), Request)


@dataclass(frozen=True, kw_only=True)
class RowRequest(Request):
    """What is asked for an archive, without its places and without storage options, which may be secret."""

    recipe: Recipe = field(default_factory=Recipe)

    @cached_property
    def recipe_json(self) -> JSONObject:
        """The recipe as a job has it."""
        result: JSONObject = json.loads(json.dumps(self.recipe.to_json()))
        return result

    @cached_property
    def text(self) -> str:
        """The JSON as text."""
        return json.dumps(self.to_json())

    def to_json(self) -> JSONObject:
        """JSON for the list: what differs from the defaults."""
        given = {name: value for name, value in values(self, Request).items() if value != _DEFAULTS[name]}
        return given if self.recipe == Recipe() else {**given, "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowRequest:
        """Inverse of `to_json`."""
        recipe = Recipe.from_json(data["recipe"]) if "recipe" in data else Recipe()
        return cls(**{**data, "recipe": recipe})


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
        with reporting_damage(path), Job.open(path, write=False) as job:
            return replace(row, **_of_job(job, row), stamp=before)
    except JobError as error:
        if not row.begun():  # another process has removed the job, which was undone, to begin again
            return replace(row, state="pending", stamp="", problems=())
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
    refused = [Problem.from_json(problem) for problem in header["problems"]]
    refused = [problem for problem in refused if problem.severity == "refusal"]
    refused += [problem for refusal in refusals for problem in refusal.problems]
    failed = [problem for node in nodes if node.state == "failed" for problem in node.problems]
    state: str = job.state
    if state == "incomplete":
        left = any(node.state == "pending" and node.kind == "array" for node in nodes)
        state = "failed" if failed else "incomplete" if left or not refused else "refused"
    totals = job.totals().values()
    return {
        "format": header["format"],
        "state": state,
        "running": job.state == "incomplete" and activity(job.path, last_run(job)) == "running",
        "problems": tuple(dict.fromkeys((*refused, *failed))),
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
    names = [name for source in job.sources for name in source]
    return row.source in names or any(names_of(row.source) & names_of(name) for name in names)


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
        problems = [
            f"{row.relative}: {problem}"
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

"""The archives of a batch, as frozen data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..ledger.ledger import Job

ArchiveState: TypeAlias = Literal["pending", "incomplete", "refused", "failed", "done", "finished", "undone"]
"""`pending`: not started. `incomplete`: interrupted. `refused`: the archive, or some of its nodes, cannot be
migrated. `failed`: something went wrong with what was to be migrated.
"""
COMPLETE: Final = frozenset({"done", "finished"})
"""States in which nothing is left to migrate."""


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
    format: str | None = None
    """None for an archive that cannot be read."""
    state: ArchiveState = "pending"
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    objects: int = 0
    """Objects of the source that are moved; before the archive is run, the planned number."""
    bytes_in: int = 0
    """Bytes of the source that are read; before the archive is run, the planned number."""
    bytes_out: int = 0
    seconds: float = 0.0
    """Duration of all its runs that ended normally."""
    verified: str | None = None
    """"sample" or "full" if a verification has passed since the last change."""
    part: int | None = None
    """The part that runs it, in a batch in parts."""
    large: bool = False
    """Whether it is run alone, with all workers."""

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        data: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**data, "problems": [problem.to_json() for problem in self.problems]}


def counts(rows: Iterable[BatchRow]) -> dict[str, int]:
    """The number of archives in each state."""
    return dict(Counter(row.state for row in rows))


def amounts(planned: Iterable[BatchRow], rows: Iterable[BatchRow]) -> tuple[int, int]:
    """Bytes read so far and in total, from archives as recorded and as they are now."""
    done = total = 0
    for before, row in zip(planned, rows, strict=True):
        if row.state in COMPLETE:
            done += row.bytes_in
            total += row.bytes_in
        elif row.state in ("pending", "incomplete"):
            done += row.bytes_in if row.state == "incomplete" else 0
            total += max(before.bytes_in, row.bytes_in)
    return done, total


def of_ledger(job: Job, told: tuple[Problem, ...] | None = None) -> dict[str, Any]:
    """The fields of a row that the ledger of its archive determines.

    `told`: problems of its last run, which the ledger may not have.
    """
    header, nodes = job.header, job.nodes()
    # The whole plan takes time to read, for each of thousands of archives.
    refusals = job.plan().refusals if any(row.kind == "refusal" for row in nodes) else ()
    known = [Problem.from_json(problem) for problem in header["problems"]]
    known = [problem for problem in known if problem.severity == "refusal"]
    known += [problem for refusal in refusals for problem in refusal.problems]
    failed = [problem for row in nodes if row.state == "failed" for problem in row.problems]
    problems = (*known, *failed) if told is None else told
    state: str = job.state
    if state == "incomplete":
        others = [problem for problem in problems if problem.severity == "refusal" and problem not in known]
        left = told is None and any(row.state == "pending" and row.kind == "array" for row in nodes)
        state = "failed" if failed or others else "incomplete" if left or not known else "refused"
    totals = job.totals().values()
    return {
        "format": header["format"],
        "state": state,
        "problems": tuple(dict.fromkeys(problems)),
        "arrays": sum(row.kind == "array" for row in nodes) + sum(each.kind == "array" for each in refusals),
        "objects": sum(total.chunks for total in totals),
        "bytes_in": sum(total.bytes_in for total in totals),
        "bytes_out": sum(total.bytes_out for total in totals),
        "verified": job.fact("verified"),
    }

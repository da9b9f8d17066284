"""The result of a call on a job, as frozen data, from what the job has recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.notebook import NotebookResult
from ..core.json_fields import json_of_fields
from ..core.problems import JoinedProblems, any_refusal
from ..core.units import count_text, duration_text
from ..errors import JobError
from ..planning.plans import Plan, taken_over
from ..transfer.counts import MoveResult
from . import log_messages
from .ledger.last_run import last_run
from .ledger.ledger import Job
from .option_words import option_words
from .status import Totals, status_of

OutcomeState: TypeAlias = Literal["done", "incomplete", "nothing to do", "undone", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome(NotebookResult):
    """The result of a call on a job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> outcome.ok, outcome.state, outcome.problems
    (True, 'done', ())
    """

    job: str
    """Path or URL of the job file."""
    state: OutcomeState
    arrays_done: int = 0
    """Arrays completed at the destination, by this and earlier runs."""
    arrays_total: int = 0
    groups_done: int = 0
    chunks: int = 0
    """Source objects moved by this call; an object that is read for two blocks counts twice."""
    bytes_in: int = 0
    """Stored bytes of the source read by this call."""
    bytes_out: int = 0
    """Bytes written by this call."""
    dropped: int = 0
    """Chunks omitted as empty by this call."""
    filled: int = 0
    """N5 blocks smaller than their grid cell that this call decoded and padded."""
    retries: int = 0
    """Requests that were repeated; those that a client repeats itself, such as obstore, are not known."""
    removed: int = 0
    """Objects deleted by `finish` or `undo`, or of nodes that `update` has removed or replaced as a whole."""
    restored: int = 0
    """Legacy documents restored by `undo`."""
    seconds: float = 0.0
    """Duration of this call."""
    whole: Totals | None = None
    """All arrays before and after, and what all runs have done; None unless this call completed the job."""
    seconds_in_all: float = 0.0
    """Duration of all runs of a job that is done."""
    runs: int = 1
    """Number of runs of a job that is done."""
    options: tuple[str, ...] = ()
    """Command line arguments to open the job's places; `<name>` replaces possible secrets."""
    problems: tuple[Problem, ...] = ()
    """Refusals and failures, with their locations, and warnings of changes that a resume took over."""
    plan: Plan | None = None

    def __repr__(self) -> str:
        arrays = f"{self.arrays_done} of {self.arrays_total} arrays, {self.groups_done} groups"
        counts = f"{arrays}, {self.chunks} chunks, {len(self.problems)} problems"
        return f"<Outcome {self.state}: {counts}, job {self.job!r}>"

    @property
    def ok(self) -> bool:
        """Whether everything requested is done."""
        return self.state != "incomplete" and not any_refusal(self.problems)

    def raise_for_problems(self) -> Self:
        """This outcome if it is `ok`; otherwise JobError with every refusal and failure.

        Examples
        --------
        >>> zarrlift.migrate("ocean.zarr", "new.zarr").raise_for_problems().state
        'done'
        """
        if self.ok:
            return self
        refusals = [problem for problem in self.problems if problem.severity == "refusal"]
        counts = f"{self.arrays_done} of {self.arrays_total} arrays are done"
        raise JobError(
            JoinedProblems.of(refusals, before=f"{counts}; " if refusals else counts), key=self.job
        )

    def to_json(self) -> JSONObject:
        """JSON for machines, without the plan (see `zarrlift migrate --dry-run --json`)."""
        return json_of_fields(self, "plan")


class Figures(NamedTuple):
    """Sums of what a job has done. The notes of one that is done have them, to be read without opening it."""

    arrays: int
    objects: int
    bytes_in: int
    bytes_out: int

    @classmethod
    def of(cls, job: Job) -> Self:
        """Those of an open job."""
        totals = job.totals().values()
        return cls(
            arrays=job.done("array"),
            objects=sum(total.chunks for total in totals),
            bytes_in=sum(total.bytes_in for total in totals),
            bytes_out=sum(total.bytes_out for total in totals),
        )


def outcome_of_job(job: Job, plan: Plan, state: OutcomeState, problems: Iterable[Problem] = ()) -> Outcome:
    """The outcome with the nodes that are done; a caller adds what it has moved or removed."""
    return Outcome(
        job=str(job.path),
        state=state,
        arrays_done=job.done("array"),
        arrays_total=len(plan.arrays) + sum(refusal.kind == "array" for refusal in plan.refusals),
        groups_done=job.done("group"),
        problems=tuple(dict.fromkeys(problems)),
        options=option_words(job),
        plan=plan,
    )


def outcome_of_run(job: Job, plan: Plan, moved: MoveResult, stopped: Problem | None) -> Outcome:
    """The outcome of a run, which `stopped` ended early; a job that is complete is recorded as such."""
    rows = job.nodes(done=False)
    refused = (problem for refusal in plan.refusals for problem in refusal.problems)
    # Problems of the archive as a whole, such as a key outside of it.
    whole_archive = [problem for problem in plan.problems if problem.severity == "refusal"]
    failed = [problem for row in rows if row.state == "failed" for problem in row.problems]
    complete = stopped is None and not (whole_archive or rows)
    if complete and job.state == "incomplete":
        job.note(state="done", verified=None, figures=json.dumps(Figures.of(job)))
        job.commit()
    ended = () if stopped is None else (stopped,)
    problems = (*whole_archive, *refused, *failed, *ended, *taken_over(plan.problems))
    figures: dict[str, Any] = dict(moved.figures())
    if complete and (run := last_run(job)) is not None:
        seconds = run.seconds + max(time.time() - run.began, 0.0)
        figures |= {"seconds_in_all": seconds, "runs": run.number}
    return replace(outcome_of_job(job, plan, "done" if complete else "incomplete", problems), **figures)


def with_totals(outcome: Outcome) -> Outcome:
    """The outcome of a complete job with the sums over its arrays, which a batch does not ask for."""
    if outcome.state != "done":
        return outcome
    with Job.open(Path(outcome.job), write=False) as job:
        return replace(outcome, whole=status_of(job).totals)


def nothing_to_do(job: Job) -> Outcome:
    """The outcome of a call on a job that is complete, and would write nothing."""
    plan = job.plan()
    refused = (problem for refusal in plan.refusals for problem in refusal.problems)
    return outcome_of_job(job, plan, "nothing to do", (*refused, *taken_over(plan.problems)))


def kept(message: str, node: str | None, key: str, advice: str | None = None) -> Problem:
    """The problem for an object that others have changed."""
    return Problem(kind="changed", message=message, node=node, key=key, advice=advice)


def log_outcome(outcome: Outcome) -> None:
    """Log the outcome of a call."""
    arrays = f"{count_text(outcome.arrays_done)} of {count_text(outcome.arrays_total, 'array')}"
    text = "%s: %s in %s"
    log_messages.log.info(text, outcome.state, arrays, duration_text(outcome.seconds), extra={"event": "end"})

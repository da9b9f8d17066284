"""The outcome of a run."""

from __future__ import annotations

from typing import Any

from zarrstack.core.errors import Problem

from ..planning.plans import Plan, taken_over
from ..transfer.counts import MoveResult
from .ledger.ledger import Job
from .option_words import option_words
from .outcome import Outcome
from .run_arrays import Share


def outcome_of(
    job: Job,
    plan: Plan,
    share: Share,
    moved: MoveResult,
    seconds: float,
    stopped: Problem | None,
) -> Outcome:
    """The outcome of a run, which `stopped` ended early; a job that is complete is recorded as such."""
    rows = job.nodes(done=False)
    refused = [problem for refusal in plan.refusals for problem in refusal.problems]
    # Problems of the archive as a whole, such as a key outside of it.
    whole_archive = [problem for problem in plan.problems if problem.severity == "refusal"]
    failed = [problem for row in rows if row.state == "failed" for problem in row.problems]
    if not share.publishes:
        whole = stopped is None and not failed
    else:
        whole = stopped is None and not whole_archive and not rows
        if whole and job.state == "incomplete":
            job.note(state="done", verified=None)
            job.commit()
    ended = () if stopped is None else (stopped,)
    figures: dict[str, Any] = dict(moved.figures())
    return Outcome(
        job=str(job.path),
        state="done" if whole else "incomplete",
        arrays_done=job.done("array"),
        arrays_total=len(plan.arrays) + sum(r.kind == "array" for r in plan.refusals),
        groups_done=job.done("group"),
        options=option_words(job),
        **figures,
        seconds=seconds,
        problems=tuple(
            dict.fromkeys((*whole_archive, *refused, *failed, *ended, *taken_over(plan.problems)))
        ),
        plan=plan,
    )

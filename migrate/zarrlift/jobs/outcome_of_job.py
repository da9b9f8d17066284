"""The outcome of a call on a job, from what the job has recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from zarrstack.core.errors import Problem

from ..planning.plans import Plan, taken_over
from ..transfer.counts import MoveResult
from .ledger.ledger import Job
from .option_words import option_words
from .outcome import Outcome, OutcomeState


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


def outcome_of_run(
    job: Job, plan: Plan, moved: MoveResult, stopped: Problem | None, *, publishes: bool
) -> Outcome:
    """The outcome of a run, which `stopped` ended early; a job that is complete is recorded as such."""
    rows = job.nodes(done=False)
    refused = (problem for refusal in plan.refusals for problem in refusal.problems)
    # Problems of the archive as a whole, such as a key outside of it.
    whole_archive = [problem for problem in plan.problems if problem.severity == "refusal"]
    failed = [problem for row in rows if row.state == "failed" for problem in row.problems]
    complete = stopped is None and not (whole_archive or rows if publishes else failed)
    if complete and publishes and job.state == "incomplete":
        job.note(state="done", verified=None)
        job.commit()
    ended = () if stopped is None else (stopped,)
    problems = (*whole_archive, *refused, *failed, *ended, *taken_over(plan.problems))
    figures: dict[str, Any] = dict(moved.figures())
    return replace(outcome_of_job(job, plan, "done" if complete else "incomplete", problems), **figures)


def nothing_to_do(job: Job) -> Outcome:
    """The outcome of a call on a job that is complete, and would write nothing."""
    plan = job.plan()
    refused = (problem for refusal in plan.refusals for problem in refusal.problems)
    return outcome_of_job(job, plan, "nothing to do", (*refused, *taken_over(plan.problems)))


def kept(message: str, node: str | None, key: str, advice: str | None = None) -> Problem:
    """The problem for an object that others have changed."""
    return Problem(kind="changed", message=message, node=node, key=key, advice=advice)

"""What `finish` and `undo` report: their outcome, and what they keep."""

from __future__ import annotations

import time
from collections.abc import Iterable

from zarrstack.core.errors import Problem

from ..planning.plans import Plan
from .ledger.ledger import Job
from .option_words import option_words
from .outcome import Outcome


def kept(message: str, node: str | None, key: str, advice: str | None = None) -> Problem:
    """The problem for an object that others have changed."""
    return Problem(kind="changed", message=message, node=node, key=key, advice=advice)


def ended(
    job: Job,
    plan: Plan,
    state: str,
    started: float,
    problems: Iterable[Problem] = (),
    *,
    removed: int = 0,
    restored: int = 0,
) -> Outcome:
    """The outcome of a command that began at `started`, by the monotonic clock."""
    rows = job.nodes()
    return Outcome(
        job=str(job.path),
        state=state,  # type: ignore[arg-type]
        options=option_words(job),
        arrays_done=sum(row.kind == "array" and row.state == "done" for row in rows),
        arrays_total=len(plan.arrays),
        groups_done=sum(row.kind == "group" and row.state == "done" for row in rows),
        removed=removed,
        restored=restored,
        seconds=time.monotonic() - started,
        problems=tuple(problems),
        plan=plan,
    )

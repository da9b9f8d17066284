"""Runs a job to its end."""

from __future__ import annotations

import time
from dataclasses import replace

from zarrstack.core.errors import UsageError

from ..planning.inventories import Inventories
from ..planning.plans import Plan
from .checks.checks import Checks
from .endpoints import Endpoints
from .ledger.ledger import Job
from .outcome import Outcome, log_outcome
from .overwrite import left_aside, remove_previous_tree
from .processes.executors import RunOptions
from .progress import Progress
from .run import Run
from .run_arrays import Share


def run_job(
    job: Job,
    plan: Plan,
    ends: Endpoints,
    options: RunOptions,
    checks: Checks,
    inventories: Inventories,
    progress: Progress | None,
    share: Share | None = None,
) -> Outcome:
    """Run a created job to its end, or a share of it, and remove what it replaced."""
    started = time.monotonic()
    outcome = Run(job, plan, ends, options, checks, inventories, progress, share)()
    if outcome.state == "done":
        remove_previous_tree(job, ends.destination)
    aside = left_aside(job, ends.destination)
    problems = outcome.problems if aside is None else (*outcome.problems, aside)
    outcome = replace(outcome, seconds=time.monotonic() - started, problems=problems)
    log_outcome(outcome)
    return outcome


def refuse_unmet(plan: Plan) -> None:
    """Raise UsageError if the result would not conform to the recipe's model."""
    if plan.recipe.model is not None:
        from ..models import requirement

        requirement.refuse_unmet(plan)


def refuse_unsuitable(plan: Plan) -> None:
    """Raise UsageError if a plan has no nodes, or not those that its model requires."""
    refuse_unmet(plan)
    if not plan.arrays and not plan.groups and not plan.refusals:
        # A pattern that matches nothing, if there is one, has its own advice.
        cause = next((item for item in plan.problems if item.kind == "recipe"), None)
        raise UsageError(
            "there is nothing to migrate",
            key=plan.source,
            found=None if cause is None else cause.message,
            advice="Check --include and --exclude." if cause is None else cause.advice,
        )

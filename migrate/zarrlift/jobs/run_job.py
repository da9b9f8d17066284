"""Runs a job to its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from zarrstack.core.errors import UsageError

from ..planning.inventories import Inventories
from ..planning.plans import Plan
from .checks.checks import Checks
from .claim import Claim
from .endpoints import Endpoints
from .ledger.ledger import Job
from .outcome import Outcome, log_outcome
from .overwrite import left_aside, remove_previous_tree
from .processes.executors import RunOptions
from .progress import Progress
from .run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job open for writing, whose places are claimed and are what it says."""

    job: Job
    ends: Endpoints
    options: RunOptions
    checks: Checks
    claim: Claim
    progress: Progress | None
    crashed: bool = False
    """Whether files of its last run may not have reached the disk."""

    @property
    def loses(self) -> bool:
        """Whether a crash may have lost some of the work of a complete job."""
        return self.crashed and bool(self.job.unsynced() or self.job.nodes(done=False))

    def run_to_end(self, plan: Plan, inventories: Inventories) -> Outcome:
        """Run the job to its end, and remove what it replaced.

        What a crash may have lost is compared first.
        """
        job, ends = self.job, self.ends
        if self.crashed:
            from .resume.lost_tasks import compare_unsynced  # not needed by a first run

            compare_unsynced(job, plan, ends.source, ends.destination, inventories)
        started = time.monotonic()
        run = Run(job, plan, ends, self.options, self.checks, inventories, self.progress)
        outcome = run()
        if outcome.state == "done":
            remove_previous_tree(job, ends.destination)
        aside = left_aside(job, ends.destination)
        problems = outcome.problems if aside is None else (*outcome.problems, aside)
        outcome = replace(outcome, seconds=time.monotonic() - started, problems=problems)
        log_outcome(outcome)
        return outcome

    def end(self, outcome: Outcome) -> Outcome:
        """Release the places; the outcome with what that has shown."""
        return self.claim.end(outcome)


def refuse_unmet(plan: Plan) -> None:
    """Raise UsageError if the result would not conform to the recipe's model."""
    if plan.recipe.model is not None:
        from ..models import requirement

        requirement.refuse_unmet(plan)


def refuse_empty(plan: Plan) -> None:
    """Raise UsageError if a plan has no nodes."""
    if not plan.arrays and not plan.groups and not plan.refusals:
        # A pattern that matches nothing, if there is one, has its own advice.
        cause = next((item for item in plan.problems if item.kind == "recipe"), None)
        raise UsageError(
            "there is nothing to migrate",
            key=plan.source,
            found=None if cause is None else cause.message,
            advice="Check --include and --exclude." if cause is None else cause.advice,
        )

"""Runs a job to its end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import JobError, UsageError
from zarrstack.core.paths import join

from ..planning.inventories import Inventories
from ..planning.plans import Plan
from . import log_messages
from .checks.checks import Checks
from .endpoints import Endpoints
from .ledger.ledger import Job
from .outcome import Outcome
from .overwrite import left_aside, remove_previous_tree
from .processes.executors import RunOptions
from .progress import Progress
from .run import Run
from .run_arrays import Share

_BATCH: Final = 500
"""Number of documents read at a time."""


def run_job(
    job: Job,
    made: Plan,
    ends: Endpoints,
    options: RunOptions,
    checks: Checks,
    inventories: Inventories,
    progress: Progress | None,
    share: Share | None = None,
) -> Outcome:
    """Run a created job to its end, or a share of it, and remove what it replaced."""
    started = time.monotonic()
    outcome = Run(job, made, ends, options, checks, inventories, progress, share)()
    if outcome.state == "done":
        remove_previous_tree(job, ends.destination)
    aside = left_aside(job, ends.destination)
    problems = outcome.problems if aside is None else (*outcome.problems, aside)
    outcome = replace(outcome, seconds=time.monotonic() - started, problems=problems)
    log_messages.ended(outcome)
    return outcome


def refuse_unmet(made: Plan) -> None:
    """Raise UsageError if the result would not conform to the recipe's model."""
    if made.recipe.model is not None:
        from ..models import requirement

        requirement.refuse_unmet(made)


def refuse_unsuitable(made: Plan) -> None:
    """Raise UsageError if a plan has no nodes, or not those that its model requires."""
    refuse_unmet(made)
    if not made.arrays and not made.groups and not made.refusals:
        # A pattern that matches nothing, if there is one, has its own advice.
        cause = next((item for item in made.problems if item.kind == "recipe"), None)
        raise UsageError(
            "there is nothing to migrate",
            key=made.source,
            found=None if cause is None else cause.message,
            advice="Check --include and --exclude." if cause is None else cause.advice,
        )


def still_there(job: Job, ends: Endpoints) -> None:
    """Raise JobError if the job's output is missing at the destination, because it would not be rewritten.

    It was deleted or moved, or existed only in the memory of a process that has ended. The check reads one
    published document and tests whether there is anything at all, but not every chunk.
    """
    done = next((row.path for row in job.nodes() if row.state == "done"), None)
    written = any(total.chunks > total.dropped for total in job.totals().values())
    if done is not None:
        key = f"{done}/zarr.json" if done else "zarr.json"
        lost = ends.destination.get(key) is None
    else:
        key = ""
        lost = written and next(iter(ends.destination.list_dir("")), None) is None
    if lost:
        raise _gone(
            job,
            key,
            f"nothing at {ends.destination.url}",
            "If it was moved, say where it is: --destination (in place --source).",
        )


def require_visible(job: Job, ends: Endpoints) -> None:
    """Raise JobError unless every document that a complete job has published is there.

    Others deleted what is missing, or an update hid it that the job does not know, being an older copy.
    """
    keys = [join(row.path, "zarr.json") for row in job.nodes() if row.state == "done"]
    missing: list[str] = []
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        contents = ends.destination.get_many(batch)
        missing += [key for key, content in zip(batch, contents, strict=True) if content is None]
    if missing:
        found = f"{len(missing)} of {len(keys)} documents are missing at {ends.destination.url}"
        raise _gone(job, missing[0], found, "An update writes them again if the source changed since.")


def _gone(job: Job, key: str, found: str, advice: str) -> JobError:
    again = f"Put it back, or delete the job file {job.path} and migrate again. {advice}"
    return JobError("what this job wrote is gone", key=key or None, found=found, advice=again)

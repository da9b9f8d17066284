"""Runs a job to its end: a new one, or one that an earlier run left incomplete."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from zarrstack.core.errors import JobError, UsageError

from ..planning.inventories import Inventories
from ..planning.plans import Plan
from ..storage.writer_for import writer_for
from . import log_messages
from .checks.checks import Checks
from .checks.checks_for import checks_for
from .endpoints import Endpoints
from .ledger.find_job import refuse_undone
from .ledger.last_run import noted_run
from .ledger.ledger import Job
from .option_words import option_words
from .outcome import Outcome
from .overwrite import left_aside, remove_previous_tree, set_aside
from .processes.executors import RunOptions
from .progress import Progress, listing_shown
from .provenance import Provenance
from .resume.replan import merge
from .run import Run
from .run_arrays import Share
from .stored_inventories import earlier_inventories, keep_inventory

if TYPE_CHECKING:
    from .ledger.stored_file import JobPath


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
    outcome = Run(
        job,
        made,
        ends.source,
        ends.destination,
        options,
        spec=ends.spec(job.id, options),
        checks=checks,
        inventories=inventories,
        progress=progress,
        share=share,
    )()
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
        raise UsageError(
            "there is nothing to migrate", key=made.source, advice="Check --include and --exclude."
        )


def resume_job(
    path: JobPath,
    options: RunOptions,
    ends: Endpoints,
    progress: Progress | None,
    *,
    take_over: bool = False,
) -> Outcome:
    """Check what an earlier run left, or parts of the job, and run the job to its end."""
    from .parts.ledgers import merge_ended, sweep_parts
    from .resume.relocate import follow
    from .resume.unsynced_files import compare_unsynced, find_torn_documents, may_be_lost

    # Start the checks first: a forked process must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(path, fsync=options.fsync) as job,
    ):
        refuse_undone(job)
        follow(job, ends)
        ends = replace(ends, provenance=Provenance.from_text(job.fact("provenance")))
        if job.fact("parts") is not None:
            merge_ended(job, ends.place, take_over=take_over)
        crashed = ends.local_destination is not None and may_be_lost(job)
        if crashed and job.state == "incomplete":
            find_torn_documents(job, ends.destination)
        still_there(job, ends)
        if job.state != "incomplete":
            remove_previous_tree(job, ends.destination)
            writer_for(ends.destination, job.id, fsync=False).close()
            return nothing_to_do(job)
        if options.digest:
            job.note(digest="yes")
        options = replace(options, digest=job.fact("digest") is not None)
        old = job.plan()  # first, so that nothing is changed if the file cannot be read
        with noted_run(job):
            job.note(**ends.options)
            set_aside(job, ends.destination)
            with closing(earlier_inventories(job, old, ends.source)) as inventories:
                with listing_shown(progress, lambda: inventories.listed):
                    fresh, _ = replace(ends, reading=old.reading).plan(
                        old.recipe, old.format, elsewhere=options.on_other_machines, inventories=inventories
                    )
                refuse_unmet(fresh)
                merged = merge(job, old, fresh, inventories, ends.destination)
                keep_inventory(job.path, inventories)
                if crashed:
                    compare_unsynced(job, merged, ends.source, ends.destination, inventories)
                outcome = run_job(job, merged, ends, options, checks, inventories, progress)
            if outcome.state == "done":
                sweep_parts(job, ends.place)
            return outcome


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
        raise JobError(
            "what this job wrote is gone",
            key=key or None,
            found=f"nothing at {ends.destination.url}",
            advice=f"Put it back, or delete the job file {job.path} and migrate again. If it was moved, say"
            " where it is: --destination (in place --source).",
        )


def nothing_to_do(job: Job) -> Outcome:
    """The outcome of a call on a job that is already complete."""
    rows = job.nodes()
    made = job.plan()
    return Outcome(
        job=str(job.path),
        state="nothing to do",
        arrays_done=sum(row.kind == "array" and row.state == "done" for row in rows),
        arrays_total=len(made.arrays) + sum(refusal.kind == "array" for refusal in made.refusals),
        groups_done=sum(row.kind == "group" and row.state == "done" for row in rows),
        problems=tuple(problem for refusal in made.refusals for problem in refusal.problems),
        options=option_words(job),
        plan=made,
    )

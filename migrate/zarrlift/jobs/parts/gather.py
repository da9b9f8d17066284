"""Collects the work of the parts of a job, and publishes what is complete."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

from ...executors.choice import ExecutorChoice
from ...recipe.options import VerifyLevel
from ...storage.listed_versions import Timestamp
from ..branch import refuse_parts
from ..checks.checks_for import checks_for
from ..claim import claimed
from ..endpoints import Options
from ..ledger.find_job import find_job, refuse_undone
from ..ledger.last_run import noted_run
from ..ledger.ledger import Job
from ..observed import PathText
from ..outcome import Outcome
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..resume.relocate import ends_of, follow
from ..resume.unsynced_files import compare_unsynced, find_torn_documents, may_be_lost
from ..run_job import nothing_to_do, require_visible, run_job, still_there
from ..stored_inventories import planned_inventories
from .ledgers import merge, sweep_parts
from .migrate_part import divided, require_parts
from .shares import GatherShare


def gather(
    target: str | os.PathLike[str],
    *,
    job: str | os.PathLike[str] | None = None,
    job_storage_options: Options = None,
    workers: int | None = None,
    executor: ExecutorChoice | None = None,
    dask_address: str | None = None,
    verify: VerifyLevel = "sample",
    fsync: bool = False,
    take_over: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    progress: ProgressChoice = None,
    log: PathText | None = None,
    metrics: PathText | None = None,
) -> Outcome:
    """Record what the parts of a job have done, and verify and publish every array that is complete.

    May be called at any time, also while parts are running, and again. `target` is the job file, the
    destination or the source; the other arguments are those of `resume`. The outcome is "incomplete" as long
    as tasks are missing; `parts_left` contains the parts to run again.

    Raises
    ------
    UsageError
        If the job has no parts.
    JobError
        If another process has it.

    Examples
    --------
    >>> plan = zarrlift.plan_parts("ocean.zarr", "new.zarr", job="parts.db", parts=2)
    >>> outcome = zarrlift.migrate_part("parts.db", 0)
    >>> zarrlift.gather("parts.db").parts_left
    ((1, 2),)
    >>> outcome = zarrlift.migrate_part("parts.db", 1)
    >>> zarrlift.gather("parts.db").state
    'done'
    """
    path = find_job(target, job, job_storage_options)
    options = RunOptions(
        workers=workers,
        executor=executor,
        dask_address=dask_address,
        verify=verify,
        fsync=fsync,
    )
    with Job.open(path, write=False) as opened:
        require_parts(opened)
        ends = ends_of(
            opened, target, storage_options=storage_options, dest_storage_options=dest_storage_options
        )
    refuse_parts(ends.destination)
    ends.check_reach(options)
    with (
        ends.observed(progress, log=log, metrics=metrics) as run,
        claimed(ends.place, path, take_over=take_over) as claim,
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(path, fsync=options.fsync) as current,
    ):
        refuse_undone(current)
        follow(current, ends)
        still_there(current, ends)
        if current.state != "incomplete":
            require_visible(current, ends)
            sweep_parts(current, ends.place)
            return run.end(claim.end(nothing_to_do(current)))
        options = replace(options, digest=current.fact("digest") is not None)
        division, made = divided(current)
        crashed = ends.local_destination is not None and may_be_lost(current)
        with noted_run(current), closing(planned_inventories(path, current.id)) as inventories:
            # Nothing that is published was checked against the source since the plan was made.
            inventories.began = Timestamp.of_no_time()
            problems = merge(current, ends.place, forget=True)
            if crashed:
                find_torn_documents(current, ends.destination)
                compare_unsynced(current, made, ends.source, ends.destination, inventories)
            share = GatherShare()
            outcome = run_job(current, made, ends, options, checks, inventories, run.progress, share)
        if outcome.state == "done":
            sweep_parts(current, ends.place)
        else:
            missing = share.missing(division)
            outcome = replace(
                outcome,
                problems=(*outcome.problems, *problems),
                parts_left=tuple(missing.items()),
                second_pass=share.second_pass(),
            )
        return run.end(claim.end(outcome))

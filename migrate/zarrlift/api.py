"""The public functions inspect, plan, migrate, resume and status."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from zarrstack.core.errors import JobError, UsageError

from .archive.nodes import Archive
from .archive.read_options import ReadOptions
from .conventions.apply import look_for
from .formats.describe import describe
from .jobs import log_messages
from .jobs.checks.checks import Checks
from .jobs.checks.checks_for import checks_for
from .jobs.claim import claimed
from .jobs.endpoints import Ends, Options, refuse_existing
from .jobs.ledger.find_job import find_job, job_path, refuse_half_undone
from .jobs.ledger.last_run import noted_run
from .jobs.ledger.ledger import Job
from .jobs.option_words import option_words
from .jobs.outcome import Outcome
from .jobs.overwrite import left_aside, set_aside, sweep_aside
from .jobs.processes import process_tuning
from .jobs.processes.executors import RunOptions
from .jobs.progress import Progress
from .jobs.resume.replan import merge
from .jobs.run import Run
from .planning.planner import Inventories
from .planning.plans import Plan
from .recipe.options import Axes, Format, Link, VerifyLevel
from .recipe.recipe import Recipe
from .storage.open_storage import Place, open_storage
from .storage.writer_for import writer_for

if TYPE_CHECKING:
    from .jobs.status import Status

PathText: TypeAlias = str | os.PathLike[str]


def inspect(
    url: Place,
    *,
    storage_options: Options = None,
    format: Format | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
) -> Archive:
    """Describe an archive: every node, its storage layout, and every problem.

    Reads metadata, and the small arrays of references that conventions need. `axes` is the axis order of N5
    arrays ("reversed" by default); `allow_fallback` reads arrays of the 2022 draft by their `fallback` data
    type. Documents larger than `max_document_size` bytes (64 MiB by default) are refused. Raises UsageError
    if there is no archive, StorageError if it cannot be read.
    """
    reading = ReadOptions.asked(
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
    )
    storage = open_storage(url, storage_options=storage_options, follow_links=follow_links)
    return look_for(describe(storage, format=format, options=reading), storage)


def plan(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: Recipe | None = None,
    in_place: bool = False,
    format: Format | None = None,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
) -> Plan:
    """Return the complete plan of `migrate` without writing anything.

    The arguments are those of `migrate`. Without `destination`, the plan is for a copy to an unspecified
    place.
    """
    reading = ReadOptions.asked(
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
        in_place=in_place,
    )
    ends = Ends.open(
        source,
        destination,
        in_place,
        storage_options,
        dest_storage_options,
        follow_links,
        source_through,
        dest_through,
    )
    return ends.plan(recipe or Recipe(), format, reading)[0]


def migrate(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: Recipe | None = None,
    in_place: bool = False,
    format: Format | None = None,
    job: PathText | None = None,
    workers: int | None = None,
    processes: bool = False,
    executor: Executor | None = None,
    verify: VerifyLevel = "sample",
    fsync: bool = False,
    link: Link = "auto",
    overwrite: bool = False,
    take_over: bool = False,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Migrate an archive to Zarr v3, to a new place or in place.

    A second call with the same arguments resumes an interrupted job; it changes nothing if the job is
    complete. Refused and failed nodes are listed in the outcome's `problems`.

    - `source`, `destination`: a path, a URL supported by fsspec (with `storage_options` and
      `dest_storage_options`), a zarr store or a store path.
    - `recipe`: the requested changes. `job`: the path of the job file.
    - `workers`: their number; they are threads, or with `processes` processes, or those of an `executor`
      that can access both places.
    - `verify`: how much is compared before an array is published.
    - `fsync`: protect the result against power failures.
    - `link="hard"`: share unchanged chunks with the source.
    - `overwrite`: replace an existing destination after the new one is complete.
    - `take_over`: write to a destination that another host has claimed.
    - `follow_links`: follow links to targets outside the archive.
    - `source_through`, `dest_through`: storage transformers on either side, such as
      "retry,throttle:50MB/s" (see `zarrstack.base.registry.parse_stack`); stored in the job.
    - `axes`: the axis order of N5 arrays; by default "reversed" for copies, "kept" in place.
    - `allow_fallback`: read arrays of the 2022 draft by their `fallback` data type.
    - `max_document_size`: the maximum size of a metadata document in bytes, 64 MiB by default.

    Raises UsageError (no archive, destination exists), JobError (another job), Interrupted (Ctrl-C).
    """
    if destination is None and not in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    if in_place and overwrite:
        # The existing job may contain documents that `finish` removed.
        raise UsageError("in place there is nothing to overwrite", advice="Undo the earlier job first.")
    process_tuning.keep_modules()
    recipe = recipe or Recipe()
    reading = ReadOptions.asked(
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
        in_place=in_place,
    )
    ends = Ends.open(
        source,
        destination,
        in_place,
        storage_options,
        dest_storage_options,
        follow_links,
        source_through,
        dest_through,
    )
    path = job_path(ends.local_destination, ends.destination.url, None if job is None else Path(job))
    options = RunOptions(
        workers=workers,
        processes=processes,
        executor=executor,
        verify=verify,
        fsync=fsync,
        hard_links=link == "hard",
    )
    ends.check_reach(options)
    with claimed(ends.place, path, take_over=take_over) as claim:
        if os.path.lexists(path):
            from .jobs.resume.earlier_job import (
                continues_earlier,  # not loaded by a first run
            )

            if continues_earlier(path, ends, recipe, reading, overwrite=overwrite):
                return claim.end(_resume(path, options, ends, progress))
        if not in_place:
            refuse_existing(ends.destination, overwrite=overwrite)
        facts = {"link": link, "source_place": ends.lasting_place}
        if overwrite and not in_place:
            facts["overwrite"] = "yes"
        facts.update(ends.layers | ends.options)
        with checks_for(ends.source, ends.destination, verify) as checks:
            made, inventories = ends.plan(recipe, format, reading)
            _refuse_unmet(made)
            if not made.arrays and not made.groups and not made.refusals:
                raise UsageError(
                    "there is nothing to migrate",
                    key=ends.source.url,
                    advice="Check --include and --exclude.",
                )
            new = Job.create(path, made, id=claim.new_id, facts=facts, fsync=fsync)
            with new as created, noted_run(created):
                set_aside(created, ends.destination)
                return claim.end(_run(created, made, ends, options, checks, inventories, progress))


def resume(
    target: PathText,
    *,
    job: PathText | None = None,
    workers: int | None = None,
    processes: bool = False,
    executor: Executor | None = None,
    verify: VerifyLevel | None = None,
    fsync: bool = False,
    source: Place | None = None,
    destination: Place | None = None,
    take_over: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    progress: Progress | None = None,
) -> Outcome:
    """Resume an interrupted job.

    `target` is the job file, the destination or the source. Nodes that were refused or failed are tried
    again. `source` and `destination` are the current places if they have moved, or stores without a URL; the
    job stores them. For in-place jobs, use `source`. `take_over` is as for `migrate`. Raises JobError if
    there is no such job.
    """
    process_tuning.keep_modules()
    path = find_job(target, job)
    options = RunOptions(
        workers=workers, processes=processes, executor=executor, verify=verify or "sample", fsync=fsync
    )
    with Job.open(path, write=False) as opened:
        if source is None and destination is None:
            from .jobs.resume.relocate import refuse_other_place

            refuse_other_place(target, opened)
        header = json.loads(opened.fact("plan") or "{}")
        lasting = opened.fact("source_place") or header["source"]
        layers = (opened.fact("source_through"), opened.fact("dest_through"))
        link: Link = "hard" if opened.fact("link") == "hard" else "auto"
    ends = Ends.open(
        lasting if source is None else source,
        header["destination"] if destination is None and not header["in_place"] else destination,
        header["in_place"],
        storage_options,
        dest_storage_options,
        ReadOptions.from_json(header).follow_links,
        *layers,
    )
    ends.check_reach(options)
    with claimed(ends.place, path, take_over=take_over) as claim:
        return claim.end(_resume(path, replace(options, hard_links=link == "hard"), ends, progress))


def status(target: PathText, *, job: PathText | None = None) -> Status:
    """Return the status of a job; a running job is not affected."""
    from .jobs.current_status import current_status

    with Job.open(find_job(target, job), write=False) as opened:
        return current_status(opened)


def _refuse_unmet(made: Plan) -> None:
    """Raise UsageError if the result would not conform to the recipe's model."""
    if made.recipe.model is not None:
        from .models.requirement import refuse_unmet

        refuse_unmet(made)


def _resume(path: Path, options: RunOptions, ends: Ends, progress: Progress | None) -> Outcome:
    from .jobs.resume.relocate import follow
    from .jobs.resume.unsynced_files import compare_unsynced, find_torn_documents, may_be_lost

    # Start the checks first: a forked process must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(path, fsync=options.fsync) as job,
    ):
        if job.state == "undone":
            raise JobError("this job was undone", key=str(path), advice="Start a new one with migrate.")
        refuse_half_undone(job)
        follow(job, ends)
        crashed = ends.local_destination is not None and may_be_lost(job)
        if crashed and job.state == "incomplete":
            find_torn_documents(job, ends.destination)
        _still_there(job, ends)
        if job.state != "incomplete":
            sweep_aside(job, ends.destination)
            writer_for(ends.destination, job.id, fsync=False).close()
            return _nothing_to_do(job)
        old = job.plan()  # first, so that nothing is changed if the file cannot be read
        with noted_run(job):
            job.note(**ends.options)
            set_aside(job, ends.destination)
            fresh, inventories = ends.plan(old.recipe, old.format, old.reading)
            _refuse_unmet(fresh)
            merged = merge(job, old, fresh, inventories, ends.destination)
            if crashed:
                compare_unsynced(job, merged, ends.source, ends.destination, inventories)
            return _run(job, merged, ends, options, checks, inventories, progress)


def _still_there(job: Job, ends: Ends) -> None:
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


def _nothing_to_do(job: Job) -> Outcome:
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


def _run(
    job: Job,
    made: Plan,
    ends: Ends,
    options: RunOptions,
    checks: Checks,
    inventories: Inventories,
    progress: Progress | None,
) -> Outcome:
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
    )()
    if outcome.state == "done":
        sweep_aside(job, ends.destination)
    aside = left_aside(job, ends.destination)
    problems = outcome.problems if aside is None else (*outcome.problems, aside)
    outcome = replace(outcome, seconds=time.monotonic() - started, problems=problems)
    log_messages.ended(outcome)
    return outcome

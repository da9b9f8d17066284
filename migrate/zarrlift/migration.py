"""The public functions: inspect, plan, migrate, resume, status. Verify, finish and undo are next door."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from zarrstack.core.errors import JobError, UsageError

from . import process
from .archive import Archive, Format
from .conventions import look_for
from .ends import Ends, Options, refuse_existing
from .executors import RunOptions
from .formats import describe, read_alike
from .job import Job
from .job_files import find_job, job_path, refuse_half_undone
from .merging import merge
from .outcome import NodeStatus, Outcome, Status
from .places import Place, open_storage
from .planning import Inventories
from .plans import Plan
from .progress import Progress
from .read_options import Axes, ReadOptions
from .recipe import Recipe
from .replacing import left_aside, set_aside, settle_aside, sweep_aside
from .run import Run
from .verifying.checks import Checks, VerifyLevel, checks_for

Link: TypeAlias = Literal["auto", "hard"]
PathText: TypeAlias = str | os.PathLike[str]


def inspect(
    url: Place,
    *,
    storage_options: Options = None,
    format: Format | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
) -> Archive:
    """Describe an archive: every node, how it lies in storage, and every problem.

    Reads metadata, and the small arrays of references by which conventions go. `axes` ("reversed"
    unless it is given) is the axis order of N5 arrays; `allow_fallback` lets arrays of the 2022 draft
    be read by their `fallback` data type. Raises UsageError if there is no archive, StorageError.
    """
    reading = ReadOptions.asked(follow_links=follow_links, axes=axes, allow_fallback=allow_fallback)
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
) -> Plan:
    """What `migrate` would do, in full; nothing is written.

    The arguments are those of `migrate`. `destination` may be left out: the plan is then for a copy
    to a place yet to be named.
    """
    reading = ReadOptions.asked(
        follow_links=follow_links, axes=axes, allow_fallback=allow_fallback, in_place=in_place
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
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Migrate an archive to Zarr v3, to a new place or in place.

    A second call with the same arguments goes on where the first one stopped, and changes
    nothing once all is done. Refused and failed nodes are in the outcome's `problems`.

    Places are paths, URLs that fsspec knows (`storage_options` and `dest_storage_options` go to it),
    zarr stores or store paths. `recipe` says what is to change, `job` where the job file lies. As many
    `workers` as are named do the work: threads, `processes`, or those of an `executor` that reaches
    both ends. `verify` is how much is compared before an array appears. `fsync` guards against a power
    failure, `link="hard"` shares unchanged chunks with the source, `overwrite` replaces a destination
    once the new one is whole, `follow_links` follows links that leave the archive.
    `source_through` and `dest_through` put storage transformers under either side, such as
    "retry,throttle:50MB/s" (see `zarrstack.registry.parse_stack`); the job remembers them.
    `axes` is the axis order of N5 arrays: "reversed" for copies, "kept" in place unless it is
    given. `allow_fallback` lets arrays of the 2022 draft be read by their `fallback` data type.
    Raises UsageError, JobError (destination exists, other job), Interrupted (Ctrl-C).
    """
    if destination is None and not in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    if in_place and overwrite:
        # The job on record may hold documents that `finish` removed.
        raise UsageError("in place there is nothing to overwrite", advice="Undo the earlier job first.")
    process.keep_modules()
    recipe = recipe or Recipe()
    reading = ReadOptions.asked(
        follow_links=follow_links, axes=axes, allow_fallback=allow_fallback, in_place=in_place
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
    path = job_path(ends.local_destination, ends.name, None if job is None else Path(job))
    options = RunOptions(
        workers=workers,
        processes=processes,
        executor=executor,
        verify=verify,
        fsync=fsync,
        hard_links=link == "hard",
    )
    ends.check_reach(options)
    if os.path.lexists(path):
        earlier = _earlier(path, ends, recipe, reading, overwrite=overwrite)
        if earlier:
            return _resume(path, options, ends, progress)
    if not in_place and not overwrite:
        refuse_existing(ends.destination)
    facts = {"link": link, "source_place": ends.lasting_place}
    if overwrite and not in_place:
        facts["overwrite"] = "yes"
    facts.update(ends.layers)
    with checks_for(ends.source, ends.destination, verify) as checks:
        made, inventories = ends.plan(recipe, format, reading)
        _refuse_unmet(made)
        if not made.arrays and not made.groups and not made.refusals:
            raise UsageError(
                "there is nothing to migrate", key=ends.source.url, advice="Check --include and --exclude."
            )
        with Job.create(path, made, facts=facts, fsync=fsync) as created:
            set_aside(created, ends.destination)
            return _run(created, made, ends, options, checks, inventories, progress)


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
    storage_options: Options = None,
    dest_storage_options: Options = None,
    progress: Progress | None = None,
) -> Outcome:
    """Go on with a job, from whatever moment it was stopped at.

    `target` is the job file, the destination or the source. Nodes that were refused or
    failed are tried again. `source` and `destination` replace the job's own places, for
    stores that have no URL. Raises JobError if there is no such job.
    """
    process.keep_modules()
    path = find_job(target, job)
    options = RunOptions(
        workers=workers, processes=processes, executor=executor, verify=verify or "sample", fsync=fsync
    )
    with Job.open(path, write=False) as opened:
        header = json.loads(opened.fact("plan") or "{}")
        lasting = opened.fact("source_place") or header["source"]
        layers = (opened.fact("source_through"), opened.fact("dest_through"))
        link: Link = "hard" if opened.fact("link") == "hard" else "auto"
    ends = Ends.open(
        lasting if source is None else source,
        None if header["in_place"] else (header["destination"] if destination is None else destination),
        header["in_place"],
        storage_options,
        dest_storage_options,
        ReadOptions.from_json(header).follow_links,
        *layers,
    )
    ends.check_reach(options)
    return _resume(path, replace(options, hard_links=link == "hard"), ends, progress)


def status(target: PathText, *, job: PathText | None = None) -> Status:
    """How far a job is. Disturbs nothing, not even a running job."""
    with Job.open(find_job(target, job), write=False) as opened:
        made = opened.plan()
        totals = opened.totals()
        plans = {array.path: array for array in made.arrays}
        refusals = {refusal.path: refusal for refusal in made.refusals}
        nodes = []
        for row in opened.nodes():
            array = plans.get(row.path) if row.kind == "array" else None
            done = totals.get(row.id)
            problems = refusals[row.path].problems if row.kind == "refusal" else row.problems
            blame = [problem for problem in problems if problem.severity == "refusal"]
            nodes.append(
                NodeStatus(
                    path=row.path,
                    kind=row.kind,
                    route=array.route.name if array else None,
                    state=row.state,
                    tasks_done=done.tasks if done else 0,
                    tasks_total=array.tasks if array else 0,
                    bytes_done=done.bytes_in if done else 0,
                    bytes_total=array.bytes_in if array else 0,
                    error=str(blame[0]) if blame else None,
                )
            )
        return Status(
            job=str(opened.path),
            source=made.source,
            destination=made.destination,
            state=opened.state,
            in_place=made.in_place,
            nodes=tuple(nodes),
            created=float(opened.fact("created") or 0),
            updated=float(opened.fact("updated") or 0),
            verified=opened.fact("verified"),
        )


def _refuse_unmet(made: Plan) -> None:
    """UsageError where the result would not be what the recipe's model says."""
    if made.recipe.model is not None:
        from .models.requirement import refuse_unmet

        refuse_unmet(made)


def _earlier(path: Path, ends: Ends, recipe: Recipe, reading: ReadOptions, *, overwrite: bool) -> bool:
    """Whether the job file that is there is this very migration; JobError if it is another one.

    A job that was undone, or whose result is to be overwritten, makes room.
    """
    with Job.open(path) as job:
        made = job.plan()
        state = job.state
        same_places = (
            made.source == ends.source.url
            and made.destination == ends.destination.url
            and made.in_place == ends.in_place
        )
        same = same_places and made.recipe == recipe and read_alike(made.format, made.reading, reading)
        if overwrite and not (same and state == "incomplete"):
            settle_aside(job, ends.destination)
    if state == "undone" or (overwrite and (state != "incomplete" or not same)):
        path.unlink()
        return False
    if not same:
        raise JobError(
            "a different job is on record for this destination",
            key=str(path),
            found=_kind_of_job(made, same_places=same_places),
            advice=f"{'Undo it' if ends.in_place else 'Undo it, use --overwrite'}, or give another --job.",
        )
    return True


def _kind_of_job(made: Plan, *, same_places: bool) -> str:
    if same_places:
        return "a job of the same source and destination with other options"
    return f"{made.source} in place" if made.in_place else f"{made.source} to {made.destination}"


def _resume(path: Path, options: RunOptions, ends: Ends, progress: Progress | None) -> Outcome:
    # The checks come first: a process apart must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(path, fsync=options.fsync) as job,
    ):
        if job.state == "undone":
            raise JobError("this job was undone", key=str(path), advice="Start a new one with migrate.")
        refuse_half_undone(job)
        _still_there(job, ends)
        if job.state != "incomplete":
            sweep_aside(job, ends.destination)
            return _nothing_to_do(job)
        set_aside(job, ends.destination)
        old = job.plan()
        fresh, inventories = ends.plan(old.recipe, old.format, old.reading)
        _refuse_unmet(fresh)
        merged = merge(job, old, fresh, inventories, ends.destination)
        return _run(job, merged, ends, options, checks, inventories, progress)


def _still_there(job: Job, ends: Ends) -> None:
    """JobError where the destination has lost what the job wrote: nobody would write it again.

    Somebody deleted or moved it, or it lay in the memory of a process that has ended. Looked at
    are one published document and whether there is anything at all, not every chunk.
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
            advice=f"Put it back, or delete the job file {job.path} and migrate again.",
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
    return replace(outcome, seconds=time.monotonic() - started, problems=problems)

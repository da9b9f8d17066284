"""The public functions inspect, plan, migrate and resume."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TypeAlias

from zarrstack.core.errors import UsageError

from .archive.nodes import Archive
from .archive.read_options import ReadOptions
from .executors.choice import ExecutorChoice
from .formats.describe import describe
from .jobs.archive_run import ArchiveRequest, migrate_archive
from .jobs.claim import claimed
from .jobs.endpoints import Options
from .jobs.ledger.find_job import find_job, job_path
from .jobs.ledger.ledger import Job
from .jobs.observed import observed
from .jobs.outcome import Outcome
from .jobs.processes.executors import RunOptions
from .jobs.progress import ProgressChoice
from .planning.inspection import inspected
from .planning.plans import Plan
from .recipe.options import Axes, Format, Link, VerifyLevel
from .recipe.recipe import Recipe
from .storage.open_storage import Place, open_storage

PathText: TypeAlias = str | os.PathLike[str]


def inspect(
    source: Place,
    *,
    storage_options: Options = None,
    format: Format | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
) -> Archive:
    """Describe an archive: every node, its storage layout, and every problem.

    Reads metadata, the small arrays of references that conventions need, and, except in a store, the names
    of chunks: what a migration without options would refuse is refused here too.

    - `source`: a path, a URL supported by fsspec (with `storage_options`), a zarr store or a store path.
    - `format`: that of the archive, if several are present; by default it is detected.
    - `follow_links`: follow links to targets outside the archive.
    - `axes`: the axis order of N5 arrays, "reversed" by default.
    - `allow_fallback`: read arrays of the 2022 draft by their `fallback` data type.
    - `max_document_size`: the maximum size of a metadata document in bytes, 64 MiB by default.

    Raises
    ------
    UsageError
        If there is no archive.
    StorageError
        If it cannot be read.

    Examples
    --------
    >>> archive = zarrlift.inspect("ocean.zarr")
    >>> archive.format
    'zarr2'
    >>> [node.path for node in archive.nodes]
    ['', 'lat', 'lon', 'sst', 'time']
    """
    reading = ReadOptions.asked(
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
    )
    storage = open_storage(source, storage_options=storage_options, follow_links=follow_links)
    return inspected(describe(storage, format=format, options=reading), storage, reading)


def plan(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: Recipe | None = None,
    in_place: bool = False,
    virtual: bool = False,
    format: Format | None = None,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
    inventory: PathText | None = None,
    provenance: bool = False,
    ro_crate: bool = False,
) -> Plan:
    """Return the complete plan of `migrate` without writing anything.

    The arguments are those of `migrate`. Without `destination`, the plan is for a copy to an unspecified
    place.

    Raises
    ------
    UsageError, StorageError
        As `migrate`.

    Examples
    --------
    >>> plan = zarrlift.plan("ocean.zarr", "new.zarr")
    >>> [(array.path, array.route.name) for array in plan.arrays]
    [('lat', 'relink'), ('lon', 'relink'), ('sst', 'recode'), ('time', 'relink')]
    """
    return ArchiveRequest.asked(
        source,
        destination,
        recipe=recipe,
        in_place=in_place,
        virtual=virtual,
        format=format,
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
        inventory=inventory,
        source_through=source_through,
        dest_through=dest_through,
        provenance=provenance,
        ro_crate=ro_crate,
        storage_options=storage_options,
        dest_storage_options=dest_storage_options,
    ).plan()


def migrate(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: Recipe | None = None,
    in_place: bool = False,
    virtual: bool = False,
    format: Format | None = None,
    job: PathText | None = None,
    job_storage_options: Options = None,
    workers: int | None = None,
    executor: ExecutorChoice | None = None,
    dask_address: str | None = None,
    verify: VerifyLevel = "sample",
    digest: bool = False,
    fsync: bool = False,
    link: Link = "auto",
    overwrite: bool = False,
    take_over: bool = False,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
    inventory: PathText | None = None,
    provenance: bool = False,
    ro_crate: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    progress: ProgressChoice = None,
    log: PathText | None = None,
    metrics: PathText | None = None,
) -> Outcome:
    """Migrate an archive to Zarr v3, to a new place or in place.

    A second call with the same arguments resumes an interrupted job; it changes nothing if the job is
    complete. Refused and failed nodes are listed in the outcome's `problems`.

    - `source`, `destination`: a path, a URL supported by fsspec (with `storage_options` and
      `dest_storage_options`), a zarr store or a store path.
    - `recipe`: the requested changes.
    - `format`: that of the source, if several are present; by default it is detected.
    - `in_place`: add metadata of Zarr v3 to the source, without a destination, and move no chunk.
    - `virtual`: copy no chunk; the destination, an Icechunk repository or references of kerchunk, refers to
      those of the source (see docs/howto/virtual.md).
    - `job`: the path of the job file, or a URL of a store that keeps it, with `job_storage_options`.
    - `executor`: what runs the work: "threads", "processes", "dask" (with `dask_address`, that of a
      scheduler), a name registered by another package, a `concurrent.futures.Executor`, or a client or
      cluster of Dask. Workers elsewhere must be able to access both places. `processes=True` means
      "processes".
    - `workers`: their number; by default that of the executor, or what suits the work and the machine.
    - `verify`: how much is compared before an array is published.
    - `digest`: store a digest of the values of each array in the job (see `digest`).
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
    - `inventory`: an S3 Inventory (CSV, or its `manifest.json`), which replaces the listing of the source.
    - `provenance`: write an attribute `zarrlift` at the root: the source, its format, version, time and
      options.
    - `ro_crate`: write `ro-crate-metadata.json` at the root.
    - `progress`: a display; True for a bar on a terminal and in a notebook, False for none. By default, only
      notebooks have one.
    - `log`: append what happens to this file, as JSON lines.
    - `metrics`: write figures to this file at intervals, in Prometheus' text format.

    Raises
    ------
    UsageError
        If there is no archive, the destination exists, or the arguments are invalid; nothing is
        changed.
    JobError
        If another job has the destination, or the job does not match its files.
    StorageError
        If a place cannot be read or written as a whole.
    Interrupted
        After Ctrl-C; the job can be resumed.

    Examples
    --------
    >>> recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:3"))
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr", recipe=recipe, workers=2)
    >>> outcome.ok, outcome.arrays_done
    (True, 4)
    """
    if destination is None and not in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    asked = ArchiveRequest.asked(
        source,
        destination,
        recipe=recipe,
        in_place=in_place,
        virtual=virtual,
        format=format,
        link=link,
        overwrite=overwrite,
        follow_links=follow_links,
        axes=axes,
        allow_fallback=allow_fallback,
        max_document_size=max_document_size,
        inventory=inventory,
        source_through=source_through,
        dest_through=dest_through,
        provenance=provenance,
        ro_crate=ro_crate,
        storage_options=storage_options,
        dest_storage_options=dest_storage_options,
    )
    options = RunOptions(
        workers=workers,
        executor=executor,
        dask_address=dask_address,
        verify=verify,
        digest=digest,
        fsync=fsync,
        hard_links=link == "hard",
    )
    if virtual:
        from .jobs.virtual.run import migrate_virtual, refuse_options

        job_options = {"job": job, "take_over": take_over, "digest": digest, "fsync": fsync}
        workers_options = {"workers": workers, "executor": executor}
        refuse_options({**job_options, **workers_options, "dask_address": dask_address})
        with observed(progress, str(source), str(destination), log=log, metrics=metrics) as run:
            return run.end(migrate_virtual(asked.virtual_request(), verify, run.progress))
    ends = asked.open()
    path = job_path(ends.beside, ends.destination.url, job, job_storage_options)
    with ends.observed(progress, log=log, metrics=metrics) as run:
        return run.end(migrate_archive(asked, ends, path, options, run.progress, take_over=take_over))


def resume(
    target: PathText,
    *,
    job: PathText | None = None,
    job_storage_options: Options = None,
    workers: int | None = None,
    executor: ExecutorChoice | None = None,
    dask_address: str | None = None,
    verify: VerifyLevel | None = None,
    fsync: bool = False,
    source: Place | None = None,
    destination: Place | None = None,
    take_over: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    progress: ProgressChoice = None,
    log: PathText | None = None,
    metrics: PathText | None = None,
) -> Outcome:
    """Resume an interrupted job.

    `target` is the job file (a path, or a URL with `job_storage_options`), the destination or the source.
    Nodes that were refused or failed are tried again. `source` and `destination` are the current places if
    they have moved, or stores without a URL; the job stores them. For in-place jobs, use `source`.
    `verify` is by default the level of the earlier runs, the lowest if they differ. The other arguments are
    those of `migrate`.

    Raises
    ------
    UsageError
        If a place has moved and the new one is not given.
    JobError
        If there is no such job, or it runs elsewhere.
    Interrupted
        After Ctrl-C; the job can be resumed.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").state
    'done'
    >>> zarrlift.resume("new.zarr").state
    'nothing to do'
    """
    # Not loaded by a first run.
    from .jobs.ledger.last_run import level_before
    from .jobs.resume.relocate import ends_of
    from .jobs.resume.resume_job import resume_job

    path = find_job(target, job, job_storage_options)
    options = RunOptions(
        workers=workers,
        executor=executor,
        dask_address=dask_address,
        fsync=fsync,
    )
    with Job.open(path, write=False) as opened:
        ends = ends_of(
            opened,
            target,
            source=source,
            destination=destination,
            storage_options=storage_options,
            dest_storage_options=dest_storage_options,
        )
        level, hard_links = verify or level_before(opened), opened.fact("link") == "hard"
    ends.check_reach(options)
    options = replace(options, verify=level, hard_links=hard_links)
    with (
        ends.observed(progress, log=log, metrics=metrics) as run,
        claimed(ends.place, path, take_over=take_over) as claim,
    ):
        return run.end(claim.end(resume_job(path, options, ends, run.progress, take_over=take_over)))

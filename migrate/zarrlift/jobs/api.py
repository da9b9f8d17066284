"""The public functions inspect, plan, migrate and resume."""

from __future__ import annotations

from typing import Literal, Unpack, overload

from zarrstack.core.errors import UsageError

from ..archive.nodes import Archive
from ..formats.describe import describe, open_source
from ..planning.planner import inspected
from ..planning.plans import Plan
from ..recipe.asked import RecipeForm
from ..recipe.keywords import (
    DescribingKeywords,
    JobPlaceKeywords,
    MovedKeywords,
    PlacesKeywords,
    RecipeKeywords,
    RequestKeywords,
    RunningKeywords,
    SourceOptionsKeywords,
    WatchingKeywords,
)
from ..recipe.options import (
    JobPlace,
    Moved,
    PathText,
    Places,
    Running,
    VerifyLevel,
    Watching,
)
from ..recipe.signatures import explicit, given, with_recipe
from ..storage.open_storage import Place
from .archive_run import ArchiveRequest, migrate_archive
from .executors import RunOptions
from .ledger.job_places import job_path
from .outcome import Outcome, with_totals
from .progress import ProgressChoice
from .progress_display import observed
from .refusals import refuse_several


class _Describing(DescribingKeywords, SourceOptionsKeywords):
    """The options of `inspect`."""


class _Planning(RecipeKeywords, RequestKeywords, PlacesKeywords):
    """The options of `plan`."""


class _Migrating(_Planning, JobPlaceKeywords, RunningKeywords, WatchingKeywords):
    """The options of `migrate`."""


class _Resuming(JobPlaceKeywords, PlacesKeywords, MovedKeywords, RunningKeywords, WatchingKeywords):
    """The options of `resume`."""


@explicit
def inspect(source: Place, node: str | None = None, **options: Unpack[_Describing]) -> Archive:
    """Describe an archive: every node, its storage layout, and every problem.

    Reads metadata, the small arrays of references that conventions need, and, except in a store, the names
    of chunks: what a migration without options would refuse is refused here too.

    - `source`: a path, a URL supported by fsspec (with `storage_options`), a zarr store or a store path.
    - `node`: the path of a group or an array, to describe only it and what is below.
    - `format`: that of the archive, if several are present; by default it is detected.
    - `follow_links`: follow links to targets outside the archive.
    - `axes`: the axis order of N5 arrays, "reversed" by default.
    - `allow_fallback`: read arrays of the 2022 draft by their `fallback` data type.
    - `max_document_size`: the maximum size of a metadata document in bytes, 64 MiB by default.

    Raises
    ------
    UsageError
        If there is no archive, no such node, or a folder of several archives.
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
    storage, reading, format = open_source(source, options)  # noqa: A001 - as in other functions
    archive = describe(storage, format=format, options=reading)
    refuse_several(archive, storage, format, "DST")
    archive = inspected(archive, storage, reading)
    return archive if node is None else archive.part(node)


@explicit
def plan(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: RecipeForm | None = None,
    **options: Unpack[_Planning],
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
    named = {"source": source, "destination": destination, **with_recipe(options, recipe)}
    migration, job = given(named, ArchiveRequest, JobPlace)
    return migration.preview(job)


@overload
def migrate(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: RecipeForm | None = None,
    dry_run: Literal[False] = False,
    progress: ProgressChoice = None,
    **options: Unpack[_Migrating],
) -> Outcome: ...
@overload
def migrate(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: RecipeForm | None = None,
    dry_run: Literal[True],
    progress: ProgressChoice = None,
    **options: Unpack[_Migrating],
) -> Plan: ...
@explicit
def migrate(
    source: Place,
    destination: Place | None = None,
    *,
    recipe: RecipeForm | None = None,
    dry_run: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[_Migrating],
) -> Outcome | Plan:
    """Migrate an archive to Zarr v3, to a new place or in place.

    A second call with the same arguments resumes an interrupted job; it changes nothing if the job is
    complete. Refused and failed nodes are listed in the outcome's `problems`.

    - `source`, `destination`: a path, a URL supported by fsspec (with `storage_options` and
      `dest_storage_options`), a zarr store or a store path.
    - `recipe`: the requested changes, as a `Recipe`, the path of a TOML file, or a dict with its content.
    - the fields of `ArrayRecipe`, such as `shards="auto"`: changes of all arrays. They replace the general
      part of `recipe`; its sections have priority.
    - `include`, `exclude`, `consolidate`, `memory`, `model`: those of `Recipe`, such as
      `include="images/**"`.
    - `dry_run`: return the plan, as `plan` does, and write nothing.
    - `format`: that of the source, if several are present; by default it is detected.
    - `in_place`: add metadata of Zarr v3 to the source, without a destination, and move no chunk.
    - `job`: the path of the job file.
    - `executor`: what runs the work: "threads", "processes", "dask" or "dask=ADDRESS" (that of a scheduler),
      "mpi", a `concurrent.futures.Executor`, or a client or cluster of Dask. Workers elsewhere must be able
      to access both places.
    - `workers`: their number; by default that of the executor, or what suits the work and the machine.
    - `bwlimit`: the bytes per second at each end, such as "50MB/s", of all workers together.
      In place, nothing is limited.
    - `verify`: how much is compared before an array is published.
    - `fsync`: protect the result against power failures.
    - `no_list`: do not list what was written before an array is published, and when a job continues or ends
      (for 10^9 objects).
    - `link="hard"`: share unchanged chunks with the source.
    - `overwrite`: replace an existing destination after the new one is complete.
    - `take_over`: write to a destination that another host has claimed.
    - `follow_links`: follow links to targets outside the archive.
    - `source_through`, `dest_through`: storage transformers on either side, such as
      "retry,throttle:50MB/s" (from the migration down); stored in the job.
    - `axes`: the axis order of N5 arrays; by default "reversed" for copies, "kept" in place.
    - `allow_fallback`: read arrays of the 2022 draft by their `fallback` data type.
    - `max_document_size`: the maximum size of a metadata document in bytes, 64 MiB by default.
    - `progress`: a function that gets each event, such as `print`; True for a bar on a terminal and in a
      notebook, False for none. By default, only notebooks have one.
    - `log`: append what happens to this file, as JSON lines.

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
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr", codecs="zstd:3", workers=2)
    >>> outcome.ok, outcome.arrays_done
    (True, 4)
    """
    named = {"source": source, "destination": destination, **with_recipe(options, recipe)}
    migration, job, running, watching = given(named, ArchiveRequest, JobPlace, Running, Watching)
    if dry_run:
        return migration.preview(job)
    if destination is None and not migration.in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    run_options = RunOptions.of(running, migration)
    ends = migration.open()
    path = job_path(ends.beside, ends.destination.url, job)
    ends = ends.limited(run_options.limit)
    with observed(progress, ends.source.url, ends.destination.url, watching) as display:
        return with_totals(migrate_archive(migration, ends, path, run_options, display))


@explicit
def resume(
    target: PathText,
    *,
    verify: VerifyLevel | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Resuming],
) -> Outcome:
    """Resume an interrupted job.

    `target` is the job file or the destination (in place, the source).
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
    from .opened_job import claim_and_open, unclaimed_job
    from .resume.resume_job import resume_job

    job, places, moved, running, watching = given(options, JobPlace, Places, Moved, Running, Watching)
    unclaimed = unclaimed_job(
        target, "resume", job, places, RunOptions.of(running), moved=moved, verify=verify
    )
    with claim_and_open(unclaimed, progress, watching) as open_job:
        return with_totals(open_job.end(resume_job(open_job)))

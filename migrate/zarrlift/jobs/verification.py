"""`verify`: compares a legacy archive with its Zarr v3 counterpart."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

from zarrstack.core.errors import Problem, UsageError

from ..errors import JobError, WorkerError
from ..recipe.format_names import require_installed
from ..recipe.keywords import DescribingKeywords, ExecutingKeywords, JobPlaceKeywords, PlacesKeywords
from ..recipe.options import Describing, Executing, Format, JobPlace, Places, Reading, SourceOptions, values
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit, given
from ..storage.local.files import WRITTEN
from ..storage.open_storage import Place, open_storage
from ..storage.reference_options import with_references
from ..storage.transformer_stack import with_layers
from ..transfer.worker import WorkerSpec
from ..verification.archives import verify_archives
from ..verification.listed_objects import Listings
from ..verification.report import VerificationReport
from .digests import Digests
from .endpoints import reachable
from .ledger.find_job import find_job
from .ledger.job_record import JobRecord
from .ledger.last_run import refuse_running
from .ledger.ledger import Job
from .observed import ticking
from .processes.executors import RunOptions, engine_for, with_share
from .progress import ProgressChoice
from .provenance import as_expected, digest_of
from .settled_places import settled

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory
    from .ledger.stored_file import JobPath


class _Verifying(DescribingKeywords, PlacesKeywords, JobPlaceKeywords, ExecutingKeywords):
    """The options of `verify`."""


@explicit
def verify(
    source: Place,
    destination: Place | None = None,
    *,
    full: bool = False,
    recipe: Recipe | None = None,
    digests: Digests | None = None,
    no_list: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[_Verifying],
) -> VerificationReport:
    """Compare a legacy archive with its Zarr v3 counterpart; see `verify_archives`.

    Source and destination may be the same place (in-place work). Without a destination, `source` is a job, or
    a place that belongs to a job, and the job provides the other arguments. Without `full`, the first and the
    last chunk, an edge chunk, a missing one and some random chunks of every array are compared.

    `executor`, `dask_address`, `workers` and `bwlimit` are those of `migrate`; the executor is for `full`,
    which otherwise uses threads.

    Only two facts are taken from a job: its recipe (the requested changes), unless `recipe` is given, and how
    the source was read, unless `format` and `axes` are given. A pass is recorded in the job; `finish`
    requires it.

    The objects of both sides are listed first: missing, empty, surplus and wrongly sized ones are
    differences, whatever is sampled. With `no_list`, for 10^9 objects, only samples are compared, of the
    chunks that a job has listed, if there is one.

    With `digests`, the values of `source`, any archive, are compared with digests instead of another archive:
    those in a file that `zarrlift digest` wrote, or those of a job. Only arrays are compared.

    Raises
    ------
    UsageError
        If there is no archive, or for arguments that exclude each other.
    JobError
        If there is no such job, or `finish` has removed what it compares with.
    StorageError
        If a listing fails. Differences are in the report.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> report = zarrlift.verify("ocean.zarr", "new.zarr", full=True)
    >>> report.ok, report.arrays
    (True, 4)
    """
    from ..formats.describe import describe
    from ..formats.detect import detect

    described, places, job, executing = given(options, Describing, Places, JobPlace, Executing)
    if digests is not None:
        if destination is not None or full or recipe is not None or job.job is not None or no_list:
            raise UsageError(
                "digests are compared with one archive",
                expected="the archive and --digest alone, without a job, a recipe, --full or --no-list",
            )
        from ..verification.digest_report import compare_digests
        from .digests import digest as digest_of
        from .digests import load_digests

        expected = load_digests(digests, job.job_storage_options)
        opening = values(places, SourceOptions)
        actual = digest_of(source, progress=progress, **values(described, Describing), **opening)
        return compare_digests(actual, expected)
    if no_list and full:
        raise UsageError("a full comparison lists all objects", found="--no-list", expected="--full alone")
    run_options = RunOptions.of(executing)
    known_job = _known_job(source, destination, job)
    if destination is None:
        if known_job is None:
            raise UsageError("a destination is needed", advice="Name one, or give a job.")
        source = known_job.source
        destination = known_job.source if known_job.in_place else known_job.destination
    follow_links, storage_options = described.follow_links, places.storage_options
    dest_storage_options = places.dest_storage_options
    first = open_storage(source, storage_options=storage_options, follow_links=follow_links)
    if known_job is not None and known_job.in_place and dest_storage_options is None:
        dest_storage_options = storage_options
    if isinstance(source, str | os.PathLike) and isinstance(destination, str | os.PathLike):
        # The user has named the source, so a result that consists of references may lead there.
        dest_storage_options = with_references(dest_storage_options, [os.fspath(source)], storage_options)
    second = open_storage(destination, storage_options=dest_storage_options, follow_links=follow_links)
    second.document_bound = WRITTEN
    if known_job is not None and (known_job.source, known_job.destination) != (first.url, second.url):
        known_job = None
    in_place = first.url == second.url
    if known_job is not None and known_job.finished and in_place:
        raise JobError(
            "finish has removed the legacy metadata, so there is nothing to compare with",
            key=str(known_job.path),
            advice="The job file has a copy, which undo restores.",
        )
    format, reading = described.format, described.settled(in_place=in_place)  # noqa: A001
    if known_job is not None:
        recipe = known_job.recipe if recipe is None else recipe
        if format is None:
            require_installed(known_job.format, known_job.package)
            format = known_job.format  # noqa: A001
        words = {name: word for name, word in options.items() if name in values(reading, Reading)}
        reading = replace(known_job.reading, **words)  # type: ignore[arg-type]
    if in_place and format is None:
        format = detect(first, beside_v3=True)  # noqa: A001 - both formats have documents at every node
        if format == "zarr3":
            raise UsageError(
                "this is Zarr v3 already, and there is nothing to compare it with",
                found=first.url,
                expected="a destination",
            )
    if known_job is not None:
        first = with_layers(first, known_job.record.source_through)
        second = with_layers(second, known_job.record.dest_through)
    limit = run_options.limit
    if limit is not None and not in_place:
        first, second = limit.over(first, "source"), limit.over(second, "destination", written=False)
    archive = describe(first, format=format, options=reading)
    compare = partial(
        verify_archives,
        archive,
        first,
        second,
        full=full,
        recipe=recipe,
        threads=executing.workers,
        root_attributes=partial(
            as_expected,
            has_job=known_job is not None,
            provenance=None if known_job is None else known_job.record.provenance,
            format=archive.format,
            digest=None if known_job is None else known_job.digest,
        ),
    )
    spec: WorkerSpec | None = None
    if full and run_options.elsewhere:
        spec = WorkerSpec(
            job_id="",
            run="",
            source=reachable(source, first),
            destination=reachable(destination, second),
            source_options=json.dumps(dict(storage_options or {})),
            destination_options=json.dumps(dict(dest_storage_options or {})),
            source_through=None if known_job is None else known_job.record.source_through,
            destination_through=None if known_job is None else known_job.record.dest_through,
        )
    with (
        _listings(
            known_job, follow_links=reading.follow_links, lists=not no_list, changes=not full and not in_place
        ) as listings,
        ticking(progress) as display,
    ):
        compare = partial(compare, progress=display, listings=listings)
        if spec is None:
            report = compare()
        else:
            report = _on_engine(compare, run_options, spec, None if recipe is None else recipe.memory)
    if known_job is not None:
        with Job.open(known_job.path) as opened:
            refuse_running(opened)
            # A sample does not downgrade an earlier full verification; a difference withdraws it.
            level = "full" if full or opened.fact("verified") == "full" else "sample"
            opened.note(verified=level if report.ok else None)
            opened.commit()
    return report


@contextmanager
def _listings(
    known_job: _KnownJob | None, *, follow_links: bool, lists: bool, changes: bool
) -> Iterator[Listings]:
    """How the objects of both sides are listed, and what a known job says of them.

    With `changes`, objects of the source that changed since the job was planned are differences, in arrays
    with a stored inventory: a full comparison finds those with other values itself.
    """
    from .stored_inventories import change_since, has_inventory, last_inventories

    plain = Listings(lists=lists, made=known_job is not None, follow_links=follow_links)
    if known_job is None or (lists and not (changes and has_inventory(known_job.path))):
        yield plain
        return
    with (
        Job.open(known_job.path, write=False) as opened,
        closing(last_inventories(opened)) as inventories,
    ):
        arrays = {array.path: array for array in opened.plan().arrays}

        def planned(path: str) -> Inventory | None:
            return inventories.stored(arrays[path]) if path in arrays else None

        def change(path: str, now: Inventory) -> Iterator[Problem]:
            before = planned(path)
            return iter(()) if before is None else change_since(arrays[path], before, now)

        yield replace(plain, planned=planned, changes=change)


def _on_engine(
    compare: Callable[..., VerificationReport], options: RunOptions, spec: WorkerSpec, memory: int | None
) -> VerificationReport:
    """Compare on the workers of an executor; WorkerError if they are gone."""
    from ..verification.elsewhere import Elsewhere

    engine = engine_for((), options, options.budget(memory), local=True)
    try:
        spec = with_share(spec, options.limit, engine)
        return compare(elsewhere=Elsewhere(engine, spec, options.budget_of_one(memory, engine)))
    except BrokenExecutor as error:
        raise WorkerError("a worker died", found=str(error), advice="Try fewer workers.") from error
    finally:
        engine.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownJob:
    """The facts of a job that a comparison uses."""

    path: JobPath
    source: str
    destination: str
    in_place: bool
    format: Format
    package: str | None
    """The package that reads the format; None for zarrlift itself."""
    reading: Reading
    finished: bool
    recipe: Recipe
    record: JobRecord
    digest: str | None
    """The digest of all arrays, if the job has digests."""


def _known_job(source: Place, destination: Place | None, job: JobPlace) -> _KnownJob | None:
    """The job that made a destination, if found; JobError only if one was requested."""
    target = source if destination is None else destination
    required = destination is None or job.job is not None
    if not isinstance(target, (str, os.PathLike)):
        if job.job is None:
            return None
        target = ""
    try:
        path = find_job(target, job)
        with Job.open(path, write=False) as opened:
            plan = opened.header
            places = settled(opened, writes=False)
            destination_url = places.source_url if plan["in_place"] else places.destination
            plan.update(source=places.source_url, destination=destination_url)
            record = opened.record
            finished = opened.state == "finished"
            digest = (
                digest_of(opened.digests.documents()) if record.provenance and opened.fact("digest") else None
            )
        return _KnownJob(
            path=path,
            finished=finished,
            recipe=Recipe.from_json(plan["recipe"]),
            record=record,
            digest=digest,
            reading=Reading.from_json(plan),
            package=plan.get("package"),
            **{name: plan[name] for name in ("source", "destination", "in_place", "format")},
        )
    except (JobError, KeyError):
        if required:
            raise
        return None

"""`verify`: compares an archive with its Zarr v3 counterpart, or any two archives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ..errors import JobError, WorkerError
from ..recipe.keywords import DescribingKeywords, ExecutingKeywords, JobPlaceKeywords, PlacesKeywords
from ..recipe.options import (
    Describing,
    Executing,
    JobPlace,
    Places,
    Reading,
    StorageOptions,
    require_readable,
    values,
)
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit, given
from ..storage.base import Storage
from ..storage.local.files import WRITTEN
from ..storage.open_storage import Place, open_storage
from ..storage.transformer_stack import with_layers
from ..transfer.worker import WorkerSpec, give_up, sent
from ..verification.archives import VerificationReport, verify_archives
from ..verification.listed_objects import Listings
from .endpoints import access_of
from .ledger.find_job import find_job
from .ledger.ledger import Job
from .ledger.rows import JobRecord
from .observed import ticking
from .processes.executors import RunOptions, engine_for, out_of_reach, with_share
from .progress import ProgressChoice
from .resume.relocate import refuse_elsewhere, source_of

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory
    from ..recipe.options import Format
    from ..storage.base import Storage
    from ..views.legacy import LegacyView


class _Verifying(DescribingKeywords, PlacesKeywords, JobPlaceKeywords, ExecutingKeywords):
    """The options of `verify`."""


@explicit
def verify(
    source: Place,
    destination: Place | None = None,
    *,
    full: bool = False,
    recipe: Recipe | None = None,
    no_list: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[_Verifying],
) -> VerificationReport:
    """Compare an archive with its Zarr v3 counterpart, or with any other archive; see `verify_archives`.

    A second archive that is not Zarr v3 is read through `open`: attributes and fill values of both count as
    they would be in Zarr v3. `format` names the format of the first archive, or of both: "zarr2,n5".

    Source and destination may be the same place (in-place work). Without a destination, `source` is a job, or
    a place that belongs to a job, and the job provides the other arguments. Without `full`, the first and the
    last chunk, an edge chunk, a missing one and some random chunks of every array are compared.

    `executor`, `workers` and `bwlimit` are those of `migrate`; the executor is for `full`,
    which otherwise uses threads.

    Only two facts are taken from a job: its recipe (the requested changes), unless `recipe` is given, and how
    the source was read, unless `format` and `axes` are given. A pass is recorded in the job; `finish`
    requires it.

    The objects of both sides are listed first: missing, empty, surplus and wrongly sized ones are
    differences, whatever is sampled. With `no_list`, for 10^9 objects, only samples are compared, of the
    chunks that a job has listed, if there is one.

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
    if no_list and full:
        raise UsageError("a full comparison lists all objects", found="--no-list", expected="--full alone")
    run_options = RunOptions.of(executing)
    known_job = _known_job(source, destination, job, places.storage_options)
    if destination is None:
        if known_job is None:
            raise UsageError("a destination is needed", advice="Name one, or give a job.")
        source, destination = known_job.source, known_job.destination
    follow_links, storage_options = described.follow_links, places.storage_options
    dest_storage_options = places.dest_storage_options
    first = open_storage(source, storage_options=storage_options, follow_links=follow_links)
    if known_job is not None and known_job.in_place and dest_storage_options is None:
        dest_storage_options = storage_options
    second = open_storage(destination, storage_options=dest_storage_options, follow_links=follow_links)
    if known_job is not None and not known_job.is_of(first, second):
        known_job = None
    name, _, second_name = (described.format or "").partition(",")
    format, second_url = name or None, second.url  # noqa: A001
    view: LegacyView | None = None
    if second_name or (known_job is None and first.url != second.url):
        view = _view_unless_v3(second, second_name or None, described.settled())
    if view is not None:
        viewed = open_storage(view)
        viewed.can_list, viewed.holds_consolidated = second.can_list, False  # other formats need not have it
        destination, second, known_job = view, viewed, None
    second.document_bound = WRITTEN
    in_place = first.url == second.url
    if known_job is not None and known_job.job.state == "finished" and in_place:
        raise JobError(
            "finish has removed the legacy metadata, so there is nothing to compare with",
            key=str(known_job.job.path),
            advice="The job file has a copy, which undo restores.",
        )
    reading = described.settled(in_place=in_place)
    if known_job is not None:
        recipe = known_job.recipe if recipe is None else recipe
        if format is None:
            format = known_job.job.header["format"]  # noqa: A001
            require_readable(format)
        words = {name: word for name, word in options.items() if name in values(reading, Reading)}
        reading = replace(Reading.from_json(known_job.job.header), **words)  # type: ignore[arg-type]
    if in_place and format is None:
        format = detect(first, beside_v3=True)  # noqa: A001 - both formats have documents at every node
        if format == "zarr3":
            raise UsageError(
                "this is Zarr v3 already, and there is nothing to compare it with",
                found=first.url,
                expected="a destination",
            )
    record = JobRecord() if known_job is None else known_job.job.record
    first, second = with_layers(first, record.source_through), with_layers(second, record.dest_through)
    limit = run_options.limit
    if limit is not None and not in_place:
        first, second = limit.over(first, "source"), limit.over(second, "destination")
    archive = describe(first, format=format, options=reading)
    compare = partial(
        verify_archives,
        archive,
        first,
        second,
        full=full,
        recipe=recipe,
        threads=executing.workers,
    )
    spec: WorkerSpec | None = None
    if full and run_options.elsewhere:
        options_of_both, layers = (
            (storage_options, dest_storage_options),
            (record.source_through, record.dest_through),
        )
        spec = access_of((source, destination), (first, second), options_of_both, layers)
        if view is not None:
            message = "other processes cannot read the second archive, which is not Zarr v3"
            raise UsageError(message, found=second_url, advice="Leave out --executor.")
        if spec is None:
            raise out_of_reach()
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
    if view is not None:
        report = _with_refusals(replace(report, destination=second_url), view)
    return report if known_job is None else _recorded(report, known_job.job.path, full=full)


def _view_unless_v3(second: Storage, format: Format | None, reading: Reading) -> LegacyView | None:
    """The second archive as `open` presents it, if it has another format than Zarr v3.

    Where nothing is detected, `verify_archives` says what is missing.
    """
    from ..formats.detect import detect

    if format is None:
        try:
            format = "zarr3" if second.get("zarr.json") is not None else detect(second)  # noqa: A001
        except ZarrstackError:
            return None
    if format == "zarr3":
        return None
    from ..views.legacy import view_of

    return view_of(second, format=format, reading=reading)


def _with_refusals(report: VerificationReport, view: LegacyView) -> VerificationReport:
    """The report with the nodes that a view leaves out, and that the first archive does not have."""
    reported = dict(report.differences)
    return report.with_problems(
        [
            problem.at(node=refusal.path)
            for refusal in view.plan.refusals
            if refusal.path not in reported
            for problem in refusal.problems
            if problem.severity == "refusal"
        ]
    )


def _recorded(report: VerificationReport, path: Path, *, full: bool) -> VerificationReport:
    """Record the result in the job; a note in the report if the job cannot be written."""
    try:
        with Job.open(path) as opened:
            refuse_elsewhere(opened)
            # A sample does not downgrade an earlier full verification; a difference withdraws it.
            level = "full" if full or opened.fact("verified") == "full" else "sample"
            opened.note(verified=level if report.ok else None)
            opened.commit()
    except JobError as error:
        message = f"the result is not recorded in the job: {error.problem.message}"
        note = replace(error.problem, message=message, severity="note")
        return replace(report, problems=(*report.problems, note))
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

    plain = Listings(lists=lists, by_job=known_job is not None, follow_links=follow_links)
    if known_job is None or (lists and not (changes and has_inventory(known_job.job.path))):
        yield plain
        return
    with (
        Job.open(known_job.job.path, write=False) as opened,
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
        spec = with_share(replace(spec, run=os.urandom(4).hex()), options.limit, engine)
        return compare(elsewhere=Elsewhere(engine, spec, options.budget_of_one(memory, engine)))
    except KeyboardInterrupt:
        engine.give_up(give_up, *sent(spec.run))
        raise
    except BrokenExecutor as error:
        raise WorkerError("a worker died", found=str(error), advice="Try fewer workers.") from error
    finally:
        engine.close()


class _KnownJob(NamedTuple):
    """The job that made a result."""

    job: Job
    """Closed: what it says of itself as a whole is known."""
    source: str
    destination: str
    in_place: bool
    recipe: Recipe

    def is_of(self, source: Storage, destination: Storage) -> bool:
        """Whether these are the places of the job."""
        sources = (self.source, *(each.url for each in self.job.sources))
        return source.url in sources and destination.url == self.destination


def _known_job(
    source: Place, destination: Place | None, job: JobPlace, options: StorageOptions
) -> _KnownJob | None:
    """The job that made a destination, if found; JobError only if one was requested."""
    target = source if destination is None else destination
    required = destination is None or job.job is not None
    if not isinstance(target, (str, os.PathLike)):
        if job.job is None:
            return None
        target = ""
    try:
        with Job.open(find_job(target, job), write=False) as opened:
            header = opened.header
            recipe = Recipe.from_json(header["recipe"])
            found = source_of(opened, options).url if destination is None else header["source"]
        return _KnownJob(opened, found, header["destination"], header["in_place"], recipe)
    except (JobError, KeyError):
        if required:
            raise
        return None

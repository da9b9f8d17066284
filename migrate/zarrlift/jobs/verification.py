"""`verify`: compares an archive with its Zarr v3 counterpart, or any two archives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ..errors import JobError, WorkerError
from ..recipe.asked import RecipeForm, asked_recipe
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
from .executors import RunOptions, engine_for, out_of_reach, with_share
from .ledger.job_places import find_job
from .ledger.ledger import Job
from .ledger.schema import JobRecord
from .progress import ProgressChoice
from .progress_display import ticking
from .resume.relocate import refuse_elsewhere, source_of

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory
    from ..archive.nodes import Archive
    from ..recipe.options import Format
    from ..storage.bandwidth import Bandwidth
    from ..storage.base import Storage
    from ..verification.elsewhere import Elsewhere
    from ..views.legacy import LegacyView


class _Verifying(DescribingKeywords, PlacesKeywords, JobPlaceKeywords, ExecutingKeywords):
    """The options of `verify`."""


@explicit
def verify(
    source: Place,
    destination: Place | None = None,
    *,
    full: bool = False,
    recipe: RecipeForm | None = None,
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
    described, places, job, executing = given(options, Describing, Places, JobPlace, Executing)
    if no_list and full:
        raise UsageError("a full comparison lists all objects", found="--no-list", expected="--full alone")
    run_options = RunOptions.of(executing)
    known_job, recorded_source = _known_job(source, destination, job, places.storage_options)
    if destination is None:
        if known_job is None:
            raise UsageError("a destination is needed", advice="Name one, or give a job.")
        source, destination = recorded_source, known_job.header["destination"]
    stated = {name: word for name, word in options.items() if name in values(described, Reading)}
    pair = _Pair.open((source, destination), known_job, described, stated, places, run_options.limit)
    spec = pair.access() if full and run_options.elsewhere else None
    if recipe is None and pair.known_job is not None:
        asked = Recipe.from_json(pair.known_job.header["recipe"])
    else:
        asked = asked_recipe(recipe, {})
    with (
        _listings(pair, lists=not no_list, full=full) as listings,
        ticking(progress) as display,
        _elsewhere(spec, run_options, asked.memory) as elsewhere,
    ):
        report = verify_archives(
            pair.archive,
            pair.first,
            pair.second,
            full=full,
            recipe=asked,
            progress=display,
            threads=executing.workers,
            elsewhere=elsewhere,
            listings=listings,
        )
    if pair.view is not None:
        report = _with_refusals(replace(report, destination=pair.second_url), pair.view)
    return report if pair.known_job is None else _recorded(report, pair.known_job.path, full=full)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Both archives, opened for a comparison."""

    places: tuple[Place, Place]
    options: tuple[StorageOptions, StorageOptions]
    known_job: Job | None
    """The job that made the second one, if it is known: closed, of which the notes are read."""
    view: LegacyView | None
    """The second one, if it is not Zarr v3."""
    second_url: str
    first: Storage
    second: Storage
    reading: Reading
    archive: Archive
    """The first one, described."""

    @classmethod
    def open(
        cls,
        places: tuple[Place, Place],
        known_job: Job | None,
        described: Describing,
        stated: Mapping[str, Any],
        opening: Places,
        limit: Bandwidth | None,
    ) -> Self:
        """Open both places and describe the first; `stated` are the options of reading that were given."""
        from ..formats.describe import describe

        options = opening.storage_options, opening.dest_storage_options
        first = open_storage(places[0], storage_options=options[0], follow_links=described.follow_links)
        if known_job is not None and known_job.header["in_place"] and options[1] is None:
            options = options[0], options[0]
        second = open_storage(places[1], storage_options=options[1], follow_links=described.follow_links)
        url = second.url
        if known_job is not None and not _is_of(known_job, first, second):
            known_job = None
        name, _, second_name = (described.format or "").partition(",")
        view: LegacyView | None = None
        if second_name or (known_job is None and first.url != url):
            view = _view_unless_v3(second, second_name or None, described.settled())
        if view is not None:
            viewed = open_storage(view)
            viewed.can_list = second.can_list
            viewed.holds_consolidated = False  # other formats need not have it
            second, known_job = viewed, None
        second.document_limit = WRITTEN
        in_place = first.url == second.url  # not so of two formats at one place
        reading, format = described.settled(in_place=in_place), name or None  # noqa: A001
        record = JobRecord()
        if known_job is not None:
            record = known_job.record
            reading, format = _reading_of(known_job, stated, format, in_place=in_place)  # noqa: A001
        if in_place and format is None:
            format = _legacy_format(first)  # noqa: A001
        first, second = with_layers(first, record.source_through), with_layers(second, record.dest_through)
        if limit is not None and not in_place:
            first, second = limit.over(first, "source"), limit.over(second, "destination")
        return cls(
            places=places,
            options=options,
            known_job=known_job,
            view=view,
            second_url=url,
            first=first,
            second=second,
            reading=reading,
            archive=describe(first, format=format, options=reading),
        )

    @property
    def in_place(self) -> bool:
        """Whether both are the same place."""
        return self.first.url == self.second.url

    def access(self) -> WorkerSpec:
        """How workers elsewhere open both; UsageError if they cannot."""
        if self.view is not None:
            message = "other processes cannot read the second archive, which is not Zarr v3"
            raise UsageError(message, found=self.second_url, advice="Leave out --executor.")
        record = JobRecord() if self.known_job is None else self.known_job.record
        layers = record.source_through, record.dest_through
        spec = access_of(self.places, (self.first, self.second), self.options, layers)
        if spec is None:
            raise out_of_reach()
        return spec


def _legacy_format(archive: Storage) -> Format:
    """The format of an archive that may have documents of Zarr v3 at every node, too; UsageError without."""
    from ..formats.detect import detect

    format = detect(archive, beside_v3=True)  # noqa: A001
    if format == "zarr3":
        raise UsageError(
            "this is Zarr v3 already, and there is nothing to compare it with",
            found=archive.url,
            expected="a destination",
        )
    return format


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
def _listings(pair: _Pair, *, lists: bool, full: bool) -> Iterator[Listings]:
    """How the objects of both sides are listed, and what a known job says of them.

    Objects of the source that changed since a job was planned are differences, in arrays with a stored
    inventory, unless the comparison is full: that finds those with other values itself.
    """
    from .source_check import change_since, has_inventory, last_inventories

    known_job, changes = pair.known_job, not full and not pair.in_place
    plain = Listings(lists=lists, by_job=known_job is not None, follow_links=pair.reading.follow_links)
    if known_job is None or (lists and not (changes and has_inventory(known_job.path))):
        yield plain
        return
    with Job.open(known_job.path, write=False) as opened, closing(last_inventories(opened)) as inventories:
        arrays = {array.path: array for array in opened.plan().arrays}

        def planned(path: str) -> Inventory | None:
            return inventories.stored(arrays[path]) if path in arrays else None

        def change(path: str, now: Inventory) -> Iterator[Problem]:
            before = planned(path)
            return iter(()) if before is None else change_since(arrays[path], before, now)

        yield replace(plain, planned=planned, changes=change)


@contextmanager
def _elsewhere(
    spec: WorkerSpec | None, options: RunOptions, memory: int | None
) -> Iterator[Elsewhere | None]:
    """The workers of an executor that compare, if any; WorkerError if they are gone."""
    if spec is None:
        yield None
        return
    from ..verification.elsewhere import Elsewhere

    engine = engine_for((), options, options.budget(memory), local=True)
    try:
        spec = with_share(replace(spec, run=os.urandom(4).hex()), options.limit, engine)
        yield Elsewhere(engine, spec, options.budget_of_one(memory, engine))
    except KeyboardInterrupt:
        engine.give_up(give_up, *sent(spec.run))
        raise
    except BrokenExecutor as error:
        raise WorkerError("a worker died", found=str(error), advice="Try fewer workers.") from error
    finally:
        engine.close()


def _known_job(
    source: Place, destination: Place | None, job: JobPlace, options: StorageOptions
) -> tuple[Job | None, Place]:
    """The job that made a destination, closed, and its source; JobError only if one was requested."""
    target = source if destination is None else destination
    required = destination is None or job.job is not None
    if not isinstance(target, (str, os.PathLike)):
        if job.job is None:
            return None, source
        target = ""
    try:
        with Job.open(find_job(target, job), write=False) as opened:
            Recipe.from_json(opened.header["recipe"])  # a damaged one is not the job of the result
            return opened, source_of(opened, options).url if destination is None else source
    except (JobError, KeyError):
        if required:
            raise
        return None, source


def _is_of(job: Job, source: Storage, destination: Storage) -> bool:
    """Whether these are the places of a job."""
    return source.url in {each.url for each in job.sources} and destination.url == job.header["destination"]


def _reading_of(
    job: Job, stated: Mapping[str, Any], format: Format | None, *, in_place: bool
) -> tuple[Reading, Format]:
    """How a job has read its source, except for what is stated otherwise; JobError if that is gone."""
    header = job.header
    if job.state == "finished" and in_place:
        raise JobError(
            "finish has removed the legacy metadata, so there is nothing to compare with",
            key=str(job.path),
            advice="The job file has a copy, which undo restores.",
        )
    if format is None:
        format = header["format"]  # noqa: A001
        require_readable(format)
    return replace(Reading.from_json(header), **stated), format

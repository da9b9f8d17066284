"""The pages on an archive, a job and a batch, and results as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import ZarrstackError

from ...errors import JobError
from ...formats.describe import describe, opened
from ...jobs.job_report import report_of
from ...jobs.ledger.ledger import Job
from ...jobs.outcome import Outcome
from ...jobs.units import FORMATS, count_text
from ...planning.inspection import inspected
from ...recipe.options import Places, Reading
from ...recipe.recipe import Recipe
from .. import batch, job_report, outcome
from .. import blocks as b
from ..archive import blocks
from ..shown import shown
from .pictures import NO_PICTURES, PictureMaker, Pictures, opener, pictures_of_job
from .rendering import notebook, page, write_page

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ...archive.nodes import Archive
    from ...jobs.batch.rows import BatchOutcome, BatchRow
    from ...jobs.job_report import JobReport
    from ...planning.plans import ArrayPlan
    from ...recipe.options import Format
    from ...storage.base import Storage

_REPORT = "zarrlift migration report"


def job_page(report: JobReport, previews: Pictures = NO_PICTURES) -> str:
    """The page on what a job did to one archive."""
    numbers = {array.path: number for number, array in enumerate(report.arrays)}
    before = (
        b.Section(title="Pictures", on="pages"),
        b.Summary(_sentence(report)),
        previews.linked(lambda path: f"r{numbers.get(path, 0)}"),
    )
    return page(
        job_report.blocks(report, before=before),
        kicker=_REPORT,
        title=_name(report.source),
        state="running" if report.activity == "running" else report.state,
    )


def batch_page(
    outcome: BatchOutcome, reports: Mapping[int, JobReport], previews: Pictures = NO_PICTURES
) -> str:
    """The page on a batch, with the reports on its archives by number."""
    before = (b.Section(title="Pictures", on="pages"), previews)
    return page(
        batch.blocks(outcome, reports, before=before),
        kicker=_REPORT,
        title=count_text(len(outcome.rows), "archive"),
        state="running" if outcome.running else outcome.state,
    )


def _name(place: str) -> str:
    return place.rstrip("/").rpartition("/")[2] or place


def _sentence(report: JobReport) -> str:
    if report.state == "undone":
        return "This job was undone: everything that it wrote was removed."
    done = f"{count_text(report.arrays_done)} of {count_text(len(report.arrays), 'array')}"
    groups = count_text(report.groups_done, "group")
    where = "are Zarr v3 now"
    if report.in_place:
        removed = report.state == "finished"
        where += "; the old metadata was removed" if removed else ", and have their old metadata too"
    checked = {
        "sample": " Each array was compared with its source, in samples, before it appeared.",
        "full": " Every value was compared with the source.",
    }.get(report.verified or report.checked or "", "")
    return f"{done} and {groups} of {FORMATS.get(report.format, report.format)} {where}.{checked}"


def notebook_html(result: object) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    blocks = outcome.notebook_blocks(result) if isinstance(result, Outcome) else shown("blocks", result)
    return notebook(blocks, type(result).__name__)


def write_job_page(report: JobReport, html: str, path: Path, places: Mapping[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    previews = NO_PICTURES
    if places is not None:
        with Job.open(path, write=False) as opened:
            previews = pictures_of_job(opened, PictureMaker(), Places(**places))
    write_page(html, job_page(report, previews))


def batch_json(outcome: BatchOutcome) -> JSON:
    """All archives with their reports, as JSON; an archive of which nothing was begun has none."""
    return {
        **outcome.to_json(),
        "archives": [{**row.to_json(), "report": _report(row)} for row in outcome.rows],
    }


def _report(row: BatchRow) -> JSON:
    with _opened(row) as job:
        return None if job is None else report_of(job).to_json()


@contextmanager
def _opened(row: BatchRow) -> Iterator[Job | None]:
    """The job of an archive; None without one, or if it cannot be read, which the row says."""
    job = None
    with suppress(JobError):
        job = Job.open(Path(row.job), write=False) if row.begun() else None
    with nullcontext() if job is None else job:
        yield job


def write_batch_page(outcome: BatchOutcome, html: str, *, pictures: bool, places: Mapping[str, Any]) -> None:
    """Write the page; `places` are the storage options for its pictures."""
    maker = PictureMaker(small=len(outcome.rows) > 1)  # the archives share its room
    reports: dict[int, JobReport] = {}
    previews = NO_PICTURES
    for number, row in enumerate(batch.urgent_first(outcome.rows)):
        with _opened(row) as job:
            if job is not None:
                reports[row.number] = report_of(job)
                if pictures:
                    pictures_of_row = pictures_of_job(job, maker, Places(**places))
                    previews = previews.plus(
                        pictures_of_row.linked(f"r{number}".format, archive=row.relative)
                    )
    write_page(html, batch_page(outcome, reports, previews))


def page_of(place: Any, **options: Any) -> str:
    """The page on the archive at a place, with stored sizes, for which chunks are listed."""
    storage, reading, format = opened(place, options)  # noqa: A001 - as in the public functions
    archive = inspected(describe(storage, format=format, options=reading), storage, reading)
    previews = pictures(storage, format, reading, PictureMaker())
    return archive_page(archive, previews, _stored(archive, storage, reading))


def pictures(storage: Storage, format: Format | None, reading: Reading, maker: PictureMaker) -> Pictures:
    """Pictures of the images of an archive, so far as there is a view of it."""
    from ...views.legacy import view_of

    try:
        view = view_of(storage, format=format, reading=reading)
    except ZarrstackError:
        return NO_PICTURES
    return maker.pictures(view.plan, {"middle plane": opener(lambda: view)})


def archive_page(archive: Archive, previews: Pictures, stored: Mapping[str, ArrayPlan]) -> str:
    """The page on an archive."""
    numbers = {node.path: number for number, node in enumerate(archive.nodes)}
    before = (b.Section(title="Pictures"), previews.linked(lambda path: f"r{numbers.get(path, 0)}"))
    refused = sum(node.refused for node in archive.nodes)
    return page(
        blocks(archive, stored, before=before),
        kicker="zarrlift inspect",
        title=archive.url.rstrip("/").rpartition("/")[2] or archive.url,
        state=f"{count_text(refused, 'node')} refused" if refused else archive.format,
        tone="bad" if refused else "",
    )


def _stored(archive: Archive, storage: Storage, reading: Reading) -> dict[str, ArrayPlan]:
    """The plan of each array, with its listed chunks; empty if the archive cannot be planned or listed."""
    from ...planning.planner import make_plan

    try:
        plan, _ = make_plan(archive, storage, Recipe(), destination="", reading=reading)
    except ZarrstackError:
        return {}
    return {array.path: array for array in plan.arrays} if storage.can_list else {}

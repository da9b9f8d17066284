"""The pages on a job, a batch and a census, and results as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import JobError
from ...jobs.job_report import report_of
from ...jobs.ledger.ledger import Job
from ...jobs.outcome import Outcome
from ...jobs.units import FORMATS, count_text
from ...recipe.options import Places
from .. import batch, census, job_report, outcome
from .. import blocks as b
from ..shown import shown
from .pictures import NO_PICTURES, PictureMaker, Pictures, pictures_of_job
from .rendering import notebook, page, write_page

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ...jobs.batch.rows import BatchOutcome, BatchRow
    from ...jobs.census.census import Census
    from ...jobs.job_report import JobReport
    from ...jobs.ledger.stored_file import JobPath

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


def census_page(found: Census) -> str:
    """The page on many archives."""
    return page(
        census.blocks(found),
        kicker="zarrlift census",
        title=_name(found.place),
        state=f"{'' if found.complete else 'not '}everything can be migrated",
        tone="good" if found.complete else "warn",
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


def write_job_page(report: JobReport, html: str, path: JobPath, places: Mapping[str, Any] | None) -> None:
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
                    found = pictures_of_job(job, maker, Places(**places))
                    previews = previews.plus(found.linked(f"r{number}".format, archive=row.relative))
    write_page(html, batch_page(outcome, reports, previews))

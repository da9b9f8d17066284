"""The report on a batch: each archive by its job, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import JobError

from ..jobs.job_report import report_of
from ..jobs.ledger.ledger import Job

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.batch.outcome import BatchOutcome
    from ..jobs.batch.rows import BatchRow
    from .html.report_page import ReportedArchive


def data(outcome: BatchOutcome) -> JSON:
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


def write(outcome: BatchOutcome, html: str, *, pictures: bool, places: Mapping[str, Any]) -> None:
    """Write the page; `places` are the storage options for its pictures."""
    from .html.rendering import write_page
    from .html.report_page import report_page

    write_page(html, report_page(list(_archives(outcome, pictures=pictures, places=places))))


def _archives(
    outcome: BatchOutcome, *, pictures: bool, places: Mapping[str, Any]
) -> Iterator[ReportedArchive]:
    from .html.job_pictures import pictures_of_job
    from .html.pictures import NO_PICTURES, PictureMaker
    from .html.report_page import ReportedArchive

    maker = PictureMaker(small=len(outcome.rows) > 1)  # the archives share its room
    for row in outcome.rows:
        archive = ReportedArchive(
            name=row.relative,
            source=row.source,
            destination=None if row.in_place else row.destination,
            format=row.format,
            state=row.state,
            problems=row.problems,
            arrays=row.arrays,
        )
        with _opened(row) as job:
            if job is not None:
                previews = pictures_of_job(job, maker, **places) if pictures else NO_PICTURES
                of_job = ReportedArchive.of(report_of(job), name=row.relative, pictures=previews)
                archive = replace(of_job, state=row.state, problems=row.problems or of_job.problems)
        yield archive

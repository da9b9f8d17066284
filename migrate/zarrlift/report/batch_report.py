"""The report on a batch: each archive by its job, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import JobError
from ..jobs.job_report import report_of
from ..jobs.ledger.ledger import Job

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.batch.outcome import BatchOutcome
    from ..jobs.batch.rows import BatchRow
    from ..jobs.job_report import JobReport


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
    from .batch import urgent_first
    from .html.job_pictures import pictures_of_job
    from .html.pages import batch_page
    from .html.pictures import NO_PICTURES, PictureMaker
    from .html.rendering import write_page

    maker = PictureMaker(small=len(outcome.rows) > 1)  # the archives share its room
    reports: dict[int, JobReport] = {}
    previews = NO_PICTURES
    for number, row in enumerate(urgent_first(outcome.rows)):
        with _opened(row) as job:
            if job is not None:
                reports[row.number] = report_of(job)
                if pictures:
                    found = pictures_of_job(job, maker, **places)
                    previews = previews.plus(found.linked(f"r{number}".format, archive=row.relative))
    write_page(html, batch_page(outcome, reports, previews))

"""The report on a batch: each archive by its ledger, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..jobs.job_report import report_of
from ..jobs.ledger.ledger import Job

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.batch.batch import Batch
    from .html.report_page import ReportedArchive


def data(batch: Batch) -> JSON:
    """All archives with their reports, as JSON; an archive of which nothing was begun has none."""
    archives = []
    for row in batch.rows:
        with batch.ledger(row.number) as path:
            report = None
            if path is not None:
                with Job.open(path, write=False) as job:
                    report = report_of(job).to_json()
        archives.append({**row.to_json(), "report": report})
    return {**batch.status().to_json(), "archives": archives}


def write(batch: Batch, html: str, *, pictures: bool, places: Mapping[str, Any]) -> None:
    """Write the page; `places` are the storage options for its pictures."""
    from .html.rendering import write_page
    from .html.report_page import report_page

    write_page(html, report_page(list(_archives(batch, pictures=pictures, places=places))))


def _archives(batch: Batch, *, pictures: bool, places: Mapping[str, Any]) -> Iterator[ReportedArchive]:
    from .html.job_pictures import pictures_of_job
    from .html.pictures import NO_PICTURES, PictureMaker
    from .html.report_page import ReportedArchive

    rows = batch.rows
    maker = PictureMaker(small=len(rows) > 1)  # the archives share its room
    for row in rows:
        archive = ReportedArchive(
            name=row.relative,
            source=row.source,
            destination=None if row.destination == row.source else row.destination,
            format=row.format,
            state=row.state,
            problems=row.problems,
            arrays=row.arrays,
        )
        with batch.ledger(row.number) as path:
            if path is not None:
                with Job.open(path, write=False) as job:
                    shown = pictures_of_job(job, maker, **places) if pictures else NO_PICTURES
                    found = ReportedArchive.of(report_of(job), name=row.relative, pictures=shown)
                problems = row.problems or found.problems
                archive = replace(found, state=row.state, problems=problems, seconds=row.seconds)
        yield archive

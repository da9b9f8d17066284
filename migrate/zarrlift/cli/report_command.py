"""The command that reports what a job did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from . import options as o
from .assess_options import HtmlFile
from .job_options import JobFile
from .option_groups import option
from .session import DONE, PARTLY, Answer

if TYPE_CHECKING:
    from pathlib import Path


def report(
    target: o.Target,
    html: HtmlFile = None,
    pictures: Annotated[
        bool,
        option("--pictures/--no-pictures", help="With --html: read and show the middle planes of images."),
    ] = True,
    *,
    job: JobFile,
    storage: o.JobStorage,
    output: o.Output,
) -> int:
    """Report what a job did: arrays, routes, sizes, times, and what was refused or failed and why.

    Reads the job file alone, and with --html, source and result for pictures.
    """

    def work() -> Answer:
        from ..jobs.batch.places import batch_at
        from ..jobs.job_report import report_of
        from ..jobs.ledger.find_job import find_job
        from ..jobs.ledger.ledger import Job
        from ..report import job_report as report_job

        place = job.arguments()
        if place["job"] is None and (batch := batch_at(target)) is not None:
            return _of_batch(batch, html, pictures=pictures, places=storage.arguments())
        path = find_job(target, place["job"], place["job_storage_options"])
        with Job.open(path, write=False) as opened:
            found = report_of(opened)
            if html is not None:
                from ..report.html.job_pictures import pictures_of_job
                from ..report.html.pictures import NO_PICTURES, PictureMaker
                from ..report.html.rendering import write_page
                from ..report.html.report_page import ReportedArchive, report_page

                shown = NO_PICTURES
                if pictures:
                    shown = pictures_of_job(opened, PictureMaker(), **storage.arguments())
                write_page(html, report_page([ReportedArchive.of(found, pictures=shown)]))
        whole = found.state in ("done", "finished") and not found.refusals
        return Answer(
            code=DONE if whole else PARTLY,
            text=lambda page: report_job.lines(found, page, html=html),
            data=found.to_json,
        )

    return output.session("report").run(work)


def _of_batch(path: Path, html: str | None, *, pictures: bool, places: dict[str, Any]) -> Answer:
    from ..jobs.batch.batch import Batch
    from ..report import batch as report_batch
    from ..report import batch_report

    batch = Batch(path)
    outcome = batch.status()
    if html is not None:
        batch_report.write(batch, html, pictures=pictures, places=places)
    return Answer(
        code=DONE if outcome.ok else PARTLY,
        text=lambda page: report_batch.lines(outcome, page),
        data=lambda: batch_report.data(batch),
        problems=lambda _page: (),  # they are in the table
    )

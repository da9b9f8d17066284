"""The command `status`: the progress of a job or of a batch, and the report on what it did."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from ..recipe.options import JobPlace
from . import options as o
from . import storage_options as s
from .batch_answers import answered, batch_of
from .option_groups import option
from .session import DONE, PARTLY, Answer

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.outcome import BatchOutcome
    from ..jobs.job_report import JobReport
    from ..jobs.ledger.stored_file import JobPath


def status(
    target: o.Target,
    *,
    only: o.Only = None,
    watch: Annotated[
        bool,
        option("--watch", help="Refresh it until the job ends; if not on a terminal, one line per minute."),
    ] = False,
    check: Annotated[
        bool, option("--check", help="Exit code 1 unless everything is migrated and nothing is refused.")
    ] = False,
    html: o.Html = None,
    pictures: Annotated[
        bool,
        option("--pictures/--no-pictures", help="With --html: read and show the middle planes of images."),
    ] = True,
    options: o.JobFile,
    storage: s.Storage,
    verbose: Annotated[
        bool, option("--verbose", "-v", help="Report each array: routes, sizes, times, and why it failed.")
    ] = False,
    output: o.Output,
) -> int:
    """Show the progress of a job or a batch; with --verbose or --html, report what it did.

    Reads the job file alone, and with --html, source and result for pictures. With --watch until it ends:
    exit code 0 if everything is done, 1 if not, 130 after Ctrl-C.
    """
    batch = batch_of(target, only, options)
    if batch is not None and not (html or check or verbose):
        return answered("status", output, lambda _: _batch_now(batch, output, watch=watch))

    def places() -> dict[str, Any]:
        return {name: value for name, value in storage.arguments().items() if name != "job_storage_options"}

    def work() -> Answer:
        import zarrlift

        from ..jobs.ledger.find_job import find_job
        from ..report import job_report as report_job
        from ..report import status as report_status

        if batch is not None:
            now = _batch_now(batch, output, watch=watch)
            return _batch_report(now, html, places(), pictures=pictures)
        keywords = options.of(JobPlace)
        keywords |= {
            name: value for name, value in storage.arguments().items() if name == "job_storage_options"
        }

        def ask() -> Any:
            return zarrlift.status(target, **keywords)

        code = DONE
        if watch:
            from . import watching

            stream = sys.stderr if output.as_json else sys.stdout
            current = watching.watch(ask, stream, watching.a_job(), everything=output.show_all)
            code = DONE if current.state in ("done", "finished") else PARTLY
        else:
            current = ask()
        report = None
        if verbose or html or check or output.as_json:
            report = zarrlift.job_report(target, **keywords)
        if html is not None and report is not None:
            _write_page(html, report, find_job(target, JobPlace(**keywords)), places() if pictures else None)
        if check and report is not None:
            code = DONE if report.state in ("done", "finished") and not report.refusals else PARTLY
        return Answer(
            code=code,
            text=lambda page: (
                report_status.lines(current, page)
                if report is None or not (verbose or html)
                else report_job.lines(report, page, html=html)
            ),
            data=lambda: {**current.to_json(), **(report.to_json() if report else {})},
        )

    session = output.session("status")
    session.how_to_continue = lambda _: "The job is not affected."
    return session.run(work)


def _write_page(html: str, report: JobReport, path: JobPath, places: dict[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    from ..jobs.ledger.ledger import Job
    from ..report.html.job_pictures import pictures_of_job
    from ..report.html.pictures import NO_PICTURES, PictureMaker
    from ..report.html.rendering import write_page
    from ..report.html.report_page import ReportedArchive, report_page

    previews = NO_PICTURES
    if places is not None:
        with Job.open(path, write=False) as opened:
            previews = pictures_of_job(opened, PictureMaker(), **places)
    write_page(html, report_page([ReportedArchive.of(report, pictures=previews)]))


def _batch_now(batch: Batch, output: o.Output, *, watch: bool) -> BatchOutcome:
    if not watch:
        return batch.status()
    from . import watching

    stream = sys.stderr if output.as_json else sys.stdout
    return watching.watch(batch.status, stream, watching.a_batch(), everything=output.show_all)


def _batch_report(
    outcome: BatchOutcome, html: str | None, places: dict[str, Any], *, pictures: bool
) -> Answer:
    from ..report import batch as report_batch
    from ..report import batch_report

    if html is not None:
        batch_report.write(outcome, html, pictures=pictures, places=places)
    return Answer(
        code=DONE if outcome.ok else PARTLY,
        text=lambda page: report_batch.lines(outcome, page),
        data=lambda: batch_report.data(outcome),
        problems=lambda _page: (),  # they are in the table
    )

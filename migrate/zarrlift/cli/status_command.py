"""The command `status`: the progress of a job or of a batch, and the report on what it did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ..recipe.options import JobPlace
from . import options as o
from . import storage_options as s
from .option_groups import option
from .session import DONE, PARTLY, Answer
from .verbs import answer_of, batch_of

if TYPE_CHECKING:
    from ..jobs.job_report import JobReport
    from ..jobs.ledger.stored_file import JobPath
    from ..report.blocks import Block


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
) -> Answer:
    """Show the progress of a job or a batch; with --verbose or --html, report what it did.

    Reads the job file alone, and with --html, source and result for pictures. --watch refreshes the page too,
    with pictures at the end. With --watch until it ends: exit code 0 if everything is done, 1 if not, 130
    after Ctrl-C.
    To pause a job, stop it with Ctrl-C, and continue it later with zarrlift resume.
    """
    batch = batch_of(target, only, options)
    output.session.how_to_continue = lambda _: f"The {'batch' if batch else 'job'} is not affected."
    places = storage.arguments()
    of_job = {name: places.pop(name) for name in ("job_storage_options",) if name in places}
    if batch is not None:
        from ..report import batch_report

        page = html and (lambda now: batch_report.write(now, html, pictures=False, places=places))
        outcome = _watched(batch.status, output, "a_batch", page) if watch else batch.status()
        if html is not None:
            batch_report.write(outcome, html, pictures=pictures, places=places)
        answer = answer_of(outcome, "status", [])
        if not (html or check or verbose):
            return answer
        code = DONE if outcome.ok else PARTLY
        return replace(answer, code=code, data=lambda: batch_report.data(outcome), brief=tuple)
    import zarrlift

    from ..report import status as report_status

    keywords = {**options.of(JobPlace), **of_job}
    ask = partial(zarrlift.status, target, **keywords)

    def write_page(report: JobReport, places: dict[str, Any] | None) -> None:
        from ..jobs.ledger.find_job import find_job

        assert html is not None
        _write_page(html, report, find_job(target, JobPlace(**keywords)), places)

    page = html and (lambda _: write_page(zarrlift.job_report(target, **keywords), None))
    current = _watched(ask, output, "a_job", page) if watch else ask()
    code = PARTLY if watch and current.state not in ("done", "finished") else DONE
    report = None
    if verbose or html or check or output.as_json:
        report = zarrlift.job_report(target, **keywords)
    if report is not None and html is not None:
        write_page(report, places if pictures else None)
    if check and report is not None:
        code = DONE if report.state in ("done", "finished") and not report.refusals else PARTLY
    text: Callable[[], Iterable[Block]] = partial(report_status.blocks, current)
    if report is not None and (verbose or html):
        from ..report import job_report as report_job

        text = partial(report_job.blocks, report, html=html)
    return Answer(
        code=code,
        text=text,
        data=lambda: {**current.to_json(), **(report.to_json() if report else {})},
    )


def _watched(ask: Callable[[], Any], output: o.Output, shown: str, page: Any) -> Any:
    """The last status, after those before it were shown as `watching` shows one, and as `page` writes one."""
    from . import watching

    ask = watching.with_page(ask, page) if page else ask
    stream = sys.stderr if output.as_json else sys.stdout
    return watching.watch(ask, stream, getattr(watching, shown)(), everything=output.show_all)


def _write_page(html: str, report: JobReport, path: JobPath, places: dict[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    from ..jobs.ledger.ledger import Job
    from ..report.html.job_pictures import pictures_of_job
    from ..report.html.pages import job_page
    from ..report.html.pictures import NO_PICTURES, PictureMaker
    from ..report.html.rendering import write_page

    previews = NO_PICTURES
    if places is not None:
        with Job.open(path, write=False) as opened:
            previews = pictures_of_job(opened, PictureMaker(), **places)
    write_page(html, job_page(report, previews))

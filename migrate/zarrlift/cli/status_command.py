"""`status`, once or until the job ends (`--watch`)."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from ..recipe.options import JobPlace, Places
from ..recipe.signatures import given as options_of
from .commands import usage_of
from .exit_codes import DONE, PARTLY
from .migrate_commands import answer_of, batch_of
from .options import Given, usage
from .session import Answer, plain, write

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..jobs.status import Status


def status(given: Given) -> Answer:
    """Show the progress of a job or a batch; with --verbose or --html, report what it did."""
    if given.target is None and given.job is None:
        return _jobs_here(given)
    target: str = given.target or given.job
    html: str | None = given.html
    batch = batch_of(given, target)
    given.session.how_to_continue = lambda _: f"The {'batch' if batch else 'job'} is not affected."
    places = given.storage()
    if batch is not None:
        from ..report import batch as report_batch
        from ..report.html.pages import write_batch_page

        page = html and (lambda now: write_batch_page(now, html))
        outcome = _watched(batch.status, given, report_batch, page) if given.watch else batch.status()
        if html is not None:
            write_batch_page(outcome, html)
        answer = answer_of(outcome, "status", [])
        if not (html or given.check or given.verbose):
            return answer
        lines: list[str] = []
        if given.check:
            from ..jobs.batch.acts import incomplete
            from ..jobs.batch.state import COMPLETE

            for row in outcome.rows:
                if row.state in COMPLETE:
                    found = incomplete(row, options_of(places, Places))
                    lines += [f"{row.name}: {problem}" for problem in found]
        blocks_of_batch = answer.text
        return answer._replace(
            code=DONE if outcome.ok and not lines else PARTLY,
            text=lambda: chain(blocks_of_batch(), plain(lines)),
            data=lambda: report_batch.batch_json(outcome),
            brief=tuple,
        )
    import zarrlift

    from ..report import status as report_status

    keywords = given.of(JobPlace)
    ask = partial(zarrlift.status, target, **keywords)

    def write_page(status: Status, places: dict[str, Any] | None = None) -> None:
        from ..report.html.pages import write_job_page

        assert html is not None
        write_job_page(status, html, Path(status.job), places)

    page = html and write_page
    current = _watched(ask, given, report_status, page) if given.watch else ask()
    code = PARTLY if given.watch and current.state not in ("done", "finished") else DONE
    if html is not None:
        write_page(current, places if given.pictures else None)
    lacking: tuple[Problem, ...] = ()
    if given.check:
        from ..jobs.ledger.ledger import Job
        from ..jobs.resume.published_arrays import incomplete_arrays

        if current.state != "undone":
            with Job.open(Path(current.job), write=False) as job:
                lacking = incomplete_arrays(job, options_of(places, Places))
        whole = current.state in ("done", "finished") and not current.refusals and not lacking
        code = DONE if whole else PARTLY
    text = partial(report_status.blocks, current, verbose=given.verbose or html is not None, html=html)
    return Answer(code=code, text=lambda: chain(text(), plain(map(str, lacking))), data=current.to_json)


def _jobs_here(given: Given) -> Answer:
    """The names of the jobs and lists in the working directory, none of which is opened."""
    from ..core.units import count_text, safe
    from ..errors import JobError
    from ..jobs.ledger.job_places import LIST_SUFFIX, SUFFIX

    if given.watch or given.check or given.html or given.only:
        raise usage("status needs TARGET", expected=usage_of("status"))
    folder = Path.cwd()
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith((SUFFIX, LIST_SUFFIX)))
    if not names:
        raise JobError(
            "there are no jobs in this folder", key=str(folder), advice="Name the destination of a job."
        )
    more = len(names) - _NAMES
    lines = [
        f"{count_text(len(names), 'job')} in {safe(str(folder))}:",
        *(f"  {safe(name)}" for name in names[:_NAMES]),
    ]
    lines += [f"  and {more:,} more"] if more > 0 else []
    return Answer(code=DONE, text=lambda: plain(lines), data=lambda: {"folder": str(folder), "jobs": names})


def _watched(ask: Callable[[], Any], given: Given, report: Any, page: Any) -> Any:
    """The last status, after those before it were shown by a module, and written as `page` writes one."""
    ask = with_page(ask, page) if page else ask
    stream = sys.stderr if given.as_json else sys.stdout
    return watch(ask, stream, report, everything=given.show_all)


T = TypeVar("T")

_NAMES: Final = 100
"""Maximum number of jobs that are listed."""
_REFRESH: Final = 1.0
"""Seconds between two pictures on a terminal."""
_LINE: Final = 60.0
"""Seconds between two lines elsewhere."""
_PAGE: Final = 15.0
"""Seconds between two versions of a page."""
_SHARE: Final = 10
"""The status is read in at most this part of the time: that of 100,000 arrays takes half a second."""
_UP, _END_OF_LINE, _BELOW = "\x1b[{}F", "\x1b[K", "\x1b[J"
_CUT, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control sequences (ECMA-48; the last two of DEC): to the first column n lines above, delete to the end of
the line, delete everything below, cut long lines or wrap them.
"""


def watch(
    ask: Callable[[], T],
    stream: TextIO,
    report: Any,
    *,
    everything: bool = False,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> T:
    """Show the status until the job or the batch ends, and return the last one.

    `report` is the module with its blocks and its progress in one line. A terminal shows a picture that is
    refreshed in place and removed at the end; other streams get one line per minute.
    """
    from ..core.units import is_terminal

    terminal = is_terminal(stream)
    height, interval = 0, _REFRESH if terminal else _LINE
    try:
        while True:
            began = clock()
            status = ask()
            if has_ended(status):
                return status
            if terminal:
                height = _draw(status, report, stream, height, everything=everything)
            else:
                write(report.progress_line(status) + "\n", stream)
            wait(max(interval, (clock() - began) * _SHARE))
    finally:
        if height:
            write(_UP.format(height) + _BELOW, stream)


def with_page(
    ask: Callable[[], T], write_page: Callable[[T], object], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[], T]:
    """A function that gives the status, and often enough writes it as a page."""
    due = -1.0

    def asked() -> T:
        nonlocal due
        status = ask()
        if clock() >= due:
            write_page(status)
            due = clock() + _PAGE
        return status

    return asked


def has_ended(status: Any) -> bool:
    """Whether nothing more will happen in a job by itself.

    A batch has ended if no process runs it.
    """
    if hasattr(status, "rows"):
        return not status.running
    return status.state != "incomplete" or status.activity in ("stopped", "stale")


def _draw(status: Any, report: Any, stream: TextIO, height: int, *, everything: bool) -> int:
    """Draw a picture over the one before, in one write; returns its number of lines."""
    from ..report.text import Page
    from ..report.text import lines as lines_of

    def lines() -> Iterator[str]:
        yield report.progress_line(status)
        yield ""
        yield from lines_of(report.blocks(status), Page.of(stream, everything=everything))

    rows = max(shutil.get_terminal_size().lines - 1, 1)
    drawn = list(islice(lines(), rows))
    above = _UP.format(height) if height else ""
    write(_CUT + above + "".join(f"{line}{_END_OF_LINE}\n" for line in drawn) + _BELOW + _WRAP, stream)
    return len(drawn)

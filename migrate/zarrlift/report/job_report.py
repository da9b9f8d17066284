"""The output of `zarrlift status --verbose` as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ..jobs.units import bytes_text, count_text, duration_text, node_text, safe
from . import problems as report_problems
from .table import Column

if TYPE_CHECKING:
    from ..jobs.job_report import ArrayReport, JobReport
    from .page import Page

_ARRAYS: Final = 20
"""Maximum number of rows; the rest is counted."""
_COLUMNS: Final = (
    Column(title="array"),
    Column(title="state"),
    Column(title="route", spare=2),
    Column(title="objects", right=True, spare=1),
    Column(title="before", right=True),
    Column(title="after", right=True),
)


def lines(report: JobReport, page: Page, *, html: str | None = None) -> Iterator[str]:
    """The report on a job, and where its page is."""
    where = "in place" if report.in_place else f"-> {safe(report.destination)}"
    yield from page.paragraph(f"{safe(report.source)} {where}", hang=2, tone="title")
    yield from page.pairs(
        (
            ("state", report.state),
            ("arrays", f"{count_text(report.arrays_done)} of {count_text(len(report.arrays))} done"),
            ("size", _change(report, "bytes", bytes_text)),
            ("objects", _change(report, "objects", count_text)),
            (
                "routes",
                ", ".join(f"{name} {count_text(sums.tasks)}" for name, sums in report.routes().items()),
            ),
            ("time", duration_text(report.seconds)),
            ("retries", count_text(report.retries) if report.retries else ""),
            ("compared", report.checked or ""),
            ("verified", report.verified or "no"),
        )
    )
    yield ""
    yield from page.listing(_COLUMNS, report.arrays, _row, most=_ARRAYS, what="array")
    yield from page.apart(report_problems.lines(report.problems, page, refusal="refused or failed"))
    if html is not None:
        yield from page.apart(page.paragraph(f"Page: {safe(html)}", hang=2))


def _row(array: ArrayReport) -> tuple[str, ...]:
    return (
        node_text(array.path),
        array.state,
        array.route or "",
        count_text(array.objects_before) if array.route else "",
        "" if array.bytes_before is None or not array.route else bytes_text(array.bytes_before),
        "" if array.bytes_after is None else bytes_text(array.bytes_after),
    )


def _change(report: JobReport, what: str, text: Callable[[int], str]) -> str:
    sums = (report.total(f"{what}_before"), report.total(f"{what}_after"))
    return " -> ".join("unknown" if number is None else text(number) for number in sums)

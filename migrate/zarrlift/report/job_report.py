"""What `zarrlift status --verbose` and the page of a job show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.units import (
    bytes_text,
    change_text,
    count_text,
    duration_text,
    moment_text,
    node_text,
    safe,
    shape_text,
)

from ..jobs.ledger.rows import TaskTotals
from . import blocks as b

if TYPE_CHECKING:
    from ..jobs.job_report import ArrayReport, JobReport

_ARRAYS: Final = 20
"""Maximum number of rows; the rest is counted."""
ARRAY_COLUMNS: Final = (
    b.Column(title="array"),
    b.Column(title="state", is_state=True),
    b.Column(title="route", spare=2),
    b.Column(title="objects", right=True, spare=1),
    b.Column(title="before", right=True),
    b.Column(title="after", right=True),
)
_ROUTES: Final = (
    b.Column(title="route"),
    b.Column(title="arrays", right=True),
    b.Column(title="objects", right=True),
    b.Column(title="before", right=True),
    b.Column(title="after", right=True),
    b.Column(title="what is done"),
)


def blocks(
    report: JobReport, *, html: str | None = None, before: Iterable[b.Block] = ()
) -> Iterator[b.Block]:
    """The report on a job, and where its page is; `before` its arrays, a page has more."""
    where = "in place" if report.in_place else f"-> {safe(report.destination)}"
    yield b.Title(f"{safe(report.source)} {where}")
    routes = ", ".join(f"{name} {count_text(sums.tasks)}" for name, sums in report.routes().items())
    yield b.Pairs(
        (
            ("state", report.state),
            ("arrays", f"{count_text(report.arrays_done)} of {count_text(len(report.arrays))} done"),
            ("size", _change(report, "bytes", bytes_text)),
            ("objects", _change(report, "objects", count_text)),
            ("routes", routes),
            ("time", duration_text(report.seconds)),
            ("retries", count_text(report.retries) if report.retries else ""),
            ("compared", report.checked or ""),
            ("verified", report.verified or "no"),
        )
    )
    yield from before
    yield b.Section(title="Bytes by route", on="pages")
    yield b.Table(columns=_ROUTES, items=[*report.routes().items()], row=_route_row, what="route")
    yield b.Section(title="Arrays")
    yield b.Table(
        columns=ARRAY_COLUMNS, items=report.arrays, row=array_row, most=_ARRAYS, what="array", more=_details
    )
    yield b.Section(title="Problems")
    yield b.Problems.of(report.problems, "refused or failed")
    if html is not None:
        yield b.Section(on="text")
        yield b.Text(f"Page: {safe(html)}", hang=2)
    yield b.Section(title="Job", on="pages")
    yield b.Pairs(tuple(_job(report)))
    yield b.Document("recipe", report.recipe)


def _route_row(route: tuple[str, TaskTotals]) -> tuple[str, ...]:
    name, sums = route
    amounts = bytes_text(sums.bytes_in), bytes_text(sums.bytes_out)
    return name, count_text(sums.tasks), count_text(sums.chunks), *amounts, b.ROUTES.get(name, "")


def _details(array: ArrayReport) -> Iterator[b.Block]:
    """What an array folds out on a page."""
    if array.before is None or array.after is None:
        yield b.Text("The array was not migrated; the reason is above.")
        return
    omitted = f", {count_text(array.dropped, 'empty chunk')} omitted" if array.dropped else ""
    after = array.objects_before if array.objects_after is None else array.objects_after
    objects = change_text(count_text(array.objects_before), count_text(after))
    forms = (array.before, array.after)
    shards = (shape_text(form.shard_shape) if form.shard_shape else "" for form in forms)
    yield b.Pairs(
        (
            ("shape", "" if array.shape is None else shape_text(array.shape)),
            ("done by", f"{array.route} ({safe(array.reason)}): {b.ROUTES.get(array.route or '', '')}"),
            ("objects", objects + omitted),
            ("data type", change_text(*(safe(form.data_type) for form in forms))),
            ("chunks", change_text(*(shape_text(form.chunk_shape) for form in forms))),
            ("shards", change_text(*shards)),
            ("codecs", change_text(*(safe(form.codecs) for form in forms))),
        )
    )


def _job(report: JobReport) -> Iterator[tuple[str, str]]:
    yield "job file", safe(report.job)
    yield "format", b.FORMATS.get(report.format, report.format)
    yield from report.conventions
    yield "created", moment_text(report.created)
    yield "last record", moment_text(report.updated)
    yield "host", safe(report.host or "")
    yield "excluded", count_text(report.excluded, "node") if report.excluded else ""
    yield from report.options.items()
    yield "versions", ", ".join(f"{name} {version}" for name, version in report.versions.items())


def array_row(array: ArrayReport) -> tuple[str, ...]:
    """The cells of an array."""
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

"""The page on what a job did to one archive, or a batch to many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...jobs.ledger.rows import TaskTotals
from ...jobs.units import FORMATS, bytes_text, count_text, duration_text, rate_text
from ..plan import MEANINGS
from ..problem_groups import grouped
from .charts import line_of, sizes_of
from .pictures import NO_PICTURES, Pictures
from .rendering import moment, render

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ...jobs.job_report import ArrayReport, JobReport

PAGE_SIZE: Final = 100
"""Rows that are shown together; the further ones are folded."""
_MAX_ARRAYS: Final = 2000
"""Maximum number of arrays of one archive."""
_MAX_ROWS: Final = 10_000
"""Maximum number of arrays of all archives together."""
_TONES: Final = {
    "done": "good",
    "finished": "good",
    "failed": "bad",
    "refused": "bad",
    "incomplete": "warn",
    "running": "warn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedArchive:
    """One archive of a report."""

    name: str
    """How the page calls it."""
    source: str
    destination: str | None
    format: str | None
    state: str
    """Of `JobReport`, or of a row of a batch."""
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    bytes_in: int | None = None
    bytes_out: int | None = None
    seconds: float = 0.0
    verified: str | None = None
    report: JobReport | None = None
    """None for an archive without a job, such as one that cannot be read."""
    pictures: Pictures = field(default=NO_PICTURES)

    @classmethod
    def of(
        cls, report: JobReport, *, name: str | None = None, pictures: Pictures = NO_PICTURES
    ) -> ReportedArchive:
        """The archive of a job."""
        return cls(
            name=name or report.source.rstrip("/").rpartition("/")[2] or report.source,
            source=report.source,
            destination=None if report.in_place else report.destination,
            format=report.format,
            state="running" if report.activity == "running" else report.state,
            problems=report.problems,
            arrays=report.arrays_done,
            bytes_in=report.total("bytes_before"),
            bytes_out=report.total("bytes_after"),
            seconds=report.seconds,
            verified=report.verified or report.checked,
            report=report,
            pictures=pictures,
        )


def report_page(archives: Sequence[ReportedArchive]) -> str:
    """One self-contained HTML page on these archives; a job is a list of one."""
    alone = archives[0] if len(archives) == 1 else None
    problems = [
        (None if alone else archive.name, problem) for archive in archives for problem in archive.problems
    ]
    groups = grouped(problems)
    arrays = _arrays(archives)
    routes = _routes(archives)
    report = None if alone is None else alone.report
    rows = (
        sizes_of((array.path, array.bytes_before, array.bytes_after) for array in arrays)
        if alone
        else sizes_of((archive.name, archive.bytes_in, archive.bytes_out) for archive in archives)
    )
    return render(
        "report.html",
        title=alone.name if alone else count_text(len(archives), "archive"),
        state=_state(archives),
        tone=_tone(archives),
        places=_places(alone),
        summary=_summary(archives, arrays),
        figures=list(_figures(archives, arrays)),
        groups=[group for group in groups if group.first.severity == "refusal"],
        notes=[group for group in groups if group.first.severity != "refusal"],
        routes=routes,
        most_by_route=max((max(row.bytes_in, row.bytes_out) for _, row in routes), default=0),
        sizes=rows,
        line=None if report is None else line_of(report.throughput),
        pictures=_pictures(archives),
        archives=list(_archives(archives)) if alone is None else [alone],
        states=sorted({archive.state for archive in archives}),
        page_size=PAGE_SIZE,
        arrays=[
            (number, array, _TONES.get(array.state, "")) for number, array in enumerate(arrays[:_MAX_ARRAYS])
        ]
        if alone
        else [],
        array_states=sorted({array.state for array in arrays}) if alone else [],
        more_arrays=max(len(arrays) - _MAX_ARRAYS, 0) if alone else 0,
        meanings=MEANINGS,
        job=None if report is None else list(_job(report)),
        recipe=None if report is None else report.recipe,
    )


def _arrays(archives: Iterable[ReportedArchive]) -> list[ArrayReport]:
    return [array for archive in archives if archive.report is not None for array in archive.report.arrays]


def _state(archives: Sequence[ReportedArchive]) -> str:
    counts = Counter(archive.state for archive in archives)
    if len(archives) == 1:
        refused = sum(array.state in ("refused", "failed") for array in _arrays(archives))
        note = f", {count_text(refused, 'array')} not migrated" if refused else ""
        return archives[0].state + note
    return ", ".join(f"{count_text(count)} {state}" for state, count in counts.most_common())


def _tone(archives: Sequence[ReportedArchive]) -> str:
    tones = {_TONES.get(archive.state, "") for archive in archives}
    return next((tone for tone in ("bad", "warn", "good") if tone in tones), "")


def _places(alone: ReportedArchive | None) -> list[tuple[str, str]]:
    if alone is None:
        return []
    if alone.destination is None:
        return [("in place", alone.source)]
    return [("from", alone.source), ("to", alone.destination)]


def _summary(archives: Sequence[ReportedArchive], arrays: Sequence[ArrayReport]) -> str:
    done = sum(array.state == "done" for array in arrays)
    if len(archives) > 1:
        whole = sum(archive.state in ("done", "finished") for archive in archives)
        return (
            f"{count_text(whole)} of {count_text(len(archives), 'archive')} are migrated to Zarr v3, with "
            f"{count_text(done, 'array')}."
        )
    archive = archives[0]
    if archive.state == "undone":
        return "This job was undone: everything that it wrote was removed."
    kind = FORMATS.get(archive.format or "", archive.format or "unknown format")
    groups = archive.report.groups_done if archive.report else 0
    of = f"{count_text(done)} of {count_text(len(arrays), 'array')}"
    where = "are Zarr v3 now"
    if archive.destination is None:
        removed = archive.state == "finished"
        where += "; the old metadata was removed" if removed else ", and have their old metadata too"
    checked = {
        "sample": " Each array was compared with its source, in samples, before it appeared.",
        "full": " Every value was compared with the source.",
    }.get(archive.verified or "", "")
    return f"{of} and {count_text(groups, 'group')} of {kind} {where}.{checked}"


def _figures(
    archives: Sequence[ReportedArchive], arrays: Sequence[ArrayReport]
) -> Iterator[tuple[str, str, str]]:
    finished = [array for array in arrays if array.state == "done"]
    before, after = _sum(a.bytes_in for a in archives), _sum(a.bytes_out for a in archives)
    seconds = sum(archive.seconds for archive in archives)
    read = sum(array.bytes_read for array in arrays)
    if len(archives) > 1:
        whole = sum(archive.state in ("done", "finished") for archive in archives)
        yield "Archives", count_text(len(archives)), f"{count_text(whole)} done"
    states = Counter(array.state for array in arrays)
    rest = ", ".join(f"{count_text(count)} {state}" for state, count in states.items() if state != "done")
    yield "Arrays", f"{count_text(len(finished))} of {count_text(len(arrays))}", rest or "all done"
    yield "Size", bytes_text(after) if after is not None else "unknown", _ratio(before, after)
    objects = [array.objects_after for array in finished]
    yield (
        "Objects",
        "unknown" if None in objects else count_text(sum(number for number in objects if number is not None)),
        f"from {count_text(sum(array.objects_before for array in finished))}",
    )
    yield "Time", duration_text(seconds), "all runs" if len(archives) == 1 else "of all archives"
    if rate := rate_text(read, seconds):
        yield "Rate", rate, f"{bytes_text(read)} read"
    if retries := sum(archive.report.retries for archive in archives if archive.report):
        yield "Retries", count_text(retries), "repeated requests"
    levels = {archive.verified for archive in archives if archive.state in ("done", "finished")}
    if levels:
        words = {"sample": "samples", "full": "every value", "none": "nothing"}
        extents = sorted(words.get(level or "", "unknown") for level in levels)
        yield "Compared", " or ".join(extents), "with the source"


def _ratio(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return ""
    change = f", {100 * after / before - 100:+.0f} %" if before else ""
    return f"from {bytes_text(before)}{change}"


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    return (
        sum(value for value in numbers if value is not None) if any(v is not None for v in numbers) else None
    )


def _routes(archives: Iterable[ReportedArchive]) -> list[tuple[str, TaskTotals]]:
    """The sums of each route, the one with the most bytes first."""
    sums: dict[str, TaskTotals] = {}
    for archive in archives:
        for name, totals in (archive.report.routes() if archive.report else {}).items():
            sums[name] = TaskTotals(*map(sum, zip(sums.get(name, TaskTotals()), totals, strict=True)))
    return sorted(sums.items(), key=lambda row: -row[1].bytes_in)


def _pictures(archives: Sequence[ReportedArchive]) -> Pictures:
    if len(archives) == 1:
        numbers = {array.path: number for number, array in enumerate(_arrays(archives))}
        return archives[0].pictures.linked(lambda path: f"n{numbers.get(path, 0)}")
    together = NO_PICTURES
    for number, archive in enumerate(archives):
        together = together.plus(archive.pictures.linked(_constant(f"a{number}"), archive=archive.name))
    return together


def _constant(anchor: str) -> Callable[[str], str]:
    return lambda _: anchor


def _archives(archives: Sequence[ReportedArchive]) -> Iterator[dict[str, Any]]:
    left = _MAX_ROWS
    for number, archive in enumerate(archives):
        arrays = archive.report.arrays if archive.report else ()
        rows = arrays[: min(left, PAGE_SIZE)]
        left -= len(rows)
        facts = [("From", archive.source), ("To", archive.destination), ("Compared", archive.verified)]
        yield {
            "number": number,
            "archive": archive,
            "tone": _TONES.get(archive.state, ""),
            "format": FORMATS.get(archive.format or "", ""),
            "facts": [(name, text) for name, text in facts if text],
            "groups": grouped((None, problem) for problem in archive.problems),
            "rows": rows,
            "more_rows": len(arrays) - len(rows),
        }


def _job(report: JobReport) -> Iterator[tuple[str, str]]:
    yield "Job file", report.job
    yield "Format", FORMATS.get(report.format, report.format)
    yield from report.conventions
    yield "Created", moment(report.created)
    yield "Last record", moment(report.updated)
    if report.host:
        yield "Host", report.host
    if report.excluded:
        yield "Excluded", count_text(report.excluded, "node")
    yield from report.options.items()
    yield (
        "Versions",
        ", ".join(f"{name} {version}" for name, version in report.versions.items()) or "not recorded",
    )

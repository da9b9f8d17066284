"""The report on a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..jobs.command_line import command
from ..jobs.units import bytes_text, count_text, duration_text, safe
from .problems import failures
from .table import Column

if TYPE_CHECKING:
    from ..jobs.batch.outcome import BatchOutcome
    from ..jobs.batch.rows import BatchRow
    from .page import Page

_SHOWN: Final = 20
"""Maximum number of rows; the rest is counted. Those with problems come first."""
_URGENCY: Final = {"failed": 0, "refused": 1, "incomplete": 2, "pending": 3}
_COLUMNS: Final = (
    Column(title="row", right=True),
    Column(title="archive", wraps=True),
    Column(title="format", spare=2),
    Column(title="state"),
    Column(title="arrays", right=True, spare=4),
    Column(title="objects", right=True, spare=5),
    Column(title="read", right=True, spare=3),
    Column(title="written", right=True, spare=1),
)


def lines(outcome: BatchOutcome, page: Page) -> Iterator[str]:
    """The report on a call, or on the status."""
    yield from page.paragraph(f"{count_text(len(outcome.rows), 'archive')}: {_counts(outcome)}", tone="title")
    rows = outcome.rows
    totals = [
        ("arrays", f"{sum(row.arrays for row in rows):,}"),
        ("objects", f"{sum(row.objects for row in rows):,}"),
        ("read", bytes_text(sum(row.bytes_in for row in rows))),
        ("written", bytes_text(sum(row.bytes_out for row in rows))),
        ("verified", _verified(rows)),
        ("running", progress_line(outcome) if outcome.running else ""),
        ("time", duration_text(outcome.seconds) if outcome.ran else ""),
        ("list", safe(outcome.list_file)),
    ]
    yield from page.pairs(totals)
    first = sorted(rows, key=lambda row: (not row.problems, _URGENCY.get(row.state, 4), row.number))
    yield ""
    yield from page.listing(_COLUMNS, first, _row, most=_SHOWN, what="archive")
    yield ""
    excerpt = page.shown(first, _SHOWN)
    if errors := [(row.state, safe(row.relative), text) for row in excerpt if (text := _problem(row))]:
        yield from failures(errors, page)
        yield ""
    if outcome.left:
        yield f"left to other processes, which have claimed them: {count_text(outcome.left, 'archive')}"
    for source in page.shown(outcome.added, _SHOWN):
        yield f"not in the list: {safe(source)}"
    yield from _advice(outcome, page)


def brief_lines(outcome: BatchOutcome) -> Iterator[str]:
    """The same in one line."""
    yield f"{outcome.state}: {_counts(outcome)}"


def progress_line(outcome: BatchOutcome) -> str:
    """How far a batch that is running has come, in one line."""
    parts = [_counts(outcome)]
    if outcome.bytes_total:
        share = 100 * outcome.bytes_done // outcome.bytes_total
        done, total = (bytes_text(count) for count in (outcome.bytes_done, outcome.bytes_total))
        parts.append(f"{done} of {total} ({share} %)")
    if outcome.rate is not None and outcome.seconds_left is not None:
        parts.append(f"{bytes_text(round(outcome.rate))}/s, about {duration_text(outcome.seconds_left)} left")
    return ", ".join(parts)


def _counts(outcome: BatchOutcome) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in sorted(outcome.counts.items()))


def _verified(rows: Sequence[BatchRow]) -> str:
    levels = [row.verified for row in rows if row.state in ("done", "finished")]
    full, sample = levels.count("full"), levels.count("sample")
    texts = [f"{full:,} completely" if full else "", f"{sample:,} by a sample" if sample else ""]
    return ", ".join(text for text in texts if text)


def _problem(row: BatchRow) -> str:
    """The first refusal or failure of an archive and the number of others; "" if there is none."""
    problems = [problem for problem in row.problems if problem.severity == "refusal"]
    if not problems:
        return ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return safe(str(problems[0])) + more


def _row(row: BatchRow) -> list[str]:
    return [
        str(row.number),
        safe(row.relative),
        row.format or "",
        row.state,
        f"{row.arrays:,}",
        f"{row.objects:,}",
        bytes_text(row.bytes_in),
        bytes_text(row.bytes_out),
    ]


def _advice(outcome: BatchOutcome, page: Page) -> Iterator[str]:
    if outcome.added:
        yield "--update adds what is not in the list."
    match outcome.state:
        case "planned":
            yield from page.advice("Nothing has been migrated. Run it with:", _batch("run", outcome))
        case "nothing to do":
            yield "Nothing to do: every archive is done."
        case "incomplete" if not outcome.running:
            yield from page.advice("Continue with:", _batch("resume", outcome))
        case _:
            return


def _batch(verb: str, outcome: BatchOutcome) -> str:
    return command(*(["batch"] if verb == "run" else []), verb, outcome.list_file)

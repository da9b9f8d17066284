"""The report on a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.problems import command
from ..core.units import bytes_text, count_text, duration_text, safe, share_text
from ..errors import JobError
from ..jobs.batch.state import COMPLETE
from ..jobs.ledger.ledger import Job
from ..jobs.status import status_of
from . import blocks as b
from .outcome import not_in, unlogged

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem
    from zarrstack.core.json_text import JSON, JSONObject

    from ..jobs.batch.rows import BatchRow
    from ..jobs.batch.state import BatchOutcome

_SHOWN: Final = 20
"""Maximum number of rows; the rest is counted. Those with problems come first."""
_URGENCY: Final = {"failed": 0, "refused": 1, "incomplete": 2, "pending": 3}
_COLUMNS: Final = (
    b.Column(title="row", right=True, folded=True),
    b.Column(title="archive", wraps=True),
    b.Column(title="format", spare=2),
    b.Column(title="state", is_state=True),
    b.Column(title="arrays", right=True, spare=4),
    b.Column(title="objects", right=True, spare=5),
    b.Column(title="read", right=True, spare=3),
    b.Column(title="written", right=True, spare=1),
)


def blocks(outcome: BatchOutcome, *, whole: bool = True) -> Iterator[b.Block]:
    """The report on a call, or on the status; `problem_blocks` only with `whole`."""
    yield b.Title(f"{count_text(len(outcome.rows), 'archive')}: {_counts(outcome)}", hang=0)
    rows, is_plan = outcome.rows, outcome.state == "planned"
    yield b.Pairs(
        (
            ("formats", _formats(rows) if is_plan else ""),
            ("arrays", f"{sum(row.arrays for row in rows):,}"),
            ("objects", f"{sum(row.objects for row in rows):,}"),
            ("read", bytes_text(sum(row.bytes_in for row in rows))),
            ("written", bytes_text(sum(row.bytes_out for row in rows))),
            ("verified", _verified(rows)),
            ("running", progress_line(outcome) if outcome.running else ""),
            ("time", duration_text(outcome.seconds) if outcome.ran else ""),
            ("list", safe(outcome.list_file)),
        )
    )
    first = urgent_first(rows)
    yield b.Section(title="Archives")
    yield b.Table(columns=_COLUMNS, items=first, row=_row, most=_SHOWN, what="archive", more=_details)
    yield b.Section(on="text")
    if whole:
        yield from problem_blocks(outcome)
    yield b.Section()
    if outcome.left:
        count = count_text(outcome.left, "archive")
        yield b.Text(f"left to other processes, which have claimed them: {count}")
    yield from _advice(outcome)


def problem_blocks(outcome: BatchOutcome, logged_problems: Collection[JSONObject] = ()) -> Iterator[b.Block]:
    """What is wrong with each archive; of the `logged_problems`, which were shown, only the advice."""
    first = urgent_first(outcome.rows)
    for state in dict.fromkeys(row.state for row in first):
        wrong = [(row.name, problem) for row in first if row.state == state for problem in _refusals(row)]
        yield from unlogged(wrong, logged_problems, "refused" if outcome.state == "planned" else state)


def urgent_first(rows: Iterable[BatchRow]) -> list[BatchRow]:
    """The archives, those with problems first."""
    return sorted(rows, key=lambda row: (not row.problems, _URGENCY.get(row.state, 4), row.number))


def _details(row: BatchRow) -> Iterator[b.Block]:
    """What an archive folds out on a page."""
    yield b.Pairs(
        (
            ("from", safe(row.source)),
            ("to", "in place" if row.in_place else safe(row.destination)),
            ("compared", row.verified or ""),
            ("time", duration_text(row.seconds) if row.seconds else ""),
        )
    )
    yield b.Problems.of(row.problems)


def batch_json(outcome: BatchOutcome) -> JSONObject:
    """All archives with the status of their jobs, as JSON; an archive of which nothing was begun has none."""
    rows = [{**row.to_json(), "status": _status(row)} for row in outcome.rows]
    return {**outcome.to_json(), "archives": rows}


def _status(row: BatchRow) -> JSON:
    """None also for a job that cannot be read, which the row says."""
    job = None
    with suppress(JobError):
        job = Job.open(Path(row.job), write=False) if row.begun() else None
    if job is None:
        return None
    with job:
        return status_of(job).to_json()


def brief_lines(outcome: BatchOutcome, logged_problems: Collection[JSONObject] = ()) -> Iterator[str]:
    """The outcome and what is wrong with each archive, unless it was logged; empty on success."""
    if outcome.ok:
        return
    yield f"{outcome.state}: {_counts(outcome)}"
    wrong = [
        f"{row.state}: {safe(row.name)}: {text}"
        for row in urgent_first(outcome.rows)
        if (text := _problem(replace(row, problems=tuple(not_in(row.problems, logged_problems)))))
    ]
    yield from wrong[:_SHOWN]
    if more := wrong[_SHOWN:]:
        yield f"and {count_text(len(more), 'more archive')}"


def progress_line(outcome: BatchOutcome) -> str:
    """How far a batch that is running has come, in one line."""
    ended = sum(row.state not in ("pending", "incomplete") for row in outcome.rows)
    return f"{_counts(outcome)} ({share_text(ended, len(outcome.rows))})"


def _counts(outcome: BatchOutcome) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in sorted(outcome.counts.items()))


def _verified(rows: Sequence[BatchRow]) -> str:
    levels = [row.verified for row in rows if row.state in ("done", "finished")]
    full, sample = levels.count("full"), levels.count("sample")
    texts = [f"{full:,} completely" if full else "", f"{sample:,} by a sample" if sample else ""]
    return ", ".join(text for text in texts if text)


def _problem(row: BatchRow) -> str:
    """The first refusal or failure of an archive and the number of others; "" if there is none."""
    problems = _refusals(row)
    if not problems:
        return ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return safe(str(problems[0])) + more


def _refusals(row: BatchRow) -> list[Problem]:
    return [problem for problem in row.problems if problem.severity == "refusal"]


def _formats(rows: Iterable[BatchRow]) -> str:
    """The number of archives of each format."""
    formats = Counter(row.format or "unknown" for row in rows)
    return ", ".join(f"{number:,} {name}" for name, number in sorted(formats.items()))


def _row(row: BatchRow) -> list[str]:
    return [
        str(row.number),
        safe(row.name),
        row.format or "",
        row.state,
        f"{row.arrays:,}",
        f"{row.objects:,}",
        bytes_text(row.bytes_in),
        bytes_text(row.bytes_out),
    ]


def _advice(outcome: BatchOutcome) -> Iterator[b.Block]:
    match outcome.state:
        case "planned":
            yield b.Text("Nothing has been migrated. Without --dry-run, it is.")
        case "nothing to do":
            yield b.Text("Nothing to do: every archive is done.")
        case "incomplete" if not outcome.running:
            left = [row for row in outcome.rows if row.state not in COMPLETE]
            only = ("--only", escape(left[0].name)) if len(left) == 1 < len(outcome.rows) else ()
            is_wrong = any(row.state in ("failed", "refused") for row in left)
            text = "After the cause is fixed:" if is_wrong else "Continue with:"
            yield b.Advice(text, command("resume", outcome.list_file, *only))

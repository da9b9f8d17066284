"""What is shown after work: of `migrate`, `resume`, `finish`, `undo` and `verify`; and `status`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from . import report_problems
from .report_table import Column
from .report_units import bytes_text, count_text, duration_text, node_text, rate_text, safe

if TYPE_CHECKING:
    from .report import Page

_NODES: Final = 20
"""Nodes that `status` lists; those with errors and those under way come first."""
_URGENCY: Final = {"failed": 0, "refused": 1, "running": 2, "incomplete": 2, "pending": 3}
_COLUMNS: Final = (
    Column(title="node"),
    Column(title="kind"),
    Column(title="route"),
    Column(title="state"),
    Column(title="tasks", right=True),
    Column(title="bytes", right=True),
    Column(title="error", wraps=True),
)


def outcome_lines(outcome: Any, page: Page) -> Iterator[str]:
    """What a migration did, what it could not do, and what comes next."""
    yield from page.paragraph(_headline(outcome), hang=2, tone="good" if well(outcome) else "warning")
    if outcome.problems:
        yield from report_problems.lines(outcome.problems, page)
    yield from _next(outcome, page)


def well(outcome: Any) -> bool:
    """Whether nothing was refused and nothing failed."""
    return outcome.state != "incomplete" and not any(p.severity == "refusal" for p in outcome.problems)


def _headline(outcome: Any) -> str:
    state = outcome.state
    time = duration_text(outcome.seconds)
    if state == "nothing to do":
        return "Nothing to do: this migration was already complete, and nothing was changed."
    if state == "undone":
        return f"Undone in {time}: what the job wrote is gone, what it deleted is back."
    if state == "finished":
        return f"Finished in {time}: the legacy metadata is gone; the job file keeps a copy."
    refused = outcome.arrays_total - outcome.arrays_done
    head = "Done" if state == "done" else "Incomplete"
    of = "" if not refused else f" of {count_text(outcome.arrays_total)}"
    text = (
        f"{head}: {count_text(outcome.arrays_done)}{of} "
        f"{'array' if outcome.arrays_total == 1 else 'arrays'} and {count_text(outcome.groups_done, 'group')}"
    )
    if outcome.chunks or outcome.bytes_in:
        text += f"; {count_text(outcome.chunks, 'chunk')}, {bytes_text(outcome.bytes_in)} read"
        text += f", {bytes_text(outcome.bytes_out)} written"
    text += f" in {time}"
    rate = rate_text(outcome.bytes_in, outcome.seconds)
    return f"{text} ({rate})." if rate else f"{text}."


def _next(outcome: Any, page: Page) -> Iterator[str]:
    plan = outcome.plan
    if outcome.state == "incomplete":
        yield from page.paragraph(
            f"Once the cause is gone, go on with: {command('resume', outcome.job)}", hang=2
        )
    elif outcome.state == "done" and plan is not None and plan.in_place:
        full = command("verify", outcome.job, "--full")
        yield from page.paragraph(f"To compare every value: {full}", hang=2)
        yield from page.paragraph(
            f"To remove the legacy metadata: {command('finish', outcome.job)}; "
            f"to take the new metadata away: {command('undo', outcome.job)}",
            hang=2,
        )
    elif outcome.state == "done" and plan is not None:
        text = command("verify", plan.source, plan.destination, "--full")
        yield from page.paragraph(f"To compare every value: {text}", hang=2)


def command(*words: str) -> str:
    """A command line that can be pasted into a shell."""
    return "zarrlift " + " ".join(shlex.quote(safe(word)) for word in words)


def status_lines(status: Any, page: Page) -> Iterator[str]:
    """How far a job is."""
    where = "in place" if status.in_place else f"-> {safe(status.destination)}"
    yield from page.paragraph(f"{safe(status.source)} {where}", hang=2, tone="title")
    yield from page.pairs(
        (
            ("state", status.state),
            ("job", safe(status.job)),
            ("created", str(status.created)),
            ("updated", str(status.updated)),
        )
    )
    rows = sorted(status.nodes, key=lambda row: (_URGENCY.get(row.state, 4), row.path))
    arrays = [row for row in rows if row.kind == "array"]
    counts = Counter(row.state for row in rows)
    yield ""
    shown = rows if page.everything else rows[:_NODES]
    yield from page.table(_COLUMNS, (_status_row(row) for row in shown))
    if len(shown) < len(rows):
        yield f"  and {count_text(len(rows) - len(shown), 'more node')} (--all shows them)"
    yield ""
    states = ", ".join(f"{count_text(count)} {state}" for state, count in sorted(counts.items()))
    done = sum(row.bytes_done or 0 for row in arrays)
    total = sum(row.bytes_total or 0 for row in arrays)
    yield f"{count_text(len(rows), 'node')}: {states}; {bytes_text(done)} of {bytes_text(total)}."
    if status.state == "incomplete":
        yield f"Go on with: {command('resume', status.job)}"


def _status_row(row: Any) -> tuple[str, ...]:
    tasks = f"{count_text(row.tasks_done)}/{count_text(row.tasks_total)}" if row.tasks_total else ""
    size = f"{bytes_text(row.bytes_done or 0)} of {bytes_text(row.bytes_total)}" if row.bytes_total else ""
    return (
        node_text(row.path),
        row.kind,
        str(row.route or ""),
        row.state,
        tasks,
        size,
        safe(str(row.error)) if row.error else "",
    )


def verification_lines(report: Any, page: Page) -> Iterator[str]:
    """Whether the two sides say the same, and what was looked at."""
    counted = (f"{count_text(int(count))} {name.replace('_', ' ')}" for name, count in report.counts.items())
    counts = ", ".join(counted)
    looked = f" Compared: {counts}." if counts else ""
    if report.ok:
        yield from page.paragraph(f"Equal.{looked}", hang=2, tone="good")
    else:
        yield from page.paragraph(f"Not equal.{looked}", hang=2, tone="bad")
    yield from report_problems.lines(report.problems, page)

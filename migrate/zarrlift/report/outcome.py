"""What is shown after work: of `migrate`, `resume`, `finish`, `undo` and `verify`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import problems as report_problems
from .units import bytes_text, count_text, duration_text, rate_text, safe

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..outcome import Outcome
    from ..verifying.report import VerificationReport
    from . import Page


def lines(outcome: Outcome, page: Page) -> Iterator[str]:
    """What a call did, what it could not do, and what comes next."""
    yield from page.paragraph(_headline(outcome), hang=2, tone="good" if outcome.ok else "warning")
    yield from _problems(outcome, page)
    for text, words in _next(outcome):
        yield from page.advice(text, command(*words)) if words else page.paragraph(text)


def _problems(outcome: Outcome, page: Page) -> Iterator[str]:
    """What was refused before the work, what failed in it, and the plan's warnings."""
    planned: tuple[Problem, ...] = ()
    if outcome.plan is not None and outcome.state in ("done", "incomplete"):
        planned = outcome.plan.all_problems()
    known = set(planned)
    refused = [problem for problem in outcome.problems if problem in known]
    failed = [problem for problem in outcome.problems if problem not in known]
    yield from report_problems.lines(refused, page, refusal="refused")
    yield from report_problems.lines(failed, page, refusal="failed")
    # Notes were for the plan; a warning changes what the result is worth, so it is said again.
    said = set(outcome.problems)
    again = (problem for problem in planned if problem.severity == "warning" and problem not in said)
    yield from report_problems.lines(again, page)


def command(*words: str) -> str:
    """A command line that can be pasted into a shell."""
    return "zarrlift " + " ".join(shlex.quote(safe(word)) for word in words)


def _headline(outcome: Outcome) -> str:
    time = duration_text(outcome.seconds)
    match outcome.state:
        case "nothing to do":
            return "Nothing to do: this job is complete already. Nothing was changed."
        case "undone":
            back = f", {count_text(outcome.restored, 'document')} restored" if outcome.restored else ""
            return f"Undone: {count_text(outcome.removed, 'object')} of this job removed{back} in {time}."
        case "finished":
            gone = count_text(outcome.removed, "legacy document")
            return f"Finished: {gone} removed in {time}. The job file keeps a copy of each."
        case "incomplete" if any(problem.kind == "changed" for problem in outcome.problems):
            return "Not finished: the archive is not as the job left it."
        case state:
            return f"{_arrays(outcome, state)}{_moved(outcome)} in {time}{_rate(outcome)}."


def _arrays(outcome: Outcome, state: str) -> str:
    done = count_text(outcome.arrays_done)
    if outcome.arrays_done != outcome.arrays_total:
        done += f" of {count_text(outcome.arrays_total)}"
    noun = "array" if outcome.arrays_total == 1 else "arrays"
    return f"{state.capitalize()}: {done} {noun}, {count_text(outcome.groups_done, 'group')}"


def _moved(outcome: Outcome) -> str:
    if not outcome.chunks:
        return ""
    dropped = f", {count_text(outcome.dropped)} left out as empty" if outcome.dropped else ""
    dropped += f", {count_text(outcome.filled)} filled up" if outcome.filled else ""
    read, written = bytes_text(outcome.bytes_in), bytes_text(outcome.bytes_out)
    return f"; {count_text(outcome.chunks, 'chunk')}{dropped}; {read} read, {written} written"


def _rate(outcome: Outcome) -> str:
    rate = rate_text(outcome.bytes_in, outcome.seconds)
    return f" ({rate})" if rate else ""


def _next(outcome: Outcome) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What may come next: text, and the words of a command."""
    plan = outcome.plan
    if outcome.state == "incomplete":
        if any(problem.kind == "changed" for problem in outcome.problems):
            yield "Nothing was removed.", ()  # `finish` met what a job cannot vouch for
            return
        if plan is not None and plan.in_place and not outcome.groups_done:
            yield "No group document was written, so the archive reads as before.", ()
        yield "Once the cause is gone:", ("resume", outcome.job)
    elif outcome.state == "done" and plan is not None and plan.in_place:
        yield "To compare every value:", ("verify", outcome.job, "--full")
        yield "To remove the legacy metadata, after a verification:", ("finish", outcome.job)
        yield "To take the new metadata away again:", ("undo", outcome.job)
    elif outcome.state == "done" and plan is not None:
        yield "To compare every value:", ("verify", plan.source, plan.destination, "--full")


def verification_lines(report: VerificationReport, page: Page) -> Iterator[str]:
    """Whether the two sides say the same, and what was looked at."""
    looked = ", ".join(
        f"{bytes_text(count)} of values" if name == "bytes" else count_text(count, name.removesuffix("s"))
        for name, count in report.counts.items()
    )
    how = "every value" if report.full else "documents and a sample of chunks"
    if report.ok:
        head = f"Equal. Compared {how}: {looked}."
        yield from page.paragraph(head, hang=2, tone="good")
        if not report.full:
            yield "With --full every value is compared."
    else:
        nodes = count_text(len(report.differences), "node")
        many = count_text(sum(count for _, count in report.differences), "difference")
        head = f"Not equal: {many} at {nodes}. Compared {how}: {looked}."
        yield from page.paragraph(head, hang=2, tone="bad")
    yield from report_problems.lines(report.problems, page, refusal="differs")

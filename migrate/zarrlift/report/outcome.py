"""The output of `migrate`, `resume`, `finish`, `undo` and `verify`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..core.problems import command
from ..core.units import bytes_text, count_text, duration_text, node_text, rate_text, safe
from . import blocks as b

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem
    from zarrstack.core.json_text import JSONObject

    from ..jobs.outcome import Outcome
    from ..verification.archives import VerificationReport


_NODES: Final = (b.Column(title="node"), b.Column(title="differences", right=True))
_CHANGED_METADATA: Final = ("attributes", "convention")
"""Kinds of notes that the report on a result repeats from the plan."""
_BRIEFLY: Final = 10
"""Maximum number of problems printed as one line each."""


def blocks(outcome: Outcome, *, whole: bool = False) -> Iterator[b.Block]:
    """The result of a call, caveats, and the next step; `problem_blocks` only with `whole`."""
    yield b.Title(headline(outcome), tone="good" if outcome.ok else "warning")
    if whole:
        yield from problem_blocks(outcome)
    notes = [problem for problem in outcome.problems if problem.severity != "refusal"]
    warnings = [problem for problem in _planned(outcome) if _matters(problem, outcome)]
    yield b.Problems.of(dict.fromkeys((*notes, *warnings)))
    for text, words in _next(outcome):
        yield b.Advice(text, command(*words, *outcome.options)) if words else b.Text(text)


def notebook_blocks(outcome: Outcome) -> Iterator[b.Block]:
    """The same with the places, and the arrays as they were planned."""
    from .plan import nodes

    yield from blocks(outcome, whole=True)
    plan = outcome.plan
    places = () if plan is None else (("from", safe(plan.source)), ("to", safe(plan.destination)))
    retries = count_text(outcome.retries, "request") if outcome.retries else ""
    yield b.Pairs((*places, ("job", safe(outcome.job)), ("retries", retries)))
    if plan is not None:
        yield from nodes(plan)


def problem_blocks(outcome: Outcome, logged_problems: Collection[JSONObject] = ()) -> Iterator[b.Block]:
    """Refusals made before the work, and failures during it.

    The `logged_problems` were shown as they happened, without advice: only their advice follows.
    """
    refused, failed = _wrong(outcome)
    yield b.Problems.of(refused, "refused")
    yield from unlogged([(None, problem) for problem in failed], logged_problems, "failed")


def unlogged(
    wrong: Sequence[tuple[str | None, Problem]], logged_problems: Collection[JSONObject], word: str
) -> Iterator[b.Block]:
    """The problems of archives that were not shown, and the advice of the others."""
    places = {_place(problem) for problem in logged_problems}
    others = [(archive, problem) for archive, problem in wrong if _place(problem.to_json()) not in places]
    yield b.Problems(problems=others, refusal=word)
    printed_advice = {problem.advice for _, problem in others}
    advice = dict.fromkeys(problem.advice for _, problem in wrong if problem.advice not in printed_advice)
    for text in advice:
        if text is not None:
            yield b.Text(safe(text), indent=2, hang=4)


def not_in(problems: Iterable[Problem], logged_problems: Collection[JSONObject]) -> list[Problem]:
    """Those that were not shown, with whatever advice."""
    places = {_place(problem) for problem in logged_problems}
    return [problem for problem in problems if _place(problem.to_json()) not in places]


def _place(problem: JSONObject) -> tuple[Any, ...]:
    return tuple(problem.get(name) for name in ("kind", "node", "key", "message", "found"))


def brief_lines(outcome: Outcome, logged_problems: Collection[JSONObject] = ()) -> Iterator[str]:
    """The outcome and the first problems not in `logged_problems`, one line each; empty on success."""
    if outcome.ok:
        return
    yield headline(outcome)
    refused, failed = _wrong(outcome)
    failed = not_in(failed, logged_problems)
    for problem in (*refused, *failed)[:_BRIEFLY]:
        yield safe(str(replace(problem, advice=None)))
    if (rest := len(refused) + len(failed) - _BRIEFLY) > 0:
        yield f"and {count_text(rest)} more"


def _planned(outcome: Outcome) -> tuple[Problem, ...]:
    if outcome.plan is None or outcome.state not in ("done", "incomplete"):
        return ()
    return outcome.plan.all_problems()


def _matters(problem: Problem, outcome: Outcome) -> bool:
    """Whether the report on a result repeats a planned problem: warnings, and changed or lost metadata."""
    if outcome.state != "done" or problem.severity != "note":
        return problem.severity == "warning"
    is_lost = problem.kind == "stray" and outcome.plan is not None and not outcome.plan.in_place
    return is_lost or problem.kind in _CHANGED_METADATA


def _wrong(outcome: Outcome) -> tuple[list[Problem], list[Problem]]:
    """(refused, failed)"""
    planned = set(_planned(outcome))
    wrong = [problem for problem in outcome.problems if problem.severity == "refusal"]
    refused = [problem for problem in wrong if problem in planned]
    return refused, [problem for problem in wrong if problem not in planned]


def headline(outcome: Outcome) -> str:
    """The result in one sentence."""
    time = duration_text(outcome.seconds)
    match outcome.state:
        case "nothing to do" if _is_outdated(outcome):
            return "Not up to date: the source has changed since this job has copied it. Nothing was changed."
        case "nothing to do":
            return "Nothing to do: this job is already complete. Nothing was changed."
        case "undone":
            back = f", {count_text(outcome.restored, 'document')} restored" if outcome.restored else ""
            return f"Undone: {count_text(outcome.removed, 'object')} of this job removed{back} in {time}."
        case "finished" if outcome.plan is not None and not outcome.plan.in_place:
            if outcome.removed:  # of an Icechunk repository
                return f"Finished: {count_text(outcome.removed, 'array')} left out; readers see all others."
            return "Finished: the job file is removed. The result can no longer be undone or updated."
        case "finished":
            count = count_text(outcome.removed, "legacy document")
            return f"Finished: {count} removed in {time}. The job file keeps a copy of each."
        case "incomplete" if any(problem.kind == "changed" for problem in outcome.problems):
            return "Not finished: the archive has changed since the job ended."
        case state:
            wrong = f", {text}" if (text := _counts(outcome)) else ""
            return f"{_arrays(outcome, state)}{wrong}{_amounts(outcome)}."


def _is_outdated(outcome: Outcome) -> bool:
    """Whether a job is complete, and its source has changed since."""
    changed = any(problem.kind == "source-changed" for problem in outcome.problems)
    return outcome.state == "nothing to do" and changed and not outcome.ok


def _arrays(outcome: Outcome, state: str) -> str:
    done = count_text(outcome.arrays_done)
    if outcome.arrays_done != outcome.arrays_total:
        done += f" of {count_text(outcome.arrays_total)}"
    noun = "array" if outcome.arrays_total == 1 else "arrays"
    return f"{state.capitalize()}: {done} {noun}, {count_text(outcome.groups_done, 'group')}"


def _counts(outcome: Outcome) -> str:
    """`1 refusal, 2 failures`"""
    refused, failed = _wrong(outcome)
    counts = ((len(refused), "refusal"), (len(failed), "failure"))
    return ", ".join(count_text(count, name) for count, name in counts if count)


def _amounts(outcome: Outcome) -> str:
    """The whole result, once there is one, with the time of all runs; and what this call has moved."""
    from .status import moved_text, result_text

    dropped = f", {count_text(outcome.dropped, 'chunk')} omitted as empty" if outcome.dropped else ""
    dropped += f", {count_text(outcome.filled, 'chunk')} filled up" if outcome.filled else ""
    rate = rate_text(outcome.bytes_in, outcome.seconds)
    ended = f"{dropped} in {duration_text(outcome.seconds)}" + (f" ({rate})" if rate else "")
    moved = moved_text(outcome.chunks, outcome.bytes_in, outcome.bytes_out)
    whole, plan = outcome.whole, outcome.plan
    if whole is None:
        return (f"; {moved}" if moved else "") + ended
    result = result_text(whole, in_place=plan is not None and plan.in_place)
    result = f"; {result}" if whole.objects_before != 0 else ""
    if outcome.runs == 1:
        return result + ended
    more = f"; this run: {moved}{ended}" if moved else ""
    return f"{result} in {duration_text(outcome.seconds_in_all)}{more}"


def _next(outcome: Outcome) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Possible next steps: text and command line arguments."""
    plan = outcome.plan
    if outcome.state == "incomplete":
        if any(problem.kind == "changed" for problem in outcome.problems):
            yield "Nothing was removed.", ()  # `finish` found objects that the job cannot account for
            return
        if plan is not None and plan.in_place and not outcome.groups_done:
            yield "No group document was written, so readers see the archive as before.", ()
        yield "After the cause is fixed:", ("resume", outcome.job)
    elif _is_outdated(outcome):
        yield "To take over what has changed:", ("update", outcome.job)
    elif outcome.state == "done" and plan is not None and plan.in_place:
        yield "To compare every value:", ("verify", outcome.job, "--full")
        yield "To remove the legacy metadata, after a verification:", ("finish", outcome.job)
        yield "To remove the new metadata:", ("undo", outcome.job)
    elif outcome.state == "done" and plan is not None:
        yield "To compare every value:", ("verify", plan.source, plan.destination, "--full")


def verification_brief_lines(report: VerificationReport) -> Iterator[str]:
    """One line if the two sides differ; empty if they do not."""
    if not report.ok:
        yield _differences(report)


def _share_compared(share: float) -> str:
    """A share from 0 to 1: `100 %`, `3.2 %`, `less than 0.1 %`; never rounded up to all."""
    if share < 0.001:
        return "less than 0.1 %"
    return "100 %" if share == 1 else f"{min(math.floor(1000 * share) / 10, 99.9):g} %"


def _differences(report: VerificationReport) -> str:
    nodes = count_text(len(report.differences), "node")
    many = count_text(sum(count for _, count in report.differences), "difference")
    return f"Not equal: {many} at {nodes}."


def verification_blocks(report: VerificationReport) -> Iterator[b.Block]:
    """The result and the extent of a comparison."""
    looked = ", ".join(
        f"{bytes_text(count)} of values" if name == "bytes" else count_text(count, name.removesuffix("s"))
        for name, count in report.counts.items()
    )
    how = "documents, names and sizes, and a sample of chunks"
    if report.full:
        how = "every value"
    elif not report.listed:
        how = "documents and a sample of chunks"
    if not report.full and report.counts.get("bytes"):
        looked += f" ({_share_compared(report.share)} of the stored values)"
    if report.ok:
        yield b.Title(f"Equal. Compared {how}: {looked}.", tone="good")
        if not report.full:
            yield b.Text("Use --full to compare every value.")
    else:
        yield b.Title(f"{_differences(report)} Compared {how}: {looked}.", tone="bad")
    yield b.Pairs((("source", safe(report.source)), ("destination", safe(report.destination))))
    yield b.Problems.of(report.problems, "differs")
    yield b.Section(title="Nodes that differ", on="pages")
    yield b.Table(columns=_NODES, items=report.differences, row=_differing, what="node")


def _differing(node: tuple[str, int]) -> tuple[str, str]:
    return node_text(node[0]), count_text(node[1])

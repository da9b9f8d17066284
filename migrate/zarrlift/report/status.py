"""What `zarrlift status` shows of a job, briefly or array by array, and the page of a job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ..core.format_table import FORMATS
from ..core.problems import command
from ..core.units import (
    amounts_text,
    bytes_text,
    change_text,
    count_text,
    duration_text,
    moment_text,
    node_names,
    node_text,
    pace_texts,
    safe,
    shape_text,
    share_text,
)
from ..storage.unanswered import Unanswered
from . import blocks as b

if TYPE_CHECKING:
    from ..jobs.status import ArrayStatus, Status, Totals

_ARRAYS: Final = 20
"""Maximum number of arrays with a row each, failed ones first; of more, those alike have a row together."""
_URGENCY: Final = {"failed": 0, "refused": 1, "pending": 2, "done": 3}
_PROGRESS: Final = (
    b.Column(title="array"),
    b.Column(title="state", is_state=True),
    b.Column(title="route", spare=2),
    b.Column(title="tasks", right=True, spare=1),
    b.Column(title="bytes", right=True),
)
_RESULTS: Final = (
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
)


def blocks(
    status: Status, *, verbose: bool = False, html: str | None = None, before: Iterable[b.Block] = ()
) -> Iterator[b.Block]:
    """The report on a job: its progress, or with `verbose` what it did and all notes.

    `html` is the place of its page, which has `before` above its arrays.
    """
    where = "in place" if status.in_place else f"-> {safe(status.destination)}"
    yield b.Title(f"{safe(status.source)} {where}")
    yield b.Pairs([*_facts(status, verbose=verbose)])
    yield from before
    if verbose:
        yield b.Section(title="Bytes by route", on="pages")
        yield b.Table(columns=_ROUTES, items=[*status.routes.items()], row=_route_row, what="route")
    yield b.Section(title="Arrays")
    if verbose:
        yield b.Table(
            columns=_RESULTS, items=status.arrays, row=_result_row, most=_ARRAYS, what="array", more=_details
        )
    else:
        urgent = sorted(status.arrays, key=lambda array: (_URGENCY[array.state], array.path))
        yield b.Table(
            columns=_PROGRESS, items=urgent, row=_progress_row, most=_ARRAYS, what="array", alike=_alike
        )
    yield b.Section(title="Problems")
    shown = [problem for problem in status.problems if verbose or problem.severity != "note"]
    yield b.Problems.of(shown, "refused or failed")
    yield b.Section()
    yield b.Summary(summary_text(status))
    yield from _advice(status)
    if html is not None:
        yield b.Section(on="text")
        yield b.Text(f"Page: {safe(html)}", hang=2)
    if verbose:
        yield b.Section(title="Job", on="pages")
        yield b.Pairs(tuple(_job(status)))
        yield b.Document("recipe", status.recipe)


def _facts(status: Status, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Names and texts of what is known of the job as a whole; some texts are empty."""
    yield "state", _state(status)
    yield "done", amount_text(status)
    if verbose or status.state in ("done", "finished"):
        yield from _results(status, verbose=verbose)
    yield "retries", count_text(status.retries, "request") if status.retries else ""
    yield "compared", status.checked or ""
    yield "verified", {None: "no", "sample": "a sample"}.get(status.verified, "every value")
    yield "job", safe(status.job)
    yield "created", moment_text(status.created)
    yield "updated", moment_text(status.updated)


def _results(status: Status, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """What the job did as a whole."""
    if status.totals.arrays:
        yield "result", result_text(status.totals, in_place=status.in_place)
    if verbose:
        routes = status.routes.items()
        yield "routes", ", ".join(f"{name} {count_text(sums.arrays)}" for name, sums in routes)
    yield "time", duration_text(status.seconds)
    if (update := status.last_update) is not None:
        moved = moved_text(update.objects_done or 0, update.bytes_done or 0, update.bytes_written or 0)
        yield "update", f"{count_text(update.arrays, 'array')}, {moved or 'metadata only'}"


def result_text(totals: Totals, *, in_place: bool) -> str:
    """Objects and bytes of a result before and after, as far as they are known; only once `in_place`."""
    objects = [_figure(count, count_text) for count in (totals.objects_before, totals.objects_after)]
    sizes = [_figure(size, bytes_text) for size in (totals.bytes_before, totals.bytes_after)]
    return amounts_text(objects[in_place:], sizes[in_place:])


def moved_text(objects: int, read: int, written: int) -> str:
    """What was moved; "" without objects."""
    if not objects:
        return ""
    return f"{count_text(objects, 'object')}, {bytes_text(read)} read, {bytes_text(written)} written"


def _figure(number: int | None, text: Callable[[int], str]) -> str:
    return "unknown" if number is None else text(number)


def _state(status: Status) -> str:
    """The state of a job and who runs it."""
    process = f"process {status.process} on {safe(status.host or 'an unknown host')}"
    match status.activity:
        case "running":
            since = "" if status.began is None else f", since {moment_text(status.began)}"
            return f"running: {'a process' if status.process is None else process}{since}"
        case "stopped":
            return "incomplete, stopped"
        case "stale":
            return f"incomplete, stale: {process} was killed"
        case "unknown":
            return (
                f"incomplete: {process} started a run; this host cannot determine whether it is still running"
            )
    return status.state


def amount_text(status: Status) -> str:
    """Progress of a running job, its rate and the remaining time."""
    if status.activity != "running" or not status.bytes_total:
        return ""
    share = share_text(status.bytes_done, status.bytes_total, estimated=not status.bytes_known)
    return ", ".join((share, *_pace(status)))


def _pace(status: Status) -> list[str]:
    """The rate, the remaining time and a server that does not answer, as far as they are known."""
    texts = pace_texts(status.rate, status.seconds_left)
    if status.silent_since is not None and status.silent_attempt is not None:
        seconds = max(time.time() - status.silent_since, 0.0)
        texts.append(str(Unanswered(seconds, status.silent_attempt, status.silent_errors)))
    return texts


def progress_line(status: Status) -> str:
    """The progress of a job in one line."""
    failed = sum(array.state == "failed" for array in status.arrays)
    parts = [f"{time.strftime('%Y-%m-%d %H:%M:%S')} {status.activity or status.state}"]
    if status.bytes_total:
        parts.append(share_text(status.bytes_done, status.bytes_total))
    parts.append(f"{count_text(status.arrays_done)} of {count_text(len(status.arrays), 'array')}")
    if failed:
        parts.append(f"{count_text(failed)} failed")
    if status.retries:
        parts.append(f"{count_text(status.retries, 'request')} repeated")
    return ", ".join(parts + _pace(status))


def summary_text(status: Status) -> str:
    """One sentence: arrays by state, groups, and bytes."""
    counts: Counter[str] = Counter(array.state for array in status.arrays)
    states = ", ".join(f"{count_text(counts[state])} {state}" for state in _URGENCY if counts[state])
    groups = f"; {count_text(status.groups_done)} of {count_text(status.groups_total, 'group')} done"
    moved = f"; {_bytes(status)}" if status.bytes_total else ""
    return f"{count_text(len(status.arrays), 'array')}: {states or 'none'}{groups}{moved}."


def _advice(status: Status) -> Iterator[b.Block]:
    """What was undone, or how to continue."""
    if status.state == "undone":
        yield b.Text("Everything the job wrote was removed.")
    elif status.undoing:
        yield b.Advice("It is being undone. Continue with:", command("undo", status.job, *status.options))
    elif status.state == "incomplete" and status.activity != "running":
        when = "After the cause is fixed:"
        if status.activity == "unknown":
            when = "If that process has ended:"
        elif any(array.state == "pending" for array in status.arrays):
            when = "Continue with:"
        yield b.Advice(when, command("resume", status.job, *status.options))


def _alike(array: ArrayStatus) -> object:
    """Arrays with the same state and route are alike, unless they have begun."""
    begun = 0 < array.tasks_done < array.tasks_total
    return array.path if begun else (array.state, array.route)


def _progress_row(*arrays: ArrayStatus) -> tuple[str, ...]:
    first = arrays[0]
    done, total = (sum(getattr(array, name) for array in arrays) for name in ("tasks_done", "tasks_total"))
    return (
        node_names((array.path for array in arrays), 1),
        first.state,
        first.route or "",
        f"{count_text(done)}/{count_text(total)}" if total else "",
        _bytes(*arrays) if any(array.bytes_total for array in arrays) else "",
    )


def _bytes(*of: ArrayStatus | Status) -> str:
    done, total = sum(each.bytes_done for each in of), sum(each.bytes_total for each in of)
    return f"{bytes_text(done)} of {bytes_text(total, estimated=not all(each.bytes_known for each in of))}"


def _result_row(array: ArrayStatus) -> tuple[str, ...]:
    return (
        node_text(array.path),
        array.state,
        array.route or "",
        count_text(array.objects_before) if array.route else "",
        *("" if size is None else bytes_text(size) for size in (array.bytes_before, array.bytes_after)),
    )


def _route_row(route: tuple[str, Totals]) -> tuple[str, ...]:
    name, sums = route
    objects = _figure(sums.objects_before, count_text)
    sizes = (_figure(size, bytes_text) for size in (sums.bytes_before, sums.bytes_after))
    return f"{name}: {b.ROUTES[name]}", count_text(sums.arrays), objects, *sizes


def _details(array: ArrayStatus) -> Iterator[b.Block]:
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


def _job(status: Status) -> Iterator[tuple[str, str]]:
    yield "format", FORMATS[status.format].title
    yield from ((seen.name, seen.summary) for seen in status.conventions)
    yield "host", safe(status.host or "")
    yield "excluded", count_text(status.excluded, "node") if status.excluded else ""
    yield from status.requested.items()
    yield "versions", ", ".join(f"{name} {version}" for name, version in status.versions.items())

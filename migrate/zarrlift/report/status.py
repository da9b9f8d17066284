"""The output of `zarrlift status`: the progress of a job and what prevents its completion."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.units import bytes_text, count_text, node_names, node_text, pace_texts, safe, share_text

from ..core.problems import command
from ..jobs.status import silence_of
from . import blocks as b

if TYPE_CHECKING:
    from ..jobs.status import NodeStatus, Status

_NODES: Final = 20
"""Maximum number of nodes with a row each, failed ones first; of more, those alike have a row together.

Also of errors.
"""
_URGENCY: Final = {"failed": 0, "refused": 1, "pending": 2, "done": 3}
_COLUMNS: Final = (
    b.Column(title="node"),
    b.Column(title="state", is_state=True),
    b.Column(title="route", spare=2),
    b.Column(title="tasks", right=True, spare=1),
    b.Column(title="bytes", right=True),
)


def blocks(status: Status) -> Iterator[b.Block]:
    """The report on a job."""
    where = "in place" if status.in_place else f"-> {safe(status.destination)}"
    yield b.Title(f"{safe(status.source)} {where}")
    yield b.Pairs(_facts(status))
    rows = sorted(status.nodes, key=lambda row: (_URGENCY.get(row.state, 2), row.path))
    yield b.Section(title="Nodes")
    yield b.Table(columns=_COLUMNS, items=rows, row=_row, most=_NODES, what="node", alike=_alike)
    yield b.Section(title="Errors")
    errors = [(row.state, node_text(row.path), safe(row.error)) for row in rows if row.error]
    yield b.Failures(errors, most=_NODES, what="error")
    yield b.Section()
    yield b.Problems.of(status.problems)
    yield b.Section()
    yield b.Summary(summary_text(status))
    if status.state == "undone":
        yield b.Text("Everything the job wrote was removed.")
    elif status.undoing:
        yield b.Advice("It is being undone. Continue with:", command("undo", status.job, *status.options))
    elif status.state == "incomplete" and status.activity != "running":
        yield b.Advice(_when_to_resume(status), command("resume", status.job, *status.options))


def _facts(status: Status) -> list[tuple[str, str]]:
    """Names and texts of what is known of the job as a whole; some texts are empty."""
    return [
        ("state", _state(status)),
        ("done", amount_text(status)),
        ("retries", count_text(status.retries, "request") if status.retries else ""),
        ("verified", {None: "no", "sample": "a sample"}.get(status.verified, "every value")),
        ("job", safe(status.job)),
        ("created", _moment(status.created)),
        ("updated", _moment(status.updated)),
    ]


def _state(status: Status) -> str:
    """The state of a job and who runs it."""
    process = f"process {status.process} on {safe(status.host or 'an unknown host')}"
    match status.activity:
        case "running":
            since = "" if status.began is None else f", since {_moment(status.began)}"
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
    """The rate, the remaining time and the silence of a server, as far as they are known."""
    silence = silence_of(status, time.time())
    return [*pace_texts(status.rate, status.seconds_left), *([] if silence is None else [str(silence)])]


def progress_line(status: Status) -> str:
    """The progress of a job in one line."""
    arrays = [node for node in status.nodes if node.kind == "array"]
    done, failed = (sum(node.state == state for node in arrays) for state in ("done", "failed"))
    parts = [f"{time.strftime('%Y-%m-%d %H:%M:%S')} {status.activity or status.state}"]
    if status.bytes_total:
        parts.append(share_text(status.bytes_done, status.bytes_total))
    parts.append(f"{count_text(done)} of {count_text(len(arrays), 'array')}")
    if failed:
        parts.append(f"{count_text(failed)} failed")
    if status.retries:
        parts.append(f"{count_text(status.retries, 'request')} repeated")
    parts += _pace(status)
    return ", ".join(parts)


def _when_to_resume(status: Status) -> str:
    if status.activity == "unknown":
        return "If that process has ended:"
    if any(row.state == "pending" and row.kind == "array" for row in status.nodes):
        return "Continue with:"
    return "After the cause is fixed:"


def _alike(row: NodeStatus) -> object:
    """Nodes with the same state and route are alike, unless they have begun."""
    begun = 0 < row.tasks_done < row.tasks_total
    return row.path if begun else (row.state, row.kind, row.route)


def _row(*rows: NodeStatus) -> tuple[str, ...]:
    first = rows[0]
    done, total = sum(row.tasks_done for row in rows), sum(row.tasks_total for row in rows)
    return (
        node_names((row.path for row in rows), 1),
        first.state,
        first.route or ("group" if first.kind == "group" else ""),
        f"{count_text(done)}/{count_text(total)}" if total else "",
        _bytes(*rows) if any(row.bytes_total for row in rows) else "",
    )


def _bytes(*of: NodeStatus | Status) -> str:
    done, total = sum(each.bytes_done for each in of), sum(each.bytes_total for each in of)
    return f"{bytes_text(done)} of {bytes_text(total, estimated=not all(each.bytes_known for each in of))}"


def summary_text(status: Status) -> str:
    """One sentence: nodes by state, and bytes."""
    counts: Counter[str] = Counter(row.state for row in status.nodes)
    states = ", ".join(f"{count_text(counts[state])} {state}" for state in _URGENCY if counts[state])
    moved = f"; {_bytes(status)}" if status.bytes_total else ""
    return f"{count_text(len(status.nodes), 'node')}: {states or 'none'}{moved}."


def _moment(seconds: float) -> str:
    """Local time with UTC offset, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))

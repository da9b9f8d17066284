"""Rows of a ledger as frozen data: nodes and tasks, without their plans.

The plans of 100,000 arrays take half a second to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from zarrstack.core.errors import Problem

from ...planning.routes import RouteName

Kind: TypeAlias = Literal["array", "group", "refusal"]
State: TypeAlias = Literal["incomplete", "done", "finished", "undone"]
NodeState: TypeAlias = Literal["pending", "failed", "done", "refused"]
NODES: Final = """
SELECT id, path, kind, state, published_ns, problems, since FROM node
WHERE kind = coalesce(?, kind) AND (? OR state != 'done') ORDER BY path"""
PROGRESS: Final = """
SELECT id, path, kind, state, coalesce(problems, CASE kind WHEN 'refusal' THEN plan END), route,
    tasks, moves, bytes_in, bytes_known, reads, by_tasks FROM node"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node."""

    id: int
    path: str
    kind: Kind
    state: NodeState
    published_ns: int | None
    """Modification time of its `zarr.json` in nanoseconds, by the destination's clock."""
    problems: tuple[Problem, ...]
    since: int
    """The generation of the job from which on what parts record of it counts."""


class TaskTotals(NamedTuple):
    """Sums over the recorded tasks of a node."""

    tasks: int = 0
    chunks: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0


class RecordedTask(NamedTuple):
    """A recorded task."""

    chunks: int
    """Number of source objects moved; 0 for a first pass."""
    dropped: int
    """Number of those omitted as empty."""


class PlannedWork(NamedTuple):
    """The amount of work that an array needs, as far as its plan knows it."""

    tasks: int
    """Number of tasks, in both passes if there are two."""
    moves: bool
    """Whether the last pass has tasks."""
    bytes_in: int
    """Stored bytes to read; bytes that are read twice count twice."""
    bytes_known: bool
    """False if the bytes are an estimate."""
    reads: int
    """Number of reads of source objects, repeated ones included."""
    by_tasks: bool
    """Whether chunks do not measure the work: some may be missing, or those of two arrays are read."""


class NodeProgress(NamedTuple):
    """The work of a node, planned and recorded."""

    path: str
    kind: Kind
    state: NodeState
    problems: tuple[Problem, ...]
    """Why it is refused, or has failed."""
    route: RouteName | None
    """The route of an array's chunks."""
    work: PlannedWork
    done: TaskTotals


def node_row(values: Sequence[Any]) -> NodeRow:
    """A row that `NODES` selects."""
    number, path, kind, state, published, problems, since = values
    return NodeRow(
        id=number,
        path=as_text(path),
        kind=kind,
        state=state,
        published_ns=published,
        problems=_problems(problems) if problems else (),
        since=since,
    )


def progress_of(rows: Iterable[Any], totals: Mapping[int, TaskTotals]) -> Iterator[NodeProgress]:
    """The rows that `PROGRESS` selects, with the recorded work by node: a join in SQL takes twice as long."""
    nothing = TaskTotals()
    for number, path, kind, state, problems, route, tasks, moves, read, exact, reads, by_tasks in rows:
        yield NodeProgress(
            as_text(path),
            kind,
            state,
            _problems(problems) if problems else (),
            route,
            PlannedWork(tasks, bool(moves), read, bool(exact), reads, bool(by_tasks)),
            totals.get(number, nothing),
        )


def _problems(text: str) -> tuple[Problem, ...]:
    data = json.loads(text)  # the list of a failed node, or the plan of a refused one
    return tuple(map(Problem.from_json, data["problems"] if isinstance(data, dict) else data))


def as_stored(text: str) -> str | bytes:
    """A text as SQLite stores it: names that are not valid UTF-8 (PEP 383) as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def as_text(stored: str | bytes) -> str:
    """Inverse of `as_stored`."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")

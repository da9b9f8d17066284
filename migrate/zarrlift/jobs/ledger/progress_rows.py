"""The nodes of a job and their progress, without their plans: those of 100,000 arrays take half a second."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import Problem

from ...planning.routes import RouteName
from .plan_rows import as_text
from .rows import Kind, NodeRow, NodeState, PlannedWork, TaskTotals

NODES: Final = """
SELECT id, path, kind, state, published_ns, problems, since FROM node
WHERE kind = coalesce(?, kind) AND (? OR state != 'done') ORDER BY path"""
PROGRESS: Final = """
SELECT id, path, kind, state, coalesce(problems, CASE kind WHEN 'refusal' THEN plan END), route,
    tasks, moves, bytes_in, bytes_known, reads, by_tasks FROM node"""


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
    for number, path, kind, state, told, route, tasks, moves, read, known, reads, by_tasks in rows:
        yield NodeProgress(
            as_text(path),
            kind,
            state,
            _problems(told) if told else (),
            route,
            PlannedWork(tasks, bool(moves), read, bool(known), reads, bool(by_tasks)),
            totals.get(number, nothing),
        )


def _problems(told: str) -> tuple[Problem, ...]:
    data = json.loads(told)  # the list of a failed node, or the plan of a refused one
    return tuple(map(Problem.from_json, data["problems"] if isinstance(data, dict) else data))

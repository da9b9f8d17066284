"""The progress of a job, read from its ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from operator import attrgetter

from zarrstack.core.errors import Problem

from ..planning.plans import taken_over
from ..planning.routes import RouteName
from .ledger.last_run import LastRun, last_run
from .ledger.ledger import Job
from .ledger.rows import NodeProgress
from .option_words import option_words
from .route_rates import RouteRates
from .status import Activity, NodeStatus, PartStatus, Status
from .work_totals import total_bytes, work_left


def current_status(job: Job, parts: tuple[PartStatus, ...] = ()) -> Status:
    """The status of an open job, whose parts are given if it has some; only reads the job."""
    plan = job.header
    rows = sorted(job.progress(), key=attrgetter("path"))
    nodes = list(map(_node, rows))
    run = last_run(job)
    updated = float(job.fact("updated") or 0)
    now = activity(job.path, run) if job.state == "incomplete" else None
    done, total = sum(node.bytes_done for node in nodes), sum(node.bytes_total for node in nodes)
    rate = _rate(run, done, updated) if now == "running" else None
    retries = job.fact("retries")
    silent = json.loads((now == "running" and job.fact("silent")) or "[null, null, false]")
    if silent[0] is not None:
        rate = None
    return Status(
        job=str(job.path),
        source=plan["source"],
        destination=plan["destination"],
        state=job.state,
        in_place=plan["in_place"],
        nodes=tuple(nodes),
        created=float(job.fact("created") or 0),
        updated=updated,
        verified=job.fact("verified"),
        activity=now,
        options=option_words(job),
        undoing=job.fact("undoing") is not None,
        host=run.owner.host if run else None,
        process=run.owner.pid if run else None,
        began=run.began if run else None,
        bytes_done=done,
        bytes_total=total,
        bytes_known=all(node.bytes_known for node in nodes),
        rate=rate,
        parts=parts,
        problems=taken_over(map(Problem.from_json, plan["problems"])),
        silent_since=silent[0],
        silent_attempt=silent[1],
        silent_errors=silent[2],
        seconds_left=_seconds_left(job, rows) if rate else None,
        retries=int(retries) if retries and retries.isdecimal() else 0,
    )


def activity(path: os.PathLike[str], run: LastRun | None) -> Activity:
    """The activity of an incomplete job, from the process of its last run or from the lock on the file."""
    if run is not None and run.ended is not None:
        return "stopped"
    state = "unknown" if run is None else run.owner.state()
    if state == "running":
        return "running"
    if state == "unknown" and is_locked(path):
        return "running"
    if run is None:
        return "stopped"
    return "stale" if state == "ended" else "unknown"


def is_locked(path: os.PathLike[str]) -> bool:
    """Whether another process has locked a job file for writing.

    Some file systems share locks across hosts.
    """
    from ..storage.local import byte_locks

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return byte_locks.is_byte_locked(descriptor)
    finally:
        os.close(descriptor)


def _rate(run: LastRun | None, done: int, updated: float) -> float | None:
    """Average bytes per second since chunks started to move, according to the ledger."""
    if run is None or run.moving is None or updated <= run.moving or done <= run.bytes_before:
        return None
    return (done - run.bytes_before) / (updated - run.moving)


def _seconds_left(job: Job, rows: Iterable[NodeProgress]) -> float | None:
    """Time left by what is left of each route, at the rates that the run has recorded."""
    left: dict[RouteName, float] = {}
    for row in rows:
        if row.state == "pending" and row.route is not None:
            left[row.route] = left.get(row.route, 0.0) + work_left(row.work, row.done)
    return RouteRates.from_text(job.fact("route_rates") or "").seconds(left)


def _node(row: NodeProgress) -> NodeStatus:
    reasons = [problem for problem in row.problems if problem.severity == "refusal"]
    finished = row.state == "done"
    return NodeStatus(
        path=row.path,
        kind=row.kind,
        route=row.route,
        state=row.state,
        tasks_done=row.done.tasks,
        tasks_total=row.work.tasks,
        bytes_done=row.done.bytes_in,
        bytes_total=total_bytes(row.work, row.done, finished=finished),
        bytes_known=finished or row.work.bytes_known,
        error=str(reasons[0]) if reasons else None,
    )

"""The progress of a job, read from its ledger."""

from __future__ import annotations

import os
from pathlib import Path

from ..planning.plans import ArrayPlan, Refusal
from .ledger.last_run import LastRun, last_run
from .ledger.ledger import Job
from .ledger.rows import NodeRow, TaskTotals
from .option_words import option_words
from .status import Activity, NodeStatus, Status
from .work_totals import total_bytes, total_tasks


def current_status(job: Job) -> Status:
    """The status of an open job; only reads the job."""
    made = job.plan()
    totals = job.totals()
    plans = {array.path: array for array in made.arrays}
    refusals = {refusal.path: refusal for refusal in made.refusals}
    nodes = [
        _node(
            row,
            plans.get(row.path) if row.kind == "array" else None,
            refusals.get(row.path) if row.kind == "refusal" else None,
            totals.get(row.id, TaskTotals()),
        )
        for row in job.nodes()
    ]
    run = last_run(job)
    updated = float(job.fact("updated") or 0)
    activity = _activity(job, run) if job.state == "incomplete" else None
    done, total = sum(node.bytes_done for node in nodes), sum(node.bytes_total for node in nodes)
    rate = _rate(run, done, updated) if activity == "running" else None
    return Status(
        job=str(job.path),
        source=made.source,
        destination=made.destination,
        state=job.state,
        in_place=made.in_place,
        nodes=tuple(nodes),
        created=float(job.fact("created") or 0),
        updated=updated,
        verified=job.fact("verified"),
        activity=activity,
        options=option_words(job),
        undoing=job.fact("undoing") is not None,
        host=run.owner.host if run else None,
        process=run.owner.pid if run else None,
        began=run.began if run else None,
        bytes_done=done,
        bytes_total=total,
        bytes_known=all(node.bytes_known for node in nodes),
        rate=rate,
        seconds_left=(total - done) / rate if rate else None,
    )


def _activity(job: Job, run: LastRun | None) -> Activity:
    """The activity of an incomplete job, from the process of its last run or from the lock on its file."""
    if run is not None and run.ended is not None:
        return "stopped"
    state = "unknown" if run is None else run.owner.state()
    if state == "running":
        return "running"
    if state == "unknown" and _is_locked(job.path):
        return "running"
    if run is None:
        return "stopped"
    return "stale" if state == "ended" else "unknown"


def _is_locked(path: Path) -> bool:
    """Whether another process has locked a job file for writing.

    Some file systems share locks across hosts.
    """
    from zarrstack.system import file_locks

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return file_locks.is_held(descriptor)
    finally:
        os.close(descriptor)


def _rate(run: LastRun | None, done: int, updated: float) -> float | None:
    """Average bytes per second since chunks started to move, according to the ledger."""
    if run is None or run.moving is None or updated <= run.moving or done <= run.bytes_before:
        return None
    return (done - run.bytes_before) / (updated - run.moving)


def _node(row: NodeRow, array: ArrayPlan | None, refusal: Refusal | None, done: TaskTotals) -> NodeStatus:
    problems = row.problems if refusal is None else refusal.problems
    blame = [problem for problem in problems if problem.severity == "refusal"]
    finished = row.state == "done"
    return NodeStatus(
        path=row.path,
        kind=row.kind,
        route=array.route.name if array else None,
        state=row.state,
        tasks_done=done.tasks,
        tasks_total=total_tasks(array) if array else 0,
        bytes_done=done.bytes_in,
        bytes_total=total_bytes(array, done, finished=finished) if array else 0,
        bytes_known=finished or array is None or array.bytes_in_known,
        error=str(blame[0]) if blame else None,
    )

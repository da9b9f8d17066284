"""The progress of a job, read from its ledger."""

from __future__ import annotations

import os
from operator import attrgetter

from .ledger.last_run import LastRun, last_run
from .ledger.ledger import Job
from .ledger.progress_rows import NodeProgress
from .option_words import option_words
from .status import Activity, NodeStatus, PartStatus, Status
from .work_totals import total_bytes


def current_status(job: Job, parts: tuple[PartStatus, ...] = ()) -> Status:
    """The status of an open job, whose parts are given if it has some; only reads the job."""
    plan = job.header
    nodes = sorted(map(_node, job.progress()), key=attrgetter("path"))
    run = last_run(job)
    updated = float(job.fact("updated") or 0)
    now = activity(job, run) if job.state == "incomplete" else None
    done, total = sum(node.bytes_done for node in nodes), sum(node.bytes_total for node in nodes)
    rate = _rate(run, done, updated) if now == "running" else None
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
        seconds_left=(total - done) / rate if rate else None,
    )


def activity(job: Job, run: LastRun | None) -> Activity:
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


def _is_locked(path: os.PathLike[str]) -> bool:
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

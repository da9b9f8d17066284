"""`status`: the progress of a job as frozen data, read from its file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, Unpack

from zarrstack.core.errors import Problem

from ..archive.notebook import NotebookResult
from ..core.json_fields import FieldsAsJSON
from ..planning.plans import taken_over
from ..planning.routes import RouteName
from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import JobPlace, PathText
from ..recipe.signatures import explicit, given
from ..storage.silence import Silence
from .ledger.find_job import find_job
from .ledger.last_run import Activity, LastRun, activity, last_run
from .ledger.ledger import Job
from .ledger.rows import NodeRow, TaskTotals
from .option_words import option_words
from .work_totals import RouteRates, total_bytes, work_left


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus(FieldsAsJSON):
    """Progress of one node.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> node = zarrlift.status("new.zarr").nodes[-1]
    >>> node.path, node.kind, node.tasks_done == node.tasks_total
    ('time', 'array', True)
    """

    path: str
    kind: Literal["array", "group", "refusal"]
    route: str | None
    state: Literal["pending", "failed", "done", "refused"]
    tasks_done: int = 0
    """Recorded tasks."""
    tasks_total: int = 0
    bytes_done: int = 0
    """Stored bytes read; bytes that are read twice count twice, here and in the total."""
    bytes_total: int = 0
    """Total to read; for a completed node what was read, and 0 for chunks that are not moved."""
    bytes_known: bool = True
    """False if the total is an estimate."""
    error: str | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Status(NotebookResult, FieldsAsJSON):
    """The status of a job; reading it does not affect a running job.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> [node.path for node in zarrlift.status("new.zarr").nodes]
    ['', 'lat', 'lon', 'sst', 'time']
    """

    job: str
    source: str
    destination: str
    state: Literal["incomplete", "done", "finished", "undone"]
    in_place: bool
    created: float
    """Unix time in seconds."""
    updated: float
    verified: str | None = None
    """"sample" or "full" if a verification has passed since the last change."""
    activity: Activity | None = None
    """Current activity of an incomplete job; None for a job in another state."""
    options: tuple[str, ...] = ()
    """As in `Outcome`."""
    undoing: bool = False
    """Whether an `undo` has started and not ended."""
    host: str | None = None
    """Host of the last run; None if there was none."""
    process: int | None = None
    """Process id of the last run."""
    began: float | None = None
    """Start of the last run, Unix time in seconds."""
    bytes_done: int = 0
    """Stored bytes of the source read, as in `nodes`; with a limit (`--bwlimit`), by running tasks too."""
    bytes_total: int = 0
    """Stored bytes to read in all."""
    bytes_known: bool = True
    """False if the total is an estimate."""
    rate: float | None = None
    """Average bytes per second since chunks started to move."""
    seconds_left: float | None = None
    """Estimated from the work left of each route and the rate of each."""
    silent_since: float | None = None
    """Unix time in seconds since which a server has not answered a running job, or with errors only."""
    silent_attempt: int | None = None
    """The present attempt of a request to it."""
    silent_errors: bool = False
    """Whether it answers with errors."""
    retries: int = 0
    """Requests that were repeated in all runs; those that a client repeats itself are not known."""
    problems: tuple[Problem, ...] = ()
    """Warnings of changes of the source that a resume took over."""
    nodes: tuple[NodeStatus, ...]
    """Every node of the plan."""

    def __repr__(self) -> str:
        activity = f", {self.activity}" if self.activity else ""
        states = Counter(row.state for row in self.nodes)
        others = "".join(f", {states[state]} {state}" for state in ("failed", "refused") if states[state])
        counts = f"{states['done']} of {len(self.nodes)} nodes done{others}"
        return f"<Status {self.job!r} ({self.state}{activity}): {counts}>"


def silence_of(status: Status, now: float) -> Silence | None:
    """The silence of a server at the Unix time `now`; None if there is none."""
    if status.silent_since is None or status.silent_attempt is None:
        return None
    return Silence(max(now - status.silent_since, 0.0), status.silent_attempt, status.silent_errors)


def status_of(job: Job) -> Status:
    """The status of an open job; only reads it."""
    plan = job.header
    rows = sorted(job.nodes(), key=attrgetter("path"))
    totals = job.totals()
    nodes = [_node(row, totals.get(row.id, TaskTotals())) for row in rows]
    run = last_run(job)
    updated = float(job.fact("updated") or 0)
    now = activity(job.path, run) if job.state == "incomplete" else None
    done, total = sum(node.bytes_done for node in nodes), sum(node.bytes_total for node in nodes)
    if now == "running":
        done += min(int(job.fact("under_way") or 0), max(total - done, 0))
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
        problems=taken_over(map(Problem.from_json, plan["problems"])),
        silent_since=silent[0],
        silent_attempt=silent[1],
        silent_errors=silent[2],
        seconds_left=_seconds_left(job, rows, totals) if rate else None,
        retries=int(retries) if retries and retries.isdecimal() else 0,
    )


def _rate(run: LastRun | None, done: int, updated: float) -> float | None:
    """Average bytes per second since chunks started to move, according to the ledger."""
    if run is None or run.moving is None or updated <= run.moving or done <= run.bytes_before:
        return None
    return (done - run.bytes_before) / (updated - run.moving)


def _seconds_left(job: Job, rows: Iterable[NodeRow], totals: Mapping[int, TaskTotals]) -> float | None:
    """Time left by what is left of each route, at the rates that the run has recorded."""
    left: dict[RouteName, float] = {}
    for row in rows:
        if row.state == "pending" and row.route is not None:
            done = totals.get(row.id, TaskTotals())
            left[row.route] = left.get(row.route, 0.0) + work_left(row.work, done)
    return RouteRates.from_text(job.fact("route_rates") or "").seconds(left)


def _node(row: NodeRow, done: TaskTotals) -> NodeStatus:
    reasons = [problem for problem in row.problems if problem.severity == "refusal"]
    finished = row.state == "done"
    return NodeStatus(
        path=row.path,
        kind=row.kind,
        route=row.route,
        state=row.state,
        tasks_done=done.tasks,
        tasks_total=row.work.tasks,
        bytes_done=done.bytes_in,
        bytes_total=total_bytes(row.work, done, finished=finished),
        bytes_known=finished or row.work.bytes_known,
        error=str(reasons[0]) if reasons else None,
    )


@explicit
def status(target: PathText, **options: Unpack[JobPlaceKeywords]) -> Status:
    """Return the status of a job; a running job is not affected.

    `target` is the job file or the destination (in place, the source);
    `job` names the job file of a destination or source if it is not where jobs are looked for.

    Raises
    ------
    JobError
        If there is no such job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> status = zarrlift.status("new.zarr")
    >>> status.state, status.bytes_done == status.bytes_total
    ('done', True)
    """
    with Job.open(find_job(target, given(options, JobPlace)), write=False) as opened:
        return status_of(opened)

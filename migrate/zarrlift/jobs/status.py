"""The status of a job, as frozen data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zarrstack.core.errors import Problem

from ..archive.notebook import NotebookResult
from ..core.json_fields import FieldsAsJSON
from ..storage.silence import Silence

Activity: TypeAlias = Literal["running", "stopped", "stale", "unknown"]
"""`running`: a process runs the job. `stopped`: the last run ended normally, by an error or by Ctrl-C.
`stale`: it was killed. `unknown`: its process cannot be observed from here, or its host was restarted, and no
end is recorded.
"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus(FieldsAsJSON):
    """The last run of one part of a job.

    Examples
    --------
    >>> plan = zarrlift.plan_parts("ocean.zarr", "new.zarr", job="parts.db", parts=2)
    >>> [(part.part, part.activity) for part in zarrlift.status("parts.db").parts]
    [(0, None), (1, None)]
    """

    part: int
    """Its index, counted as the job does."""
    activity: Activity | None
    """None if the part has not been started."""
    tasks: int = 0
    """Number of tasks that it has recorded, in all its runs."""
    host: str | None = None
    """Of its last run."""


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
    """Stored bytes of the source read, as in `nodes`."""
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
    parts: tuple[PartStatus, ...] = ()
    """The parts of an incomplete job in parts."""
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

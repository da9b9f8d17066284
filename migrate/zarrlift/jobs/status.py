"""How far a job is: frozen data, for people and machines."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from zarrstack.core.json_text import JSONObject

Activity: TypeAlias = Literal["running", "stopped", "stale", "unknown"]
"""A process runs the job; the last run ended by itself (an error, Ctrl-C); it was killed, or its host was
restarted; it was begun where its process cannot be seen from here, and the job file knows of no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """How far one node is."""

    path: str
    kind: Literal["array", "group", "refusal"]
    route: str | None
    state: Literal["pending", "failed", "done", "refused"]
    tasks_done: int = 0
    tasks_total: int = 0
    bytes_done: int = 0
    """Stored bytes that were read; those that are read twice count twice, here and in the total."""
    bytes_total: int = 0
    """To read in all; what was read once the node is done, and 0 for chunks that stay where they are."""
    bytes_known: bool = True
    """False where the total is an estimate."""
    error: str | None = None

    def to_json(self) -> JSONObject:
        """For machines."""
        names = (
            "path",
            "kind",
            "route",
            "state",
            "tasks_done",
            "tasks_total",
            "bytes_done",
            "bytes_total",
            "bytes_known",
            "error",
        )
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How far a job is; reading it disturbs nothing, not even a running job."""

    job: str
    source: str
    destination: str
    state: Literal["incomplete", "done", "finished", "undone"]
    in_place: bool
    nodes: tuple[NodeStatus, ...] = field(repr=False)
    created: float
    """Seconds since 1970."""
    updated: float
    verified: str | None = None
    """"sample" or "full" if a verification has passed since."""
    activity: Activity | None = None
    """What becomes of an incomplete job now; None for a job in another state."""
    options: tuple[str, ...] = ()
    """As in `Outcome`."""
    undoing: bool = False
    """Whether an `undo` has begun and not ended."""
    host: str | None = None
    """Where the last run was started, None for a job of a version that did not write it down."""
    process: int | None = None
    """Number of its process there."""
    began: float | None = None
    """When it began, in seconds since 1970."""
    bytes_done: int = 0
    """Stored bytes of the source that were read, as in `nodes`."""
    bytes_total: int = 0
    bytes_known: bool = True
    """False where the total is an estimate."""
    rate: float | None = None
    """Bytes per second of a run that moves chunks, on average since it began to."""
    seconds_left: float | None = None
    """At this rate."""

    def to_json(self) -> JSONObject:
        """For machines."""
        return {
            **{item.name: getattr(self, item.name) for item in fields(self) if item.name != "nodes"},
            "nodes": [node.to_json() for node in self.nodes],
        }

"""What the public functions give back: frozen data, for people and machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zarrstack.core.errors import Problem, any_refusal
from zarrstack.core.jsons import JSONObject

from .plans import Plan

OutcomeState: TypeAlias = Literal["done", "incomplete", "nothing to do", "undone", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call has done to a job."""

    job: str
    """Path of the job file."""
    state: OutcomeState
    arrays_done: int = 0
    """Arrays that are whole at the destination, from this and earlier runs."""
    arrays_total: int = 0
    groups_done: int = 0
    chunks: int = 0
    """Objects of the source that this call moved; one that is read for two blocks counts twice."""
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Chunks left out as empty by this call."""
    filled: int = 0
    """N5 blocks shorter than their cell, which this call decoded to fill them up."""
    removed: int = 0
    """Objects that `finish` or `undo` deleted."""
    restored: int = 0
    """Legacy documents that `undo` put back."""
    seconds: float = 0.0
    problems: tuple[Problem, ...] = ()
    """Refusals and failures, with their places."""
    plan: Plan | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether all that was asked for is done."""
        return self.state != "incomplete" and not any_refusal(self.problems)

    def to_json(self) -> JSONObject:
        """For machines; the plan is left out (`zarrlift plan --json` gives it)."""
        names = (
            "job",
            "state",
            "arrays_done",
            "arrays_total",
            "groups_done",
            "chunks",
            "bytes_in",
            "bytes_out",
            "dropped",
            "filled",
            "removed",
            "restored",
            "seconds",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "problems": [problem.to_json() for problem in self.problems],
        }


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
    bytes_total: int = 0
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

    def to_json(self) -> JSONObject:
        """For machines."""
        names = ("job", "source", "destination", "state", "in_place", "created", "updated", "verified")
        return {
            **{name: getattr(self, name) for name in names},
            "nodes": [node.to_json() for node in self.nodes],
        }

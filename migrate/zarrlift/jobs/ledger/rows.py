"""Rows of a ledger as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from zarrstack.core.errors import Problem

Kind: TypeAlias = Literal["array", "group", "refusal"]
State: TypeAlias = Literal["incomplete", "done", "finished", "undone"]
NodeState: TypeAlias = Literal["pending", "failed", "done", "refused"]


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

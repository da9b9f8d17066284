"""Rows of a ledger as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from zarrstack.core.errors import Problem

from .plan_rows import Kind

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTotals:
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

"""What a ledger gives: rows of it as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from zarrstack.core.errors import Problem

from .plan_rows import Kind

State: TypeAlias = Literal["incomplete", "done", "finished", "undone"]
NodeState: TypeAlias = Literal["pending", "failed", "done", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node as the ledger has it."""

    id: int
    path: str
    kind: Kind
    state: NodeState
    published_ns: int | None
    """Modification time of its `zarr.json`, in the destination's own clock, in nanoseconds."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the recorded tasks of one node."""

    tasks: int = 0
    chunks: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0


class Recorded(NamedTuple):
    """One recorded task."""

    chunks: int
    """Objects of the source that were moved; 0 of a first pass."""
    dropped: int
    """Those of them that were left out as empty."""

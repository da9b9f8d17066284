"""What happens in a run, as frozen data: one stream of events for a bar or any function.

    zarrlift.migrate("ocean.zarr", "new.zarr", progress=print)

All events of a run come from one thread, except `Listed` and `Waiting`, which come every second from another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..planning.routes import RouteName
    from ..storage.unanswered import Unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The source is being listed."""

    objects: int
    """Their number so far."""
    unanswered: Unanswered | None = None
    """A server that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Work begins."""

    bytes: int | None
    """Stored bytes to read in all; None if that is not known."""
    chunks: int | None
    """Objects to move in all."""
    arrays: int = 0
    archives: int = 0
    """Of a batch, which counts archives in place of chunks."""
    bytes_done: int = 0
    """What earlier runs have done of it."""
    chunks_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """Some chunks have been moved, or compared."""

    chunks: int
    bytes_in: int
    bytes_out: int = 0
    retries: int = 0
    route: RouteName | None = None
    more_bytes: int = 0
    """To be added to the total, which was an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDone:
    """An array is published, or has failed with these problems."""

    path: str
    problems: tuple[Problem, ...] = ()
    more_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """Requests that belong to no task were repeated."""

    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Tasks are running: what is to be added to the ended ones, and the corrected total."""

    chunks: int = 0
    bytes: int = 0
    total_bytes: int | None = None
    """None for that of the events before."""
    unanswered: Unanswered | None = None
    """A server that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The listing or the work has ended."""

    archive: str | None = None
    """The state of an archive of a batch, which has ended."""


Event: TypeAlias = Listed | Planned | TaskDone | ArrayDone | Retried | Waiting | Ended
Progress: TypeAlias = Callable[[Event], object]

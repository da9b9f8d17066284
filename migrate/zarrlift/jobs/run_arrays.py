"""Arrays in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem

from ..archive.chunk_inventory import Indexes
from ..planning.plans import ArrayPlan
from . import log_messages
from .checks.checks import Found
from .ledger.rows import NodeRow

_MOST_PROBLEMS: Final = 1000
"""Maximum number of problems stored per array; the message contains the full count."""


@dataclass(slots=True)
class RunArray:
    """An array in progress."""

    row: NodeRow
    plan: ArrayPlan
    present: Indexes
    open_tasks: int = 0
    all_submitted: bool = False
    problems: list[Problem] = field(default_factory=list)
    failures: int = 0

    def fail(self, problems: tuple[Problem, ...]) -> None:
        """Record problems of the array."""
        if not problems:
            return
        log_messages.failed(problems, before=self.failures)
        self.failures += len(problems)
        self.problems.extend(problems[: _MOST_PROBLEMS - len(self.problems)])


@dataclass(frozen=True, slots=True)
class Asked:
    """Arrays with a check in progress, and access to the results."""

    arrays: list[RunArray]
    whole: list[RunArray]
    """Arrays without failures."""
    found: Callable[[], Found]
    """Problems in the output of each array in `whole`."""
    changed: Callable[[], list[Problem | None]]
    """Changes in the source of each array."""

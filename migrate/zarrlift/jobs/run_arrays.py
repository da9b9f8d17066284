"""Arrays on their way through a run."""

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
"""Problems kept per array; the count in the message tells of the rest."""


@dataclass(slots=True)
class RunArray:
    """An array on its way."""

    row: NodeRow
    plan: ArrayPlan
    present: Indexes
    open_tasks: int = 0
    all_submitted: bool = False
    problems: list[Problem] = field(default_factory=list)
    failures: int = 0

    def fail(self, problems: tuple[Problem, ...]) -> None:
        """Keep what is wrong with it."""
        if not problems:
            return
        log_messages.failed(problems, before=self.failures)
        self.failures += len(problems)
        self.problems.extend(problems[: _MOST_PROBLEMS - len(self.problems)])


@dataclass(frozen=True, slots=True)
class Asked:
    """Arrays that were asked about, and their answers."""

    arrays: list[RunArray]
    whole: list[RunArray]
    """Those of which nothing failed."""
    found: Callable[[], Found]
    """What is wrong with what was written of each that is whole."""
    changed: Callable[[], list[Problem | None]]
    """What has changed in the source of each."""

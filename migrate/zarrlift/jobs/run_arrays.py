"""Arrays in a run, and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.chunk_inventory import Indexes, Inventory
from ..planning.planner import Inventories
from ..planning.plans import ArrayPlan, Plan
from ..planning.source_inventory import SourceInventory
from ..storage.base import Storage
from ..transfer.tasks import Task, tasks_of
from . import log_messages
from .checks.checks import Found
from .ledger.ledger import Job
from .ledger.rows import NodeRow
from .source_check import source_changed

_MAX_PROBLEMS: Final = 1000
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
    sums: bytes | None = None
    """The digest of its values (`BlockSums`), if the checks have added them up."""

    def fail(self, problems: tuple[Problem, ...]) -> None:
        """Record problems of the array."""
        if not problems:
            return
        log_messages.failed(problems, before=self.failures)
        self.failures += len(problems)
        self.problems.extend(problems[: _MAX_PROBLEMS - len(self.problems)])


@dataclass(frozen=True, slots=True)
class PendingChecks:
    """Arrays with a check in progress, and access to the results."""

    arrays: list[RunArray]
    whole: list[RunArray]
    """Arrays without failures."""
    found: Callable[[], Found]
    """What the checks found in the output of each array in `whole`."""
    changed: Callable[[], list[Problem | None]]
    """Changes in the source of each array."""


class RunTasks:
    """The tasks of a job that are not recorded as done."""

    def __init__(
        self, job: Job, plan: Plan, source: Storage, destination: Storage, inventories: Inventories
    ) -> None:
        """`inventories` are those that the planning has left."""
        self._job = job
        self._source = source
        self._destination = destination
        self._inventories = inventories
        self._listed_again = SourceInventory(plan, source)

    def __call__(
        self, pending: list[tuple[NodeRow, ArrayPlan]], ended: list[RunArray], *, first_pass: bool
    ) -> Iterator[tuple[RunArray, Task]]:
        """Yield tasks, array by array; for arrays in two passes, those of one pass.

        Arrays without such tasks are appended to `ended`.
        """
        for row, plan in pending:
            inventory = self.inventory(plan, keep=first_pass)
            array = RunArray(row, plan, inventory.indexes)
            numbers: list[int] = []
            if inventory.fingerprint != plan.fingerprint:
                array.fail((source_changed(plan.path),))
            else:
                try:
                    done = self._not_lost(row, plan, inventory)
                    tasks = tasks_of(plan, inventory, self._source, self._destination, first_pass=first_pass)
                    numbers = [number for number in tasks.numbers if number not in done]
                except ZarrstackError as error:
                    array.fail((error.at(node=plan.path).problem,))
            if not numbers:
                array.all_submitted = True
                ended.append(array)
            for number in numbers:
                array.open_tasks += 1
                array.all_submitted = number == numbers[-1]
                yield array, tasks.task(number)

    def _not_lost(self, row: NodeRow, plan: ArrayPlan, inventory: Inventory) -> set[int]:
        """The recorded tasks of an array whose results are still there; others are forgotten."""
        done = self._job.recorded(row.id)
        if not done:
            return set()
        from .resume.lost_tasks import lost_tasks  # not needed by a first run

        lost = lost_tasks(plan, inventory, self._source, self._destination, done)
        self._job.forget_tasks(row.id, lost)
        return done.keys() - lost

    def inventory(self, plan: ArrayPlan, *, keep: bool = False) -> Inventory:
        """The inventory of an array; with `keep`, it is needed again."""
        known = self._inventories.get(plan.path) if keep else self._inventories.pop(plan.path, None)
        return self._listed_again(plan) if known is None else known

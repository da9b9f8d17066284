"""The states of arrays in a run, and their tasks; `following` decides what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.chunk_inventory import Indexes, Inventory
from ..planning.inventories import Inventories, SourceInventory
from ..planning.plans import ArrayPlan, Plan
from ..storage.base import Storage
from ..transfer.tasks import Task, Tasks, pass_numbers, sources_moved, tasks_of
from . import log_messages
from .checks import Found
from .endpoints import Endpoints
from .ledger.ledger import Job
from .ledger.schema import NodeRow
from .resume.lost_tasks import MissingObjects, lost_tasks, missing_objects, refuse_lost_between
from .source_check import SourceCheck, source_changed

_MAX_PROBLEMS: Final = 1000
"""Maximum number of problems stored per array; the message contains the full count."""
NOTHING: Final = np.empty(0, dtype=np.int64)


class ArrayState(Enum):
    """Where an array is in a run; `following` decides what comes next."""

    WAITING = auto()
    """Nothing of it, or of its next pass, has begun."""
    COPYING = auto()
    """Its tasks are submitted."""
    COPIED = auto()
    """They have ended."""
    CHECKING = auto()
    """What was written is compared with the source, and the source with the plan."""
    PUBLISHED = auto()
    FAILED = auto()


@dataclass(slots=True)
class RunArray:
    """An array in progress."""

    row: NodeRow
    plan: ArrayPlan
    state: ArrayState = ArrayState.WAITING
    first_pass: bool = False
    """Whether its tasks are those of the first of two passes."""
    present: Indexes = field(default_factory=lambda: NOTHING)
    sizes: Indexes | None = None
    """Those of the source's objects, if the objects that are written are listed with theirs."""
    open_tasks: int = 0
    all_submitted: bool = False
    problems: list[Problem] = field(default_factory=list)
    failures: int = 0
    missing: Callable[[], MissingObjects | None] = lambda: None
    """Lists what was written; returns what is missing. StorageError, ChunkError."""

    def fail(self, problems: tuple[Problem, ...]) -> None:
        """Record problems of the array."""
        if not problems:
            return
        log_messages.failed(problems, before=self.failures)
        self.failures += len(problems)
        self.problems.extend(problems[: _MAX_PROBLEMS - len(self.problems)])


def following(array: RunArray) -> ArrayState:
    """The state that follows from what has happened to an array."""
    if array.state in (ArrayState.WAITING, ArrayState.COPYING):
        ended = array.all_submitted and array.open_tasks == 0
        return ArrayState.COPIED if ended else ArrayState.COPYING
    if array.failures:
        return ArrayState.FAILED
    if array.state is ArrayState.CHECKING:
        return ArrayState.PUBLISHED
    return ArrayState.WAITING if array.first_pass else ArrayState.CHECKING


PendingChecks: TypeAlias = tuple[list[RunArray], Callable[[], Found], Callable[[], list[Problem | None]]]
"""Arrays with a check in progress; what it finds in the output of each, and changes in the source of each."""


class RunTasks:
    """The tasks of a job that are not recorded as done."""

    def __init__(
        self, job: Job, plan: Plan, ends: Endpoints, inventories: Inventories, *, list_again: bool
    ) -> None:
        """`inventories` are those that planning has left; `list_again` lists what was written."""
        self._job = job
        self._source, self._destination = ends.source, ends.destination
        self._list_again = list_again
        # Layers may change sizes.
        self._lists_plainly = ends.place is ends.destination and ends.source_through is None
        self._inventories = inventories
        self._source_listing = SourceInventory(plan, ends.source)

    def __call__(
        self, arrays: Iterable[RunArray], *, first_pass: bool
    ) -> Iterator[tuple[RunArray, Task | None]]:
        """Yield the tasks of arrays in one pass, array by array; None follows the last one of each."""
        for array in arrays:
            array.first_pass, array.all_submitted = first_pass, False
            plan = array.plan
            inventory = self.inventory(plan, keep=first_pass)
            array.present, array.sizes = inventory.indexes, None
            if self._destination.requests is not None:  # whose listings have sizes
                array.sizes = inventory.sizes
            if inventory.fingerprint != plan.fingerprint:
                array.fail((source_changed(plan.path),))
            else:
                try:
                    for task in self._of_array(array, inventory):
                        array.open_tasks += 1
                        yield array, task
                except ZarrstackError as error:
                    array.fail((error.at(node=plan.path).problem,))
            array.all_submitted = True
            yield array, None

    def _of_array(self, array: RunArray, inventory: Inventory) -> Iterator[Task]:
        """The tasks that are not recorded, then the recorded ones whose results are lost.

        The latter need a listing of the destination, which takes long in a store with many objects.
        """
        plan, row, first_pass = array.plan, array.row, array.first_pass
        planned = pass_numbers(plan, first_pass=first_pass)
        done = self._job.recorded(row.id)
        tasks: Tasks | None = None

        def made(numbers: list[int]) -> Iterator[Task]:
            nonlocal tasks
            if numbers and tasks is None:
                tasks = tasks_of(plan, inventory, self._source, self._destination, first_pass=first_pass)
                if not first_pass:
                    refuse_lost_between(plan, tasks.present, done)
            return map(tasks.task, numbers) if tasks is not None else iter(())

        yield from made([number for number in planned if number not in done])
        if not done:
            return
        lost = lost_tasks(plan, inventory, self._destination, done)
        self._job.forget_tasks(row.id, lost)
        yield from made([number for number in planned if number in lost])

    def begin_listing(self, array: RunArray, check: SourceCheck) -> None:
        """Have the objects of an array listed before it is published; at once if requests have latency."""
        if not self._list_again or not array.plan.tasks:
            return
        ask = partial(
            missing_objects,
            array.plan,
            array.present,
            self._destination,
            self._job.recorded(array.row.id),
            sizes=array.sizes if self._lists_plainly else None,
        )
        array.sizes = None
        in_background = self._destination.requests is not None
        array.missing = check.threads.submit(ask).result if in_background else ask

    def to_check(self, array: RunArray, *, listed: bool) -> tuple[ArrayPlan, Indexes]:
        """What a check needs of an array: its plan, and its chunks, `listed` if they have not been yet."""
        if listed and array.plan.chunks and not array.plan.tasks:
            array.present = self.inventory(array.plan).indexes
        return array.plan, sources_moved(array.plan, array.present)

    def inventory(self, plan: ArrayPlan, *, keep: bool = False) -> Inventory:
        """The inventory of an array; with `keep`, it is needed again."""
        inventory = self._inventories.get(plan.path) if keep else self._inventories.pop(plan.path)
        if inventory is None:
            inventory = self._inventories.stored(plan)
        return self._source_listing(plan) if inventory is None else inventory


def retire(
    arrays: Iterable[RunArray], tasks: RunTasks, destination: Storage, *, outside: bool = False
) -> None:
    """Delete what the source no longer has of earlier results; what is `outside` after their documents."""
    for array in arrays:
        if array.plan.changes is None:
            continue
        from .update.objects import retire_outside, retire_vanished  # not needed by a first run

        if outside:
            retire_outside(array.plan, destination)
            continue
        if not array.plan.tasks:
            array.present = tasks.inventory(array.plan, keep=True).indexes
        retire_vanished(array.plan, array.present, destination)

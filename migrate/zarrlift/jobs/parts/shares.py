"""What the runs of a job in parts do: a part its own tasks, `gather` the rest of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ...planning.plans import ArrayPlan
from ...transfer.tasks import pass_numbers
from ..ledger.rows import RecordedTask
from ..run_arrays import RunArray, Share
from .division import Division


class PartShare(Share):
    """The tasks of one part, whose work is published by `gather`."""

    publishes = False
    alone = False

    def __init__(
        self,
        division: Division,
        part: int,
        recorded: Mapping[str, Mapping[int, RecordedTask]],
        sync: Callable[[], None],
    ) -> None:
        """`part` counts from 0. `recorded`: tasks that the job has recorded, by path of the array."""
        super().__init__()
        self._sync = sync
        self._division = division
        self._part = part
        self._recorded = recorded
        self.moved = False
        """Whether any task was to be done."""

    def each_turn(self) -> None:
        """Record tasks whose objects have reached the disk."""
        self._sync()

    def chosen(self, plan: ArrayPlan, numbers: list[int], *, first_pass: bool) -> list[int]:
        """The part's own."""
        own = self._division.numbers(plan, self._part, first_pass=first_pass)
        chosen = [number for number in numbers if number in own]
        self.moved = self.moved or bool(chosen)
        return chosen

    def recorded(self, path: str) -> Mapping[int, RecordedTask]:
        """Tasks that the job has recorded."""
        return self._recorded.get(path, {})

    def waits(self) -> bool:
        """Whether own tasks wait for the first passes of other parts."""
        return any(
            numbers[0] < 0 and len(self._division.numbers(plan, self._part, first_pass=False))
            for plan, numbers in self.left
        )


class GatherShare(Share):
    """No task: verifies and publishes arrays whose tasks are all recorded."""

    moves = False
    alone = False

    def chosen(self, plan: ArrayPlan, numbers: list[int], *, first_pass: bool) -> list[int]:
        """None."""
        return []

    def is_wrong(self, array: RunArray) -> bool:
        """Not if the comparison itself failed: all parts would have to repeat what may be right."""
        plan, wrong = array.plan, any(problem.kind != "storage" for problem in array.problems)
        if wrong and (numbers := [*pass_numbers(plan, first_pass=plan.between is not None)]):
            self.left.append((plan, numbers))
        return wrong

    def missing(self, division: Division) -> dict[int, int]:
        """How many tasks of each part can be done and are not, by part, counted from 0."""
        count: Counter[int] = Counter()
        for plan, numbers in self.left:
            count.update(division.part_of(plan, number) for number in numbers)
        return dict(sorted(count.items()))

    def second_pass(self) -> bool:
        """Whether a second pass can be run whose first pass is complete."""
        return any(plan.between is not None and numbers[-1] >= 0 for plan, numbers in self.left)

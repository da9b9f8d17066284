"""Amount of data that a job reads: shared by the plan, the progress display and `status`.

Bytes are stored bytes of the source; bytes that are read twice count twice. Estimates of the plan are
corrected by what has been read, so progress never exceeds 100 percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from ..planning.plans import ArrayPlan
from ..transfer.counts import MoveResult
from . import log_messages
from .ledger.plan_rows import planned_work
from .ledger.rows import PlannedWork, TaskTotals
from .progress import Progress, RunningProgress

UnderWay: TypeAlias = Mapping[str, tuple[int, int]]
"""(chunks, bytes) of the source read by running tasks, by path of the array."""

_NOTHING: Final = TaskTotals()


def total_bytes(work: PlannedWork, done: TaskTotals = _NOTHING, *, finished: bool = False) -> int:
    """Stored bytes to read for an array, given its completed part `done`.

    For a `finished` array, what was read. Otherwise the planned number; if that is an estimate or exceeded,
    an extrapolation from the completed part.
    """
    if finished or not work.moves:
        return done.bytes_in
    if work.bytes_known and done.bytes_in <= work.bytes_in:
        return work.bytes_in
    part = done.tasks / work.tasks if work.by_tasks else done.chunks / max(work.reads, 1)
    return max(done.bytes_in, round(done.bytes_in / part) if part and done.bytes_in else work.bytes_in)


class WorkTotal:
    """The total of a run, reported to its progress display and corrected as tasks end."""

    def __init__(self, progress: Progress, arrays: Sequence[tuple[ArrayPlan, TaskTotals | None]]) -> None:
        """`arrays`: plans of the arrays that are not done, each with its recorded totals."""
        moving = [(plan, done or _NOTHING) for plan, done in arrays if plan.tasks]
        self._progress = progress
        self._work = {plan.path: planned_work(plan) for plan, _ in moving}
        self._done = {plan.path: done for plan, done in moving}
        self._bytes = {path: total_bytes(work, self._done[path]) for path, work in self._work.items()}
        self._all_bytes = sum(self._bytes.values())
        self._all_chunks = sum(plan.reads for plan, _ in moving)
        log_messages.begun(len(arrays), self._all_bytes)
        progress.start(self._all_bytes, self._all_chunks)
        recorded = [done for _, done in moving if done.tasks]
        if recorded:
            progress.resume_at(sum(done.chunks for done in recorded), sum(done.bytes_in for done in recorded))

    def moved(self, plan: ArrayPlan, moved: MoveResult) -> None:
        """Add a task that has ended."""
        done = self._done[plan.path] = _plus(self._done[plan.path], moved.chunks, moved.bytes_in, tasks=1)
        self._expect(plan, total_bytes(self._work[plan.path], done))
        self._progress.advance(moved.chunks, moved.bytes_in)

    def finished(self, plan: ArrayPlan) -> None:
        """Set the total of a completed array to what was read."""
        log_messages.array_done(plan.path)
        if plan.tasks:
            self._expect(plan, self._done[plan.path].bytes_in)

    def present(self, under_way: UnderWay) -> RunningProgress:
        """The current progress with what running tasks have read, by path of the array; thread-safe."""
        total = self._all_bytes
        for path, (chunks, nbytes) in under_way.items():
            work = self._work[path]
            if not work.by_tasks:
                total += total_bytes(work, _plus(self._done[path], chunks, nbytes)) - self._bytes[path]
        return RunningProgress(
            chunks=sum(chunks for chunks, _ in under_way.values()),
            bytes=sum(nbytes for _, nbytes in under_way.values()),
            total_bytes=total,
        )

    def _expect(self, plan: ArrayPlan, expected: int) -> None:
        change = expected - self._bytes[plan.path]
        if change:
            self._bytes[plan.path] = expected
            self._all_bytes += change
            self._progress.expect(self._all_bytes, self._all_chunks)


def _plus(done: TaskTotals, chunks: int, nbytes: int, *, tasks: int = 0) -> TaskTotals:
    return TaskTotals(tasks=done.tasks + tasks, chunks=done.chunks + chunks, bytes_in=done.bytes_in + nbytes)

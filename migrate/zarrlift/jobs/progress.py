"""What a run reads in all and how far it is: counted here, sent as events (`zarrlift.transfer.events`).

Bytes are stored bytes of the source; bytes that are read twice count twice. Estimates of the plan are
corrected by what has been read, so progress never exceeds 100 percent. The time left is what is left at the
rate of the last minute, or of the bar's last seconds (docs/design/0014 has the errors of both).

What shows progress never fails a migration: if its terminal disappears, the output stops.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Self, TypeAlias

from zarrstack.core.errors import Problem

from ..core.units import bytes_text, count_text
from ..planning.plans import ArrayPlan
from ..storage.unanswered import longest_wait, take_retries
from ..transfer import events
from ..transfer.counts import MoveResult
from ..transfer.events import ArrayDone, Ended, Event, Listed, Planned, Retried, TaskDone, Waiting
from . import log_messages
from .ledger.ledger import Job
from .ledger.schema import PlannedWork, TaskTotals, planned_work

_REFRESH_SECONDS: Final = 1.0

Progress: TypeAlias = events.Progress
ProgressChoice: TypeAlias = Progress | bool | None
"""A function that gets each event; True for the usual display, False for none. None is True in a notebook and
False elsewhere."""
_WINDOW: Final = 60.0
"""Seconds over which the rate is measured that the job notes."""
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
    """The total of a run, corrected as tasks end, of which it sends the events."""

    def __init__(
        self,
        progress: Progress | None,
        arrays: Sequence[tuple[ArrayPlan, TaskTotals | None]],
    ) -> None:
        """`arrays`: plans of the arrays that are not done, each with its recorded totals."""
        with_tasks = [(plan, done or _NOTHING) for plan, done in arrays if plan.tasks]
        self._progress = progress
        self._retries = self._others = 0
        self._unanswered: tuple[int, bool] | None = None
        self._work = {plan.path: planned_work(plan) for plan, _ in with_tasks}
        self._done = {plan.path: done for plan, done in with_tasks}
        self._bytes = {path: total_bytes(work, self._done[path]) for path, work in self._work.items()}
        self._all_bytes = sum(self._bytes.values())
        self._read = 0
        """Bytes read by tasks of this run that have ended."""
        self._mark = (time.monotonic(), 0)
        """When the rate was noted, and the bytes read until then."""
        amounts = count_text(len(arrays), "array"), bytes_text(self._all_bytes)
        log_messages.log.info("%s to migrate, %s to read", *amounts, extra={"event": "plan"})
        if progress is not None:
            recorded = [done for _, done in with_tasks if done.tasks]
            progress(
                Planned(
                    bytes=self._all_bytes,
                    chunks=sum(plan.reads for plan, _ in with_tasks),
                    arrays=len(arrays),
                    bytes_done=sum(done.bytes_in for done in recorded),
                    chunks_done=sum(done.chunks for done in recorded),
                )
            )

    def moved(self, plan: ArrayPlan, moved: MoveResult) -> None:
        """Add a task that has ended."""
        path, work = plan.path, self._work[plan.path]
        done = self._done[path] = _plus(self._done[path], moved.chunks, moved.bytes_in, tasks=1)
        self._read += moved.bytes_in
        more = self._expect(plan, total_bytes(work, done))
        self._retries += moved.retries
        if self._progress is not None:
            self._progress(
                TaskDone(
                    chunks=moved.chunks,
                    bytes_in=moved.bytes_in,
                    bytes_out=moved.bytes_out,
                    retries=moved.retries,
                    route=plan.route.name,
                    more_bytes=more,
                )
            )

    def note(self, job: Job) -> int:
        """Store the rate and the number of repeated requests in the job. Durable at its next commit.

        Returns the number of those requests of the run that belong to no task.
        """
        others = take_retries()
        if others and self._progress is not None:
            self._progress(Retried(requests=others))
        now, (before, read) = time.monotonic(), self._mark
        if now - before >= _WINDOW and self._read > read:
            job.note(rate=repr((self._read - read) / (now - before)))
            self._mark = (now, self._read)
        if new := self._retries + others:
            job.note(retries=str(int(job.fact("retries") or 0) + new))
            self._retries = 0
        self._others += others
        return self._others

    def note_under_way(self, job: Job, under_way: UnderWay) -> None:
        """Store in the job what running tasks have read. Durable at its next commit."""
        job.note(under_way=str(sum(nbytes for _, nbytes in under_way.values())))

    def note_unanswered(self, job: Job, *, then: Callable[[], None]) -> None:
        """Store in the job that a server does not answer, or does again; `then` commits it, if it is new."""
        longest = longest_wait()
        noted = None if longest is None else (longest.attempt, longest.errors)
        if noted == self._unanswered:
            return
        self._unanswered = noted
        text = None
        if longest is not None:
            text = json.dumps([time.time() - longest.seconds, longest.attempt, longest.errors])
        job.note(silent=text)
        then()

    def present(self, under_way: UnderWay) -> Waiting:
        """The current progress with what running tasks have read, by path of the array; thread-safe."""
        total = self._all_bytes
        for path, (chunks, nbytes) in under_way.items():
            if not (work := self._work[path]).by_tasks:
                total += total_bytes(work, _plus(self._done[path], chunks, nbytes)) - self._bytes[path]
        return Waiting(
            chunks=sum(chunks for chunks, _ in under_way.values()),
            bytes=sum(nbytes for _, nbytes in under_way.values()),
            total_bytes=total,
        )

    def ended(self, plan: ArrayPlan, problems: Sequence[Problem] = ()) -> None:
        """Nothing more is read for an array: its total is what was read."""
        more = 0
        if not problems:
            log_messages.array_done(plan.path)
        if plan.tasks:
            self._work[plan.path] = self._work[plan.path]._replace(moves=False)
            more = self._expect(plan, self._done[plan.path].bytes_in)
        if self._progress is not None:
            self._progress(ArrayDone(path=plan.path, problems=tuple(problems), more_bytes=more))

    def _expect(self, plan: ArrayPlan, expected: int) -> int:
        """Correct the total of an array; returns the difference."""
        change = expected - self._bytes[plan.path]
        self._bytes[plan.path] = expected
        self._all_bytes += change
        return change


def _plus(done: TaskTotals, chunks: int, nbytes: int, *, tasks: int = 0) -> TaskTotals:
    return TaskTotals(tasks=done.tasks + tasks, chunks=done.chunks + chunks, bytes_in=done.bytes_in + nbytes)


class Unticked:
    """A function that needs no events between those of the work, and therefore no thread."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        self._progress(event)


class Ticker:
    """Sends an event every second, from a thread that ends with `stop`.

    A process with threads cannot be forked safely, so create this after the forks.
    """

    def __init__(self, progress: Progress | None, present: Callable[[], Event] = Waiting) -> None:
        """`present` is called in the thread."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if progress is not None and not isinstance(progress, Unticked):
            self._thread = threading.Thread(
                target=self._run, args=(progress, present), name="zarrlift-progress", daemon=True
            )
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread; may be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, progress: Progress, present: Callable[[], Event]) -> None:
        while not self._ended.wait(_REFRESH_SECONDS):
            progress(with_unanswered(present()))


def with_unanswered(event: Event) -> Event:
    """The same with a server that does not answer, if any."""
    longest = longest_wait()
    if longest is None or not isinstance(event, Waiting | Listed):
        return event
    return replace(event, unanswered=longest)


def send_end(progress: Progress | None) -> None:
    """Say that the listing or the work has ended."""
    if progress is not None:
        progress(Ended())


@contextmanager
def listing_shown(progress: Progress | None, listed: Callable[[], int]) -> Iterator[None]:
    """Show how many objects are listed."""
    with Ticker(progress, lambda: Listed(objects=listed())):
        yield
    send_end(progress)

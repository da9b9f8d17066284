"""Amount of data that a job reads: shared by the plan, the progress display and `status`.

Bytes are stored bytes of the source; bytes that are read twice count twice. Estimates of the plan are
corrected by what has been read, so progress never exceeds 100 percent.

The time left follows from the work that is left, by route, and the rate of each route. Routes differ in speed
by a factor of ten and more, and arrays are moved one after the other, so that the average rate so far says
little about what is left. Each route has its own rate, learnt while it is used.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.units import bytes_text, count_text

from ..planning.plans import ArrayPlan
from ..planning.routes import RouteName
from ..storage import retries, silence
from ..transfer.counts import MoveResult
from ..transfer.events import ArrayDone, Planned, Progress, Retried, TaskDone, Waiting
from . import log_messages
from .ledger.ledger import Job
from .ledger.schema import PlannedWork, TaskTotals, planned_work

_PER_OBJECT: Final = 64 << 10
"""Bytes that take as long as reading and writing one more object, roughly, locally and in stores."""
_TYPICAL: Final[dict[RouteName, float]] = {
    "stay": 1.0,
    "relink": 1.0,
    "reframe": 1.0,
    "recode": 10.0,
    "rewrite": 10.0,
    "regrid": 10.0,
}
"""Time relative to `relink`, for local files (docs/explanation/speed.md); only the ratios are used."""
_REMOTE: Final = 10.0
"""Time that a byte takes over a network, on the same scale: there, routes differ less."""
_WINDOW: Final = 600.0
"""Seconds of a route that count: a store may become slower or faster within hours."""
_UNTIL_SEEN: Final = 0.2
"""Seconds of a route until which what is expected of it counts as much as what was measured."""


def work_of(nbytes: int, objects: int) -> float:
    """The work of reading objects, in bytes."""
    return nbytes + objects * _PER_OBJECT


class RouteRates:
    """Seconds per unit of work of each route, in the time of the run: all workers together.

    `reach` may be called from several threads.
    """

    def __init__(self, now: float | None = None, *, remote: bool = False, earlier: str | None = None) -> None:
        """`earlier` is the text of the rates of an earlier run, which are expected again."""
        now = time.monotonic() if now is None else now
        self._last = self._pending_at = now
        self._expected = {name: cost + _REMOTE * remote for name, cost in _TYPICAL.items()}
        self._measured: dict[RouteName, tuple[float, float]] = {}
        """(seconds, work) of each route, as far as they count."""
        self._earlier = _parsed(earlier)
        self._unseen: dict[RouteName, float] = {}
        """Work of running tasks that no report contains, by route."""
        self._reached: dict[RouteName, float] = {}
        self._pending: dict[RouteName, float] = {}
        self._lock = threading.Lock()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The rates that `to_text` has written."""
        rates = cls(0.0)
        rates._measured = _parsed(text)
        return rates

    def to_text(self) -> str | None:
        """JSON text of what was measured, or is known from an earlier run; None if nothing is."""
        with self._lock:
            measured = {**self._earlier, **self._measured}
        if not measured:
            return None
        return json.dumps({name: [float(f"{item:.6g}") for item in pair] for name, pair in measured.items()})

    def reach(
        self,
        now: float,
        work: Mapping[RouteName, float],
        unseen: Mapping[RouteName, float] = MappingProxyType({}),
    ) -> None:
        """Take note of the work done until now by each route, which counts from the start of the run.

        `unseen`: an estimate of what running tasks have done in addition, if they do not report it.
        Work that is reported at the same time, such as tasks that end together, belongs to the time since the
        last report. If several routes were used in that time, it is divided by what is expected of each.
        """
        with self._lock:
            if now > self._pending_at:
                self._settle()
            self._unseen = dict(unseen)
            for name, total in work.items():
                more = total - self._reached.get(name, 0.0)
                if more > 0:
                    self._reached[name] = total
                    self._pending[name] = self._pending.get(name, 0.0) + more
                    self._pending_at = now

    def seconds(self, left: Mapping[RouteName, float]) -> float | None:
        """Time that the rest of the work will take; None as long as no rate is known."""
        with self._lock:
            if self._pending and not self._measured:
                self._settle()
            if not self._measured and not self._earlier:
                return None
            return sum((work * self._cost(name) for name, work in left.items() if work > 0), 0.0)

    def _settle(self) -> None:
        """Count the pending work of all routes."""
        seconds = self._pending_at - self._last
        if not self._pending or seconds <= 0:
            return
        shares = {name: work * self._cost(name) for name, work in self._pending.items()}
        total = sum(shares.values())
        for name, share in shares.items():
            before, done = self._measured.get(name, (0.0, 0.0))
            before, done = before + seconds * share / total, done + self._pending[name]
            weight = min(_WINDOW / before, 1.0)
            self._measured[name] = before * weight, done * weight
        self._last = self._pending_at
        self._pending.clear()

    def _cost(self, name: RouteName) -> float:
        """Seconds per unit of work."""
        expected = self._expected_cost(name)
        seconds, work = self._measured.get(name, (0.0, 0.0))
        if work:
            work += self._unseen.get(name, 0.0)
        if not work:
            return expected
        return (seconds * seconds / work + _UNTIL_SEEN * expected) / (seconds + _UNTIL_SEEN)

    def _expected_cost(self, name: RouteName) -> float:
        """As in an earlier run; else as typical, as much slower or faster as the routes already seen."""
        if name in self._earlier:
            seconds, work = self._earlier[name]
            return seconds / work
        typical = self._expected[name]
        seen = [(*pair, self._expected[other]) for other, pair in (self._measured or self._earlier).items()]
        should = sum(work * cost for _, work, cost in seen)
        return typical * (sum(seconds for seconds, *_ in seen) / should if should else 1e-9)


def _parsed(text: str | None) -> dict[RouteName, tuple[float, float]]:
    """(seconds, work) by route from JSON text; empty if it is of an unknown form."""
    try:
        pairs = json.loads(text or "{}").items()
        rates = {name: (float(seconds), float(work)) for name, (seconds, work) in pairs if name in _TYPICAL}
    except (ValueError, TypeError, AttributeError):
        return {}
    return {name: pair for name, pair in rates.items() if min(pair) > 0}


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


def work_left(work: PlannedWork, done: TaskTotals) -> float:
    """The work of an array that is not done, for `RouteRates`."""
    if not work.moves:
        return 0.0
    return work_of(total_bytes(work, done) - done.bytes_in, max(work.reads - done.chunks, 0))


class WorkTotal:
    """The total of a run, corrected as tasks end, of which it sends the events."""

    def __init__(
        self,
        progress: Progress | None,
        arrays: Sequence[tuple[ArrayPlan, TaskTotals | None]],
        rates: RouteRates | None = None,
    ) -> None:
        """`arrays`: plans of the arrays that are not done, each with its recorded totals."""
        with_tasks = [(plan, done or _NOTHING) for plan, done in arrays if plan.tasks]
        self._progress = progress
        self.rates = rates or RouteRates()
        self._retries = self._others = 0
        self._silence: tuple[int, bool] | None = None
        self._route = {plan.path: plan.route.name for plan, _ in with_tasks}
        self._work = {plan.path: planned_work(plan) for plan, _ in with_tasks}
        self._done = {plan.path: done for plan, done in with_tasks}
        self._bytes = {path: total_bytes(work, self._done[path]) for path, work in self._work.items()}
        self._all_bytes = sum(self._bytes.values())
        self._reached: dict[RouteName, float] = {}
        self._reports = False
        """Whether running tasks report what they have read."""
        self._left: dict[RouteName, float] = {}
        for path, work in self._work.items():
            self._add_left(path, work_left(work, self._done[path]))
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

    def moved(self, plan: ArrayPlan, moved: MoveResult, *, running: int = 0) -> None:
        """Add a task that has ended while a number of others is running."""
        path, work = plan.path, self._work[plan.path]
        before = work_left(work, self._done[path])
        done = self._done[path] = _plus(self._done[path], moved.chunks, moved.bytes_in, tasks=1)
        self._add_left(path, work_left(work, done) - before)
        route, added = plan.route.name, work_of(moved.bytes_in, moved.chunks)
        self._reached[route] = self._reached.get(route, 0.0) + added
        # On average, half of the others is done.
        unseen = {} if self._reports else {route: running * added / 2}
        self.rates.reach(time.monotonic(), self._reached, unseen)
        more = self._expect(plan, total_bytes(work, done))
        self._retries += moved.retries
        if self._progress is not None:
            self._progress(
                TaskDone(
                    chunks=moved.chunks,
                    bytes_in=moved.bytes_in,
                    bytes_out=moved.bytes_out,
                    retries=moved.retries,
                    route=route,
                    more_bytes=more,
                )
            )

    def note(self, job: Job) -> int:
        """Store the rates and the number of repeated requests in the job. Durable at its next commit.

        Returns the number of those requests of the run that belong to no task.
        """
        others = retries.take()
        if others and self._progress is not None:
            self._progress(Retried(requests=others))
        if rates := self.rates.to_text():
            job.note(route_rates=rates)
        if new := self._retries + others:
            job.note(retries=str(int(job.fact("retries") or 0) + new))
            self._retries = 0
        self._others += others
        return self._others

    def note_under_way(self, job: Job, under_way: UnderWay) -> None:
        """Store in the job what running tasks have read. Durable at its next commit."""
        job.note(under_way=str(sum(nbytes for _, nbytes in under_way.values())))

    def note_silence(self, job: Job, *, then: Callable[[], None]) -> None:
        """Store in the job that a server does not answer, or does again; `then` commits it, if it is new."""
        longest = silence.longest()
        noted = None if longest is None else (longest.attempt, longest.errors)
        if noted == self._silence:
            return
        self._silence = noted
        text = None
        if longest is not None:
            text = json.dumps([time.time() - longest.seconds, longest.attempt, longest.errors])
        job.note(silent=text)
        then()

    def present(self, under_way: UnderWay) -> Waiting:
        """The current progress with what running tasks have read, by path of the array; thread-safe."""
        total = self._all_bytes
        reached, left = dict(self._reached), dict(self._left)
        self._reports = self._reports or bool(under_way)
        for path, (chunks, nbytes) in under_way.items():
            work, done = self._work[path], self._done[path]
            now = _plus(done, chunks, nbytes)
            if not work.by_tasks:
                total += total_bytes(work, now) - self._bytes[path]
                left[self._route[path]] += work_left(work, now) - work_left(work, done)
            route = self._route[path]
            reached[route] = reached.get(route, 0.0) + work_of(nbytes, chunks)
        self.rates.reach(time.monotonic(), reached)
        return Waiting(
            chunks=sum(chunks for chunks, _ in under_way.values()),
            bytes=sum(nbytes for _, nbytes in under_way.values()),
            total_bytes=total,
            seconds_left=self.rates.seconds(left),
        )

    def ended(self, plan: ArrayPlan, problems: Sequence[Problem] = ()) -> None:
        """Nothing more is read for an array: its total is what was read."""
        more = 0
        if not problems:
            log_messages.array_done(plan.path)
        if plan.tasks:
            self._add_left(plan.path, -work_left(self._work[plan.path], self._done[plan.path]))
            self._work[plan.path] = self._work[plan.path]._replace(moves=False)
            more = self._expect(plan, self._done[plan.path].bytes_in)
        if self._progress is not None:
            self._progress(ArrayDone(path=plan.path, problems=tuple(problems), more_bytes=more))

    def _add_left(self, path: str, change: float) -> None:
        route = self._route[path]
        self._left[route] = self._left.get(route, 0.0) + change

    def _expect(self, plan: ArrayPlan, expected: int) -> int:
        """Correct the total of an array; returns the difference."""
        change = expected - self._bytes[plan.path]
        self._bytes[plan.path] = expected
        self._all_bytes += change
        return change


def _plus(done: TaskTotals, chunks: int, nbytes: int, *, tasks: int = 0) -> TaskTotals:
    return TaskTotals(tasks=done.tasks + tasks, chunks=done.chunks + chunks, bytes_in=done.bytes_in + nbytes)

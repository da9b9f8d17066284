"""Time left of a job: from the work that is left, by route, and the rate of each route.

Routes differ in speed by a factor of ten and more, and arrays are moved one after the other, so that the
average rate so far says little about what is left. Each route has its own rate, learnt while it is used.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from ..planning.routes import RouteName

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
"""Time relative to `relink`, for local files (docs/explanation/scale.md); only the ratios are used."""
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

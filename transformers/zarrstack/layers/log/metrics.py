"""Counts, bytes and latency percentiles per operation, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from ...system.fork_safety import new_lock

STEPS: Final = 16
"""Latency classes per power of two: the relative error of a percentile is at most 2^(1/16), 4.4 %."""
COLUMNS: Final = (
    "operation", "count", "missing", "errors", "bytes", "seconds", "p50 ms", "p90 ms", "p99 ms", "max ms",
)  # fmt: skip
_ROW: Final = "{:20}{:>9}{:>9}{:>8}{:>14}" + 5 * "{:>11}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatistics:
    """Statistics of one operation; latencies are in seconds."""

    count: int
    missing: int
    """Number of operations that found no value."""
    errors: int
    """Number of failed operations; cancelled ones count neither as errors nor as missing."""
    bytes: int
    """Bytes read or written."""
    seconds: float
    """Sum of all durations; concurrent operations count in full."""
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatistics:
    """Statistics of a log since it was created or reset; `str` formats a table."""

    operations: dict[str, OperationStatistics]
    """By name, the most frequent first."""
    lost: int
    """Events that could not be written."""

    def __str__(self) -> str:
        lines = [_ROW.format(*COLUMNS)]
        for name, each in self.operations.items():
            milliseconds = (f"{1000 * latency:.3f}" for latency in (each.p50, each.p90, each.p99, each.most))
            numbers = (each.count, each.missing, each.errors, each.bytes, f"{each.seconds:.3f}")
            lines.append(_ROW.format(name, *numbers, *milliseconds))
        if self.lost:
            lines.append(f"{self.lost} events could not be written")
        return "\n".join(lines)


class OperationTotal:
    """Running totals of one operation."""

    def __init__(self) -> None:
        self.seconds = self.most = 0.0
        self.bytes = 0
        self.outcomes = Counter[str]()
        self.classes = Counter[int]()
        """Operations by latency: those of a class take at most 2^(class / 16) nanoseconds."""

    def add(self, seconds: float, size: int | None, outcome: str) -> None:
        self.seconds += seconds
        self.most = max(self.most, seconds)
        self.bytes += size or 0
        self.outcomes[outcome] += 1
        self.classes[math.ceil(math.log2(max(seconds * 1e9, 1)) * STEPS)] += 1

    def percentile(self, share: float) -> float:
        """Upper bound in seconds of the fastest share of operations, at the resolution of a latency class."""
        rank, seen = share * self.outcomes.total(), 0
        for place in sorted(self.classes):
            seen += self.classes[place]
            if seen >= rank:
                return min(self.most, 2 ** (place / STEPS) / 1e9)
        return 0.0

    def figures(self) -> OperationStatistics:
        return OperationStatistics(
            count=self.outcomes.total(),
            missing=self.outcomes["missing"],
            errors=self.outcomes["error"],
            bytes=self.bytes,
            seconds=self.seconds,
            p50=self.percentile(0.5),
            p90=self.percentile(0.9),
            p99=self.percentile(0.99),
            most=self.most,
        )


class OperationTotals:
    """Totals by operation; thread-safe."""

    def __init__(self) -> None:
        self._guard = new_lock()
        self.reset()

    def reset(self) -> None:
        with self._guard:
            self._totals: dict[str, OperationTotal] = {}
            self._lost = 0

    def add(self, operation: str, seconds: float, size: int | None, outcome: str) -> None:
        with self._guard:
            self._totals.setdefault(operation, OperationTotal()).add(seconds, size, outcome)

    def count_lost(self) -> bool:
        """Count an event that could not be written; True for the first."""
        with self._guard:
            self._lost += 1
            return self._lost == 1

    def figures(self) -> LogStatistics:
        with self._guard:
            figures = {name: total.figures() for name, total in sorted(self._totals.items())}
            ordered = sorted(figures.items(), key=lambda item: -item[1].count)
            return LogStatistics(operations=dict(ordered), lost=self._lost)

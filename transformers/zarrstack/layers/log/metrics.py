"""Counts, bytes and latency percentiles per operation, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...system.fork_safety import new_lock

STEPS: Final = 16
"""Latency classes per power of two: the relative error of a percentile is at most 1/16."""
COLUMNS: Final = (
    "operation", "count", "missing", "errors", "bytes", "seconds", "p50 ms", "p90 ms", "p99 ms", "max ms",
)  # fmt: skip


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
        rows = [COLUMNS, *(_row(name, figures) for name, figures in self.operations.items())]
        widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
        lines = [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        if self.lost:
            lines.append(f"{self.lost} events could not be written")
        return "\n".join(lines)


class OperationTotal:
    """Running totals of one operation."""

    __slots__ = ("bytes", "classes", "count", "errors", "missing", "most", "seconds")

    def __init__(self) -> None:
        self.count = self.missing = self.errors = self.bytes = 0
        self.seconds = self.most = 0.0
        self.classes: dict[int, int] = {}

    def add(self, seconds: float, size: int | None, outcome: str) -> None:
        self.count += 1
        self.seconds += seconds
        self.most = max(self.most, seconds)
        if size is not None:
            self.bytes += size
        if outcome == "missing":
            self.missing += 1
        elif outcome == "error":
            self.errors += 1
        place = latency_class(seconds)
        self.classes[place] = self.classes.get(place, 0) + 1

    def percentile(self, share: float) -> float:
        """Upper bound in seconds of the fastest share of operations, at the resolution of a latency class."""
        rank, seen = share * self.count, 0
        for place in sorted(self.classes):
            seen += self.classes[place]
            if seen >= rank:
                return min(self.most, class_end(place))
        return 0.0

    def figures(self) -> OperationStatistics:
        totals = {name: getattr(self, name) for name in self.__slots__ if name != "classes"}
        half, most, nearly_all = map(self.percentile, (0.5, 0.9, 0.99))
        return OperationStatistics(**totals, p50=half, p90=most, p99=nearly_all)


class OperationTotals:
    """Tallies by operation; thread-safe."""

    def __init__(self) -> None:
        self._guard = new_lock()
        self.reset()

    def reset(self) -> None:
        with self._guard:
            self._tallies: dict[str, OperationTotal] = {}
            self._lost = 0

    def add(self, operation: str, seconds: float, size: int | None, outcome: str) -> None:
        with self._guard:
            tally = self._tallies.get(operation)
            if tally is None:
                tally = self._tallies[operation] = OperationTotal()
            tally.add(seconds, size, outcome)

    def count_lost(self) -> bool:
        """Count an event that could not be written; True for the first."""
        with self._guard:
            self._lost += 1
            return self._lost == 1

    def figures(self) -> LogStatistics:
        with self._guard:
            ordered = sorted(self._tallies.items(), key=lambda item: (-item[1].count, item[0]))
            return LogStatistics(
                operations={name: tally.figures() for name, tally in ordered}, lost=self._lost
            )


def latency_class(seconds: float) -> int:
    """Class of a latency: 16 per power of two of nanoseconds, exact below 32 ns."""
    nanoseconds = max(0, int(seconds * 1e9))
    power = nanoseconds.bit_length() - 5
    if power <= 0:
        return nanoseconds
    return power * STEPS + (nanoseconds >> power)


def class_end(place: int) -> float:
    """Longest latency of a class, in seconds."""
    if place < 2 * STEPS:
        return place / 1e9
    power, rest = place // STEPS - 1, place % STEPS + STEPS
    return ((rest + 1 << power) - 1) / 1e9


def _row(name: str, figures: OperationStatistics) -> tuple[str, ...]:
    numbers = (figures.count, figures.missing, figures.errors, figures.bytes)
    latencies = (figures.p50, figures.p90, figures.p99, figures.most)
    milliseconds = (f"{1000 * latency:.3f}" for latency in latencies)
    return (name, *map(str, numbers), f"{figures.seconds:.3f}", *milliseconds)

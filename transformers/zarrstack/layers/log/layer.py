"""`Log`: one event per operation, also in a file of JSON lines, and statistics in bounded memory."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store

from ...base.byte_ranges import slice_of
from ...base.intercept import Call, Intercept
from ...base.option_checks import clock_of, either
from ...system.clock import Clock
from ...system.fork_safety import new_lock

T = TypeVar("T")
Outcome: TypeAlias = Literal["ok", "missing", "error", "cancelled"]
""""missing" means that the key has no value; "cancelled", that the caller did not wait for the result."""
Event: TypeAlias = dict[str, Any]
"""A completed operation; the page of the layers (docs/transformers/index.md) has its fields."""

LOGGER: Final = logging.getLogger("zarrstack.log")
COLUMNS: Final = ("operation", "count", "missing", "errors", "bytes", "seconds", "max ms")
_ROW: Final = "{:20}{:>9}{:>9}{:>8}{:>14}{:>11}{:>11}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatistics:
    """Statistics of one operation."""

    count: int = 0
    missing: int = 0
    """Number of operations that found no value."""
    errors: int = 0
    """Number of failed operations; cancelled ones count neither as errors nor as missing."""
    bytes: int = 0
    """Bytes read or written."""
    seconds: float = 0.0
    """Sum of all durations; concurrent operations count in full."""
    most: float = 0.0
    """Longest duration in seconds."""


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
            numbers = (each.count, each.missing, each.errors, each.bytes)
            lines.append(_ROW.format(name, *numbers, f"{each.seconds:.3f}", f"{1000 * each.most:.3f}"))
        if self.lost:
            lines.append(f"{self.lost} events could not be written")
        return "\n".join(lines)


class OperationTotals:
    """Totals by operation; thread-safe."""

    def __init__(self) -> None:
        self._guard = new_lock()
        self.reset()

    def reset(self) -> None:
        with self._guard:
            self._totals: dict[str, OperationStatistics] = {}
            self._lost = 0

    def add(self, operation: str, seconds: float, size: int | None, outcome: str) -> None:
        with self._guard:
            before = self._totals.get(operation, OperationStatistics())
            self._totals[operation] = OperationStatistics(
                count=before.count + 1,
                missing=before.missing + (outcome == "missing"),
                errors=before.errors + (outcome == "error"),
                bytes=before.bytes + (size or 0),
                seconds=before.seconds + seconds,
                most=max(before.most, seconds),
            )

    def count_lost(self) -> bool:
        """Count an event that could not be written; True for the first."""
        with self._guard:
            self._lost += 1
            return self._lost == 1

    def figures(self) -> LogStatistics:
        with self._guard:
            ordered = sorted(self._totals.items(), key=lambda item: (-item[1].count, item[0]))
            return LogStatistics(operations=dict(ordered), lost=self._lost)


class ToFile:
    """Appends events to a file as JSON lines.

    Each line is one `write` to a file opened for appending, so several processes may log to one local file,
    and a killed process leaves only complete lines.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self._guard = new_lock()

    def __call__(self, event: Event) -> None:
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        with self._guard:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._file = os.open(self.path, flags, 0o666)
            while line:  # a nearly full disk may accept only part of it
                line = line[os.write(self._file, line) :]

    def close(self) -> None:
        """Close the file; a later event reopens it."""
        with self._guard:
            if self._file is not None:
                os.close(self._file)
                self._file = None


class Log(Intercept):
    """Records every operation with bytes, time and outcome, and keeps statistics.

    `events` is a path, to which JSON lines are appended. `callback` is called with each event, a dictionary.
    Without either, events go to the logger "zarrstack.log" at the level DEBUG. `label` distinguishes several
    logs. An event that cannot be written is counted as lost, and the first one is reported through `logging`;
    the operation itself continues.

    Examples
    --------
    >>> log = zarrstack.Log()
    >>> array = zarr.create_array(zarrstack.stack(MemoryStore(), log), name="a", shape=(4,), dtype="i4")
    >>> sorted(log.figures().operations)
    ['get', 'set', 'set_if_not_exists']
    """

    name = "log"
    transparent = awaits_only_below = True

    def __init__(
        self,
        store: Store | None = None,
        *,
        events: str | os.PathLike[str] | None = None,
        callback: Callable[[Event], Any] | None = None,
        label: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        either(self, "events", events, _is_path, "the path of a file")
        either(self, "callback", callback, callable, "a function of one event")
        either(self, "label", label, lambda value: isinstance(value, str), "text")
        path = None if events is None else os.fspath(events)
        self._record_options(events=path)
        self._label = label
        self._clock = clock_of(self, clock)
        self._file = None if path is None else ToFile(path)
        self._sinks = tuple(each for each in (self._file, callback) if each is not None)
        self._totals = OperationTotals()

    def figures(self) -> LogStatistics:
        return self._totals.figures()

    def reset(self) -> None:
        self._totals.reset()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        began = self._clock.now()
        size, failure, missing = call.sent, None, False
        try:
            result = await act()
            if call.operation == "get":
                missing = result is None
                size = len(result) if isinstance(result, Buffer) else None
        except BaseException as error:
            failure = error
            raise
        finally:
            self._note(call, self._clock.now() - began, size=size, missing=missing, failure=failure)
        return result

    async def around_listing(
        self, call: Call, begin: Callable[[], AsyncIterator[str]]
    ) -> AsyncGenerator[str, None]:
        seconds, count, failure = 0.0, 0, None
        names = begin()
        try:
            while True:
                began = self._clock.now()
                try:
                    name = await anext(names)
                finally:  # without the time that the consumer takes
                    seconds += self._clock.now() - began
                count += 1
                yield name
        except StopAsyncIteration:
            pass
        except GeneratorExit:
            raise  # the caller stopped iterating, which is not an error
        except BaseException as error:
            failure = error
            raise
        finally:
            self._note(call, seconds, keys=count, failure=failure)

    def _note(
        self,
        call: Call,
        seconds: float,
        *,
        size: int | None = None,
        keys: int | None = None,
        missing: bool = False,
        failure: BaseException | None = None,
    ) -> None:
        """Count an operation, and write its event to every sink."""
        outcome: Outcome = "missing" if missing else "ok" if failure is None else _outcome_of(failure)
        self._totals.add(call.operation, seconds, size, outcome)
        sinks = self._sinks or ((_to_logger,) if LOGGER.isEnabledFor(logging.DEBUG) else ())
        if not sinks:
            return
        part = slice_of(call.part)
        fields = {
            "process": os.getpid(),
            "time": self._clock.wall(),
            "label": self._label,
            "operation": call.operation,
            "key": call.key,
            "range": None if call.part is None else (part.start, part.stop),
            "bytes": size,
            "keys": keys,
            "seconds": seconds,
            "outcome": outcome,
            "error": f"{type(failure).__name__}: {failure}" if outcome == "error" else None,
        }
        event = {name: value for name, value in fields.items() if value is not None}
        for sink in sinks:
            try:
                sink(event)
            except Exception as error:
                if self._totals.count_lost():  # a traceback helps where a program is at fault, not a disk
                    trace = not isinstance(error, OSError)
                    text = f"layer 'log': an event could not be written: {error}"
                    LOGGER.log(logging.ERROR, text, exc_info=trace)


def _outcome_of(failure: BaseException) -> Outcome:
    if isinstance(failure, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return "missing" if isinstance(failure, FileNotFoundError) else "error"


def _to_logger(event: Event) -> None:
    text = " ".join(f"{name}={value!r}" for name, value in event.items())
    LOGGER.debug("%s", text, extra={"event": event})


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and bool(os.fspath(value))

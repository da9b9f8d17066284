"""`Log`: one event per operation, also in a file of JSON lines, and statistics."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store

from ...base.byte_ranges import slice_of
from ...base.intercept import Call, Intercept
from ...base.option_checks import clock_of, either, invalid_option
from ...system.clock import Clock
from ...system.fork_safety import new_lock
from .metrics import LogStatistics, OperationTotals

T = TypeVar("T")
Outcome: TypeAlias = Literal["ok", "missing", "error", "cancelled"]

LOGGER: Final = "zarrstack.log"
_numbers: Final = itertools.count(1)
_outer: ContextVar[tuple[int, int] | None] = ContextVar("zarrstack_log", default=None)
"""Number and depth of the enclosing operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A completed operation."""

    number: int
    """Sequence number, across all logs in this process."""
    parent: int | None
    """Number of the enclosing operation of a log further up; None for an outermost one."""
    depth: int
    """Number of enclosing operations of logs further up."""
    process: int
    time: float
    """End of the operation, in seconds since 1970."""
    label: str | None
    """The label of the log, which distinguishes several logs."""
    operation: str
    """The store's method: "get", "set", "delete", "exists", "list_dir", ..."""
    key: str
    """The key, or the prefix of a listing or a removal."""
    range: tuple[int, int | None] | None
    """Start and stop of the requested bytes, as in a Python slice; None for the whole value."""
    bytes: int | None
    """Bytes read or written; None for operations without a value."""
    keys: int | None
    """Number of keys or names listed; None for other operations."""
    seconds: float
    """Time spent in the layers and the store below."""
    outcome: Outcome
    """"missing" means that the key has no value; "cancelled", that the caller did not wait for the result."""
    error: str | None
    """Type and text of the error, if any."""

    def to_json(self) -> dict[str, Any]:
        """The fields that are set, as JSON."""
        pairs = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in pairs if value is not None}

    def __str__(self) -> str:
        parts = [self.operation, repr(self.key)]
        if self.range is not None:
            start, stop = self.range
            parts.append(f"[{start}:{'' if stop is None else stop}]")
        if self.bytes is not None:
            parts.append(f"{self.bytes} bytes")
        if self.keys is not None:
            parts.append(f"{self.keys} keys")
        parts.append(f"{self.seconds * 1000:.3f} ms")
        if self.outcome != "ok":
            parts.append(self.outcome if self.error is None else f"{self.outcome}: {self.error}")
        return "  " * self.depth + " ".join(parts)


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
        line = (json.dumps(event.to_json(), ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        with self._guard:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
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

    `events` is a path, to which JSON lines are appended. `callback` is called with each `Event`. Without
    either, events go to the logger named `logger` at `level`. `label` distinguishes several logs. An event
    that cannot be written is counted as lost, and the first one is reported through `logging`; the operation
    itself continues.

    Examples
    --------
    >>> log = zarrstack.Log()
    >>> array = zarr.create_array(zarrstack.stack(MemoryStore(), log), name="a", shape=(4,), dtype="i4")
    >>> sorted(log.figures().operations)
    ['get', 'set', 'set_if_not_exists']
    """

    name = "log"
    transparent = awaits_only_below = True
    short: ClassVar[str] = "events"

    def __init__(
        self,
        store: Store | None = None,
        *,
        events: str | os.PathLike[str] | None = None,
        logger: str | None = None,
        level: str | int = "DEBUG",
        callback: Callable[[Event], Any] | None = None,
        label: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        either(self, "events", events, _is_path, "the path of a file")
        either(self, "logger", logger, lambda value: isinstance(value, str), "the name of a logger")
        either(self, "callback", callback, callable, "a function of one event")
        either(self, "label", label, lambda value: isinstance(value, str), "text")
        levels = logging.getLevelNamesMapping()
        number = levels.get(level) if isinstance(level, str) else level
        if not isinstance(number, int) or isinstance(number, bool):
            raise invalid_option(self, "level", level, f"a number, or one of {', '.join(levels)}")
        path = None if events is None else os.fspath(events)
        self._record_options(events=path)
        self._label = label
        self._clock = clock_of(self, clock)
        self._file = None if path is None else ToFile(path)
        self._sinks = tuple(each for each in (self._file, callback) if each is not None)
        logs = logger is not None or not self._sinks
        self._logger = logging.getLogger(logger or LOGGER) if logs else None
        self._level = number
        self._totals = OperationTotals()

    def figures(self) -> LogStatistics:
        """Count, bytes and latency percentiles per operation, since the log was created or reset."""
        return self._totals.figures()

    def reset(self) -> None:
        self._totals.reset()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        with _Record(self, call) as record:
            return record.result(await act())

    async def around_listing(
        self, call: Call, begin: Callable[[], AsyncIterator[str]]
    ) -> AsyncGenerator[str, None]:
        record = _Record(self, call)
        record.keys = 0
        names = begin()
        try:
            while True:
                record.enter()
                try:
                    name = await anext(names)
                finally:
                    record.leave()
                record.keys += 1
                yield name
        except StopAsyncIteration:
            pass
        except GeneratorExit:
            raise  # the caller stopped iterating, which is not an error
        except BaseException as error:
            record.fail(error)
            raise
        finally:
            self._note(record)

    def _to_logger(self, event: Event) -> None:
        assert self._logger is not None
        self._logger.log(self._level, "%s", event, extra={"event": event})

    def _note(self, record: _Record) -> None:
        """Count an operation, and write its event to every enabled sink."""
        call = record.call
        self._totals.add(call.operation, record.seconds, record.size, record.outcome)
        sinks = self._sinks
        if self._logger is not None and self._logger.isEnabledFor(self._level):
            sinks = (*sinks, self._to_logger)
        event = None
        for sink in sinks:
            try:
                event = event or record.event(self._label, self._clock.wall())
                sink(event)
            except OSError as error:  # not a bug, so no traceback
                if self._totals.count_lost():
                    logging.getLogger(LOGGER).error("layer 'log': an event could not be written: %s", error)  # noqa: TRY400
            except Exception:
                if self._totals.count_lost():
                    logging.getLogger(LOGGER).exception("layer 'log': an event could not be written")


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and bool(os.fspath(value))


@dataclass(slots=True, eq=False)
class _Record:
    """An operation in progress; times exclude those spent in the consumer of a listing."""

    log: Log
    call: Call
    number: int = field(default_factory=partial(next, _numbers))
    parent: tuple[int, int] | None = field(default_factory=_outer.get)
    size: int | None = None
    keys: int | None = None
    seconds: float = 0.0
    outcome: Outcome = "ok"
    error: str | None = None
    _started: float = 0.0
    _token: Token[tuple[int, int] | None] | None = None

    def __post_init__(self) -> None:
        self.size = self.call.sent

    def enter(self) -> None:
        depth = 0 if self.parent is None else self.parent[1] + 1
        self._token = _outer.set((self.number, depth))
        self._started = self.log._clock.now()  # noqa: SLF001 - one concept, two classes

    def leave(self) -> None:
        self.seconds += self.log._clock.now() - self._started  # noqa: SLF001
        assert self._token is not None
        _outer.reset(self._token)

    def result(self, value: T) -> T:
        """Record the result and return it."""
        if self.call.operation == "get":
            if value is None:
                self.outcome = "missing"
            elif isinstance(value, Buffer):
                self.size = len(value)
        return value

    def fail(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            self.outcome = "cancelled"
        elif isinstance(error, FileNotFoundError):
            self.outcome = "missing"
        else:
            self.outcome, self.error = "error", f"{type(error).__name__}: {error}"

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.leave()
        if error is not None:
            self.fail(error)
        self.log._note(self)  # noqa: SLF001

    def event(self, label: str | None, time: float) -> Event:
        call = self.call
        part = slice_of(call.part)
        return Event(
            number=self.number,
            parent=None if self.parent is None else self.parent[0],
            depth=0 if self.parent is None else self.parent[1] + 1,
            process=os.getpid(),
            time=time,
            label=label,
            operation=call.operation,
            key=call.key,
            range=None if call.part is None else (part.start, part.stop),
            bytes=self.size,
            keys=self.keys,
            seconds=self.seconds,
            outcome=self.outcome,
            error=self.error,
        )

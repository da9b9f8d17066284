"""What `Log` says of one operation, and where it says it: JSON lines, `logging`, a callback."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ...system.fork_safety import forget_in_children

Outcome = Literal["ok", "missing", "error", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One operation, after it is done."""

    number: int
    """Counts the operations of all logs in this process."""
    parent: int | None
    """The operation of a log further up within which this one ran; None for an outermost one."""
    depth: int
    """How many operations of logs further up this one ran within."""
    process: int
    time: float
    """When it ended, in seconds since 1970."""
    label: str | None
    """The log's own, to tell several apart."""
    operation: str
    """The store's method: "get", "set", "delete", "exists", "list_dir", ..."""
    key: str
    """The key, or the prefix of a listing or a removal."""
    range: tuple[int, int | None] | None
    """Start and stop of the bytes asked for, as a Python slice; None for the whole value."""
    bytes: int | None
    """Bytes read or written; None for what carries no value."""
    keys: int | None
    """Keys or names that a listing gave; None for anything else."""
    seconds: float
    """Time spent in the layers and the store below."""
    outcome: Outcome
    """"missing" means a key that has no value; "cancelled", that nobody waited for the end."""
    error: str | None
    """Type and text of the error; None when there was none."""

    def to_json(self) -> dict[str, Any]:
        """The fields that are set, for machines."""
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


class Sink(Protocol):
    """A place that events go to."""

    def wants(self) -> bool:
        """Whether an event would be looked at now; if not, none is made."""

    def write(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """Let go of what is open; a later `write` opens it again."""


class ToLogger:
    """Events as records of a logger; `record.event` holds the event."""

    def __init__(self, logger: str, level: int) -> None:
        self._logger, self._level = logging.getLogger(logger), level

    def wants(self) -> bool:
        """Whether the logger is enabled for the level."""
        return self._logger.isEnabledFor(self._level)

    def write(self, event: Event) -> None:
        """A record with the event's text."""
        self._logger.log(self._level, "%s", event, extra={"event": event})

    def close(self) -> None:
        """Nothing is open."""


class ToFile:
    """Events as JSON lines at the end of a file.

    Each line is one `write` to a file opened for appending, so that several processes may log to
    one local file, and a killed process leaves whole lines.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self.after_fork()
        forget_in_children(self)

    def after_fork(self) -> None:
        """A child appends to the same file, with a lock of its own."""
        self._guard = threading.Lock()

    def wants(self) -> bool:
        """Always."""
        return True

    def write(self, event: Event) -> None:
        """One line."""
        line = (json.dumps(event.to_json(), ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        with self._guard:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
                self._file = os.open(self.path, flags, 0o666)
            while line:  # a nearly full disk takes a part
                line = line[os.write(self._file, line) :]

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            if self._file is not None:
                os.close(self._file)
                self._file = None


class ToCallback:
    """Events given to a function, in the thread in which the operation ended."""

    def __init__(self, callback: Callable[[Event], Any]) -> None:
        self._callback = callback

    def wants(self) -> bool:
        """Always."""
        return True

    def write(self, event: Event) -> None:
        """Call the function."""
        self._callback(event)

    def close(self) -> None:
        """Nothing is open."""

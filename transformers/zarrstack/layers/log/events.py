"""Events of `Log`, and their file of JSON lines."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal

from ...system.fork_safety import new_lock

Outcome = Literal["ok", "missing", "error", "cancelled"]


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
        """Append one line."""
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

"""`--metrics`: the figures of a run in Prometheus' text format, for node_exporter's textfile collector.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4). The file is replaced
as a whole, at intervals and at the end.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import UsageError
from zarrstack.version import __version__

from ..storage.redact import redact
from ..transfer.events import (
    ArrayDone,
    Ended,
    Event,
    Listed,
    Planned,
    Progress,
    Retried,
    TaskDone,
    Waiting,
)
from .log_messages import print_warning

_SECONDS: Final = 15.0
"""Seconds between two writes: Prometheus is usually configured to read every 15 to 60 s."""
_WINDOW: Final = 60.0
"""Seconds over which the current rate is measured."""

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = list[tuple[Labels, float]]


class MetricsFile:
    """Counts the events of a run, writes the figures to a file, and passes the events on.

    Several runs may share one, from several threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        progress: Progress | None,
        *,
        name: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`name`: the result, which tells apart the files of a host. UsageError if none can be written."""
        self._path = os.fspath(path)
        self._progress = progress
        self._clock = clock
        self._name = redact(name)
        self._lock = threading.RLock()
        self._start = clock()
        self._next = 0.0
        self._chunks: Counter[str] = Counter()
        self._read: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._arrays = {"planned": 0, "done": 0, "failed": 0}
        self._archives: Counter[str] = Counter()
        self._retries = 0
        self._planned_bytes = self._planned_chunks = 0
        self._under_way = 0
        self._rates: list[tuple[float, int]] = []
        self._silent = 0.0
        self._left: float | None = None
        self._result: int | None = None
        try:
            self._write()
        except OSError as error:
            raise UsageError(
                "the metrics cannot be written",
                key=self._path,
                found=error.strerror,
                advice="Name another file.",
            ) from error

    def __call__(self, event: Event) -> None:
        """Count an event, and write the file if it is time."""
        if self._progress is not None:
            self._progress(event)
        with self._lock:
            match event:
                case Planned():
                    self._planned_bytes += (event.bytes or 0) - event.bytes_done
                    self._planned_chunks += (event.chunks or 0) - event.chunks_done
                    self._arrays["planned"] += event.arrays
                case TaskDone(route=str(route)):
                    self._planned_bytes += event.more_bytes
                    self._chunks[route] += event.chunks
                    self._read[route] += event.bytes_in
                    self._written[route] += event.bytes_out
                    self._retries += event.retries
                case ArrayDone():
                    self._planned_bytes += event.more_bytes
                    self._arrays["failed" if event.problems else "done"] += 1
                    self._failures.update(problem.kind for problem in event.problems)
                case Retried():
                    self._retries += event.requests
                case Listed() | Waiting():
                    self._silent = 0.0 if event.silence is None else event.silence.seconds
                    if isinstance(event, Waiting):
                        self._under_way, self._left = event.bytes, event.seconds_left
                case Ended(archive=str(state)):
                    self._archives[state] += 1
        self._sometimes()

    def end(self, *, ok: bool) -> None:
        """Write the file for the last time."""
        with self._lock:
            self._result = int(ok)
            self._left = 0.0 if ok else None
            self._under_way = 0
            self._next = 0.0
        self._sometimes()

    def _sometimes(self) -> None:
        """Write the file if it is time; an error is reported once and does not fail the run."""
        with self._lock:
            if self._clock() < self._next:
                return
            try:
                self._write()
            except OSError as error:
                self._next = float("inf")
                print_warning(f"zarrlift: cannot write the metrics {self._path}: {error.strerror}")

    def _write(self) -> None:
        """Replace the file; another user, such as node_exporter's, may read it."""
        self._next = self._clock() + _SECONDS
        text = "".join(self._lines())
        partial = f"{self._path}.{os.getpid()}.tmp"  # the collector reads files with the suffix .prom only
        try:
            with open(partial, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.chmod(partial, 0o644)
            os.replace(partial, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(partial)
            raise

    def _lines(self) -> Iterator[str]:
        for name, (kind, help_text, samples) in self._metrics().items():
            if not samples:
                continue
            yield f"# HELP zarrlift_{name} {help_text}\n# TYPE zarrlift_{name} {kind}\n"
            for labels, value in samples:
                inner = ",".join(
                    f'{label}="{_escaped(text)}"'
                    for label, text in {"destination": self._name, **labels}.items()
                )
                yield f"zarrlift_{name}{{{inner}}} {_number(value)}\n"

    def _metrics(self) -> dict[str, tuple[str, str, Samples]]:
        """Type, help and samples by name; the help of a name is the same in every file."""
        now = self._clock()

        def one(value: float | None) -> Samples:
            return [] if value is None else [({}, value)]

        def by(label: str, counts: Mapping[Any, int]) -> Samples:
            return [({label: name}, count) for name, count in sorted(counts.items())]

        return {
            "build_info": ("gauge", "Version of zarrlift; always 1.", [({"version": __version__}, 1)]),
            "start_time_seconds": ("gauge", "Start of the run, Unix time.", one(self._start)),
            "updated_time_seconds": ("gauge", "Time of these figures, Unix time.", one(now)),
            "running": ("gauge", "1 while the run is under way, 0 after its end.", one(self._result is None)),
            "success": ("gauge", "After the end: 1 if all is done, else 0.", one(self._result)),
            "read_bytes_total": ("counter", "Stored bytes of the source read.", by("route", self._read)),
            "written_bytes_total": ("counter", "Bytes written.", by("route", self._written)),
            "chunks_total": ("counter", "Objects of the source moved.", by("route", self._chunks)),
            "planned_bytes": ("gauge", "Stored bytes that this run reads in all.", one(self._planned_bytes)),
            "planned_chunks": ("gauge", "Objects that this run moves in all.", one(self._planned_chunks)),
            "arrays": ("gauge", "Arrays of this run, and those that have ended.", by("state", self._arrays)),
            "archives": ("gauge", "Archives that have ended.", by("state", self._archives)),
            "failures_total": ("counter", "Problems of failed arrays.", by("kind", self._failures)),
            "retries_total": (
                "counter",
                "Requests repeated after an error, without those that a client repeats itself.",
                one(self._retries),
            ),
            "read_bytes_per_second": (
                "gauge",
                "Stored bytes of the source read per second in the last minute.",
                one(self._rate(now)),
            ),
            "time_left_seconds": (
                "gauge",
                "Estimated time left; absent if unknown.",
                one(self._left),
            ),
            "server_silent_seconds": (
                "gauge",
                "Seconds for which a server has not answered, or with errors only; 0 if it answers.",
                one(self._silent),
            ),
        }

    def _rate(self, now: float) -> float:
        reached = sum(self._read.values()) + self._under_way
        self._rates = [(when, read) for when, read in self._rates if now - when <= _WINDOW][-64:]
        self._rates.append((now, reached))
        when, read = self._rates[0]
        return max(reached - read, 0) / (now - when) if now > when else 0.0


def _escaped(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # names are not always valid UTF-8
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)

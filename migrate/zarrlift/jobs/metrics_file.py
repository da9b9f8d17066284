"""`--metrics`: the figures of a run in Prometheus' text format, for node_exporter's textfile collector.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4). The file is replaced
as a whole, at intervals and at the end.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import Problem, UsageError
from zarrstack.version import __version__

from ..planning.routes import RouteName
from ..storage.redact import redact
from ..transfer.counts import MoveResult
from .log_messages import print_warning
from .progress import DetailedProgress, Progress, RunningProgress, TickingProgress

_SECONDS: Final = 15.0
"""Seconds between two writes: Prometheus is usually configured to read every 15 to 60 s."""
_WINDOW: Final = 60.0
"""Seconds over which the current rate is measured."""

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = list[tuple[Labels, float]]


class MetricsFile(DetailedProgress):
    """Counts what a run reports, writes it to a file, and passes it on to another progress.

    Several runs may share one, from several threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        progress: Progress,
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
        self._chunks: Counter[RouteName] = Counter()
        self._read: Counter[RouteName] = Counter()
        self._written: Counter[RouteName] = Counter()
        self._failures: Counter[str] = Counter()
        self._arrays = {"planned": 0, "done": 0, "failed": 0}
        self.archives: Counter[str] = Counter()
        """Archives that have ended, of a run that migrates several."""
        self._retries = 0
        self._planned_bytes = self._planned_chunks = 0
        self._under_way = 0
        self._rates: list[tuple[float, int]] = []
        self._silent = 0.0
        self.seconds_left: float | None = None
        """Set by `tick`, or by what runs several archives."""
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

    # What `Progress` receives

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """Pass it on."""
        self._progress.start(total_bytes, total_chunks)

    def resume_at(self, chunks: int, nbytes: int) -> None:
        """Pass it on; work of earlier runs is not counted."""
        self._progress.resume_at(chunks, nbytes)

    def expect(self, total_bytes: int, total_chunks: int) -> None:
        """Pass it on."""
        self._progress.expect(total_bytes, total_chunks)

    def advance(self, chunks: int, nbytes: int) -> None:
        """Pass it on, and write the file if it is time."""
        self._progress.advance(chunks, nbytes)
        self._sometimes()

    def note(self, text: str) -> None:
        """Pass it on."""
        self._progress.note(text)

    def close(self) -> None:
        """Pass it on."""
        self._progress.close()

    def tick(self, present: RunningProgress) -> None:
        """Pass it on, and write the file if it is time."""
        if isinstance(self._progress, TickingProgress):
            self._progress.tick(present)
        with self._lock:
            self._silent = 0.0 if present.silence is None else present.silence.seconds
            if present.listed is None:
                self._under_way = present.bytes
                self.seconds_left = present.seconds_left
        self._sometimes()

    # What only `DetailedProgress` receives

    def planned(self, nbytes: int, chunks: int, arrays: int) -> None:
        """Add to the totals."""
        with self._lock:
            self._planned_bytes += nbytes
            self._planned_chunks += chunks
            self._arrays["planned"] += arrays

    def moved(self, route: RouteName, moved: MoveResult) -> None:
        """Count a task."""
        with self._lock:
            self._chunks[route] += moved.chunks
            self._read[route] += moved.bytes_in
            self._written[route] += moved.bytes_out
            self._retries += moved.retries

    def repeated(self, requests: int) -> None:
        """Count requests."""
        with self._lock:
            self._retries += requests

    def array_ended(self, problems: Sequence[Problem]) -> None:
        """Count an array and its problems."""
        with self._lock:
            self._arrays["failed" if problems else "done"] += 1
            self._failures.update(problem.kind for problem in problems)

    def archive_ended(self, state: str) -> None:
        """Count an archive."""
        with self._lock:
            self.archives[state] += 1

    def end(self, *, ok: bool) -> None:
        """Write the file for the last time."""
        with self._lock:
            self._result = int(ok)
            self.seconds_left = 0.0 if ok else None
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
            "archives": ("gauge", "Archives that have ended.", by("state", self.archives)),
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
            "time_left_seconds": ("gauge", "Estimated time left; absent if unknown.", one(self.seconds_left)),
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

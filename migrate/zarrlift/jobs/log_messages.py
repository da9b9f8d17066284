"""Log messages of a run: the logger `zarrlift` and its children.

The library does not configure logging: nothing is written without handlers of the application. Records have
the attributes `event`, and `node` and `problem` where there is one, for handlers that write fields.

`--log` has such a handler (`logged`), which writes JSON lines that programs can read. Every line is one
object with `time` (UTC, ISO 8601), `level`, `event`, `message` and `process`; `archive`, `node` and `problem`
where they apply. Events: `start`, `plan`, `array`, `failure`, `retry`, `progress`, `interrupted`, `error` and
`end`; `message` for other records.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSONObject

from ..core.units import node_text, safe
from ..storage.redact import redact, redact_foreign

archive: Final[ContextVar[str | None]] = ContextVar("archive", default=None)
"""The archive that a record is about, for a process that migrates several; set by what runs them."""

log: Final = logging.getLogger("zarrlift")
log.addHandler(logging.NullHandler())
progress_log: Final = logging.getLogger("zarrlift.progress")
"""One record per minute, level INFO."""

_FORMAT: Final = "%(asctime)s zarrlift: %(message)s"
_DATES: Final = "%Y-%m-%d %H:%M:%S"
_MAX_FAILURES: Final = 10
"""Maximum number of records per array; the outcome contains all problems."""


def print_warning(text: str) -> None:
    """Print a line to standard error; the work continues if that is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - for people, where no handler is


@contextmanager
def attached(handlers: Sequence[logging.Handler], level: int = logging.INFO) -> Iterator[None]:
    """Give records from a level on to handlers, and those of the progress; the levels are then as before."""
    levels = log.level, progress_log.level
    for handler in handlers:
        log.addHandler(handler)
    if handlers:
        log.setLevel(level)
        progress_log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(levels[0])
        progress_log.setLevel(levels[1])
        for handler in handlers:
            log.removeHandler(handler)


def array_done(path: str) -> None:
    """Log that an array is complete and readable."""
    if log.isEnabledFor(logging.INFO):
        log.info("done: %s", node_text(path), extra={"event": "array", "node": path})


def failed(problems: Sequence[Problem], *, before: int = 0) -> None:
    """Log failures of an array that already had `before` failures; the advice comes last."""
    for problem in problems[: max(_MAX_FAILURES - before, 0)]:
        more = {"event": "failure", "node": problem.node, "problem": problem.to_json()}
        log.error("failed: %s", replace(problem, advice=None), extra=more)
    if before < _MAX_FAILURES < before + len(problems):
        more = {"event": "failure", "node": problems[0].node}
        text = "failed: more of %s, which the report lists"
        log.error(text, node_text(problems[0].node or ""), extra=more)


_MEMBERS: Final = ("node", "problem")


class _EventLog(logging.Handler):
    """Appends each record with one write, so that several processes may share the file."""

    def __init__(self, path: str) -> None:
        super().__init__(logging.INFO)
        self.path = path
        try:
            self._file = os.open(
                path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666
            )
        except OSError as error:
            raise UsageError(
                "the log cannot be written", key=path, found=error.strerror, advice="Name another file."
            ) from error

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a file that becomes unwritable does not fail the migration."""
        try:
            os.write(self._file, _line(record))
        except OSError as error:
            self.setLevel(logging.CRITICAL + 1)
            print_warning(f"zarrlift: cannot write the log {self.path}: {error.strerror}")

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        super().close()


class StreamLog(logging.Handler):
    """Writes records as lines for people: failures and warnings, or everything."""

    def __init__(
        self,
        note: Callable[[str], object],
        problems: list[JSONObject],
        *,
        with_progress: bool,
        everything: bool,
    ) -> None:
        """`note` writes a line; `problems` gets those that were written; a bar replaces the progress."""
        super().__init__(logging.INFO)
        self._note = note
        self._problems = problems
        self.setFormatter(_Harmless(_FORMAT, _DATES))
        self._with_progress = with_progress
        self._everything = everything

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept failures and progress, or everything if requested."""
        if record.name == progress_log.name:
            return self._with_progress
        return self._everything or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._note(self.format(record))
        if (problem := getattr(record, "problem", None)) is not None:
            self._problems.append(problem)


class _Harmless(logging.Formatter):
    """Formats records so that names from an archive cannot control a terminal or start a new line.

    Records of a batch name the archive.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        return safe(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, with the archive in a process that migrates several."""
        if (named := archive.get()) is not None:
            record.message = f"{redact(named)}: {record.message}"
        return super().formatMessage(record)


def _line(record: logging.LogRecord) -> bytes:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
    line: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": getattr(record, "event", "message"),
        "message": record.getMessage(),
        "process": record.process,
    }
    if (named := archive.get()) is not None:
        line["archive"] = named
    line.update((name, value) for name in _MEMBERS if (value := getattr(record, name, None)) is not None)
    # ASCII: names are not always valid UTF-8.
    return json.dumps(without_secrets(line), default=str).encode() + b"\n"


def without_secrets(value: Any, secrets: Sequence[str] = ()) -> Any:
    """JSON with URLs without secrets, which may come from an archive's metadata, and without these texts."""
    if isinstance(value, dict):
        return {name: without_secrets(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item, secrets) for item in value]
    return redact(value, secrets) if isinstance(value, str) else value


@contextmanager
def logged(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Append the events of a run to a file; UsageError if it cannot be opened. `what` is the first one."""
    handler = _EventLog(os.fspath(path))

    def tell(level: int, event: str, text: str, problem: Any = None) -> None:
        record = log.makeRecord(log.name, level, "", 0, text, (), None)
        record.event, record.problem = event, problem
        handler.handle(record)

    with closing(handler), attached([handler]):
        try:
            tell(logging.INFO, "start", what)
            yield
        except KeyboardInterrupt:
            tell(logging.INFO, "interrupted", "interrupted")
            raise
        except Exception as error:
            problem = getattr(error, "problem", None)
            text = str(error) if problem is not None else redact_foreign(f"{type(error).__name__}: {error}")
            tell(logging.ERROR, "error", text, None if problem is None else problem.to_json())
            raise

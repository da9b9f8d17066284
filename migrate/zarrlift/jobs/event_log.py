"""`--log`: what happens in a run, as JSON lines that programs can read.

Every line is one object with `time` (UTC, ISO 8601), `level`, `event`, `message` and `process`; `archive`,
`node` and `problem` where they apply. Events: `start`, `plan`, `array`, `failure`, `retry`, `progress`,
`interrupted`, `error` and `end`; `message` for other records.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from zarrstack.core.errors import UsageError

from ..storage.redact import redact, redact_foreign
from .log_messages import archive, attached, log, print_warning

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
    return json.dumps(_redacted(line), default=str).encode() + b"\n"


def _redacted(value: Any) -> Any:
    """The same with URLs without secrets; they may come from an archive's metadata, too."""
    if isinstance(value, dict):
        return {name: _redacted(item) for name, item in value.items()}
    return redact(value) if isinstance(value, str) else value


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

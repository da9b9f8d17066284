"""Displays the progress and the log of a running command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

    from ..jobs.progress_display import LogProgress

_FORMAT: Final = "%(asctime)s zarrlift: %(message)s"
_DATES: Final = "%Y-%m-%d %H:%M:%S"


@contextmanager
def watched(*, quiet: bool, verbose: bool, logged_problems: list[JSONObject] | None = None) -> Iterator[Any]:
    """The progress of a command, with the log on standard error.

    Standard error gets failures and, if it is not a terminal, one line per minute; with `verbose` everything,
    and nothing if `quiet`. A terminal has the bar and the report instead. The failures that standard error
    got are added to `logged_problems`, so that the report need not repeat them.
    """
    from ..jobs.log_messages import attached, log
    from ..jobs.progress_display import ProgressBar, progress_for

    progress = progress_for(quiet=quiet)
    handlers = []
    if progress is not None and (verbose or not isinstance(progress, ProgressBar)):
        problems = [] if logged_problems is None else logged_problems
        handlers.append(_Shown(progress, problems, everything=verbose))
    # A record of each of thousands of arrays takes time even where no handler wants it.
    with attached(handlers, logging.INFO if verbose else logging.WARNING):
        try:
            yield progress
        except KeyboardInterrupt:
            log.info("interrupted")
            raise
        except Exception as error:
            log.info("ended by an error: %s", error)
            raise
        finally:
            if progress is not None:
                progress.close()


class _Shown(logging.Handler):
    """Writes records to standard error, above the bar if there is one."""

    def __init__(self, progress: LogProgress, problems: list[JSONObject], *, everything: bool) -> None:
        """`problems` gets those that were written."""
        super().__init__(logging.INFO)
        self._problems = problems
        self.setFormatter(_Harmless(_FORMAT, _DATES))
        self._progress = progress
        self._everything = everything

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept failures and progress, or everything if requested; a bar replaces the progress records."""
        from ..jobs.progress_display import ProgressBar

        if record.name == "zarrlift.progress":
            return not isinstance(self._progress, ProgressBar)
        return self._everything or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._progress.note(self.format(record))
        if (problem := getattr(record, "problem", None)) is not None:
            self._problems.append(problem)


class _Harmless(logging.Formatter):
    """Formats records so that names from an archive cannot control a terminal or start a new line.

    Records of a batch name the archive.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        from zarrstack.core.units import safe

        return safe(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, with the archive in a process that migrates several."""
        from ..jobs.log_messages import archive
        from ..storage.redact import redact

        if (named := archive.get()) is not None:
            record.message = f"{redact(named)}: {record.message}"
        return super().formatMessage(record)

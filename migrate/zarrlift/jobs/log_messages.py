"""Log messages of a run: the logger `zarrlift` and its children.

The library does not configure logging: nothing is written without handlers of the application. Records have
the attributes `event`, and `node` and `problem` where there is one, for handlers that write fields.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import Problem

from .units import bytes_text, count_text, duration_text, node_text

if TYPE_CHECKING:
    from .outcome import Outcome

archive: Final[ContextVar[str | None]] = ContextVar("archive", default=None)
"""The archive that a record is about, for a process that migrates several; set by what runs them."""

log: Final = logging.getLogger("zarrlift")
log.addHandler(logging.NullHandler())
progress_log: Final = logging.getLogger("zarrlift.progress")
"""One record per minute, level INFO."""

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


def begun(arrays: int, nbytes: int) -> None:
    """Log that chunks start to move."""
    text = "%s to migrate, %s to read"
    log.info(text, count_text(arrays, "array"), bytes_text(nbytes), extra={"event": "plan"})


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


def log_outcome(outcome: Outcome) -> None:
    """Log the outcome of a call."""
    arrays = f"{count_text(outcome.arrays_done)} of {count_text(outcome.arrays_total, 'array')}"
    text = "%s: %s in %s"
    log.info(text, outcome.state, arrays, duration_text(outcome.seconds), extra={"event": "end"})

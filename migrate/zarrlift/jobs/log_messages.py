"""What a run tells Python's logging, as logger `zarrlift` and those below it.

A library configures no logging: without handlers of the application nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import Problem

from .units import bytes_text, count_text, duration_text, node_text

if TYPE_CHECKING:
    from .outcome import Outcome

log: Final = logging.getLogger("zarrlift")
log.addHandler(logging.NullHandler())
progress_log: Final = logging.getLogger("zarrlift.progress")
"""A record a minute, of level INFO."""

_MOST_FAILURES: Final = 10
"""Records for one array; the rest is in the outcome."""


def begun(arrays: int, nbytes: int) -> None:
    """Chunks are about to move."""
    log.info("%s to migrate, %s to read", count_text(arrays, "array"), bytes_text(nbytes))


def array_done(path: str) -> None:
    """An array is whole and can be read."""
    if log.isEnabledFor(logging.INFO):
        log.info("done: %s", node_text(path))


def failed(problems: Sequence[Problem], *, before: int = 0) -> None:
    """Something failed in an array in which `before` other things had failed; what to do comes at the end."""
    for problem in problems[: max(_MOST_FAILURES - before, 0)]:
        log.error("failed: %s", replace(problem, advice=None))
    if before < _MOST_FAILURES < before + len(problems):
        log.error("failed: more of %s, which the report lists", node_text(problems[0].node or ""))


def ended(outcome: Outcome) -> None:
    """A call has come to its end."""
    arrays = f"{count_text(outcome.arrays_done)} of {count_text(outcome.arrays_total, 'array')}"
    log.info("%s: %s in %s", outcome.state, arrays, duration_text(outcome.seconds))

"""Counts the requests that were repeated after an error, in this process."""

from __future__ import annotations

import logging
import threading
from typing import Final

from .redact import redact_foreign

log: Final = logging.getLogger("zarrlift.retry")
"""One record for each repeated request, level INFO."""

_lock: Final = threading.Lock()
_count = 0


def add(error: BaseException, seconds: float) -> None:
    """Count a request that is repeated after some seconds because of an error."""
    global _count  # noqa: PLW0603 - of the process
    with _lock:
        _count += 1
    if log.isEnabledFor(logging.INFO):
        text = " ".join(redact_foreign(f"{type(error).__name__}: {error}").split())[:500]
        log.info("repeated in %.1f s: %s", seconds, text, extra={"event": "retry"})


def take() -> int:
    """The number since the last call."""
    global _count
    with _lock:
        count, _count = _count, 0
    return count

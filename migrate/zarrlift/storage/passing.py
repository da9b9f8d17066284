"""Who counts the bytes that a limit of bandwidth lets pass, while they pass."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Literal

End = Literal["source", "destination"]
"""An end of a job, each of which has a limit."""
passing: Final[ContextVar[Callable[[End, float], None] | None]] = ContextVar("passing", default=None)
"""Receives the bytes that pass for what runs in this context."""

"""Access to a table of a job file for the class that reads and writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Table:
    """What is written is durable at the job's next commit."""

    def __init__(
        self,
        write: Callable[[str, Sequence[Any]], object],
        rows: Callable[[str, Sequence[Any]], list[Any]],
    ) -> None:
        """`write` executes a statement in the job's transaction, `rows` a query."""
        self._write = write
        self._rows = rows

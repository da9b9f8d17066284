"""What is told of a run while it goes on, and to whom."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What is told of the work while it goes on."""

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """The work begins; totals are None where they are not known."""

    def advance(self, chunks: int, nbytes: int) -> None:
        """So many more source chunks and bytes are done."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def close(self) -> None:
        """The work has ended."""


class Silent:
    """Progress that nobody watches."""

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """Nothing."""

    def advance(self, chunks: int, nbytes: int) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

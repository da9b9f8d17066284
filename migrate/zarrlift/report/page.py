"""Where a report is shown: how wide it is, whether it has colours, how much it says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TextIO, TypeAlias

from ..jobs.units import columns
from .table import Column, table, wrap

Tone: TypeAlias = Literal["title", "good", "warning", "bad", "quiet"]
_CODES: Final[dict[str, str]] = {"title": "1", "good": "32", "warning": "33", "bad": "31", "quiet": "2"}
_PIPED_WIDTH: Final = 120
"""Columns, where nothing says how wide the reader's window is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a report is laid out for."""

    width: int = 80
    """In columns."""
    colour: bool = False
    everything: bool = False
    """Every row and every place, instead of groups and the first few."""

    @classmethod
    def of(cls, stream: TextIO, *, everything: bool = False) -> Page:
        """The page a stream shows: coloured only on a terminal where NO_COLOR is unset or empty.

        NO_COLOR: https://no-color.org. The width follows the terminal, or COLUMNS.
        """
        try:
            terminal = stream.isatty()
        except ValueError:  # closed
            terminal = False
        size = shutil.get_terminal_size((80 if terminal else _PIPED_WIDTH, 24))
        width = size.columns if terminal or os.environ.get("COLUMNS") else _PIPED_WIDTH
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(width=max(width, 40), colour=colour, everything=everything)

    def paint(self, text: str, tone: Tone) -> str:
        """The text in a colour, where the page has colours."""
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if self.colour and text else text

    def paragraph(
        self, text: str, *, indent: int = 0, hang: int | None = None, tone: Tone | None = None
    ) -> list[str]:
        """Wrapped lines; `hang` is the indent of every line but the first."""
        rest = " " * (indent if hang is None else hang)
        lines = wrap(text, self.width, first=" " * indent, rest=rest)
        return [self.paint(line, tone) for line in lines] if tone else lines

    def advice(self, text: str, command: str) -> list[str]:
        """Text and a command to paste, which is never broken: too long, it stands on its own line."""
        line = f"{text} {command}"
        return [line] if columns(line) <= self.width else [*self.paragraph(text), f"  {command}"]

    def pairs(self, pairs: Iterable[tuple[str, str]], *, indent: int = 2) -> list[str]:
        """Labelled lines, their values aligned; pairs without a value are left out."""
        kept = [(label, value) for label, value in pairs if value]
        width = max((len(label) for label, _ in kept), default=0)
        lines: list[str] = []
        for label, value in kept:
            lead = " " * indent + label.ljust(width) + "  "
            lines += wrap(value, self.width, first=lead, rest=" " * len(lead))
        return lines

    def table(self, shape: Iterable[Column], rows: Iterable[Iterable[str]], *, indent: int = 2) -> list[str]:
        """A table within the page; its titles are set apart where there are colours."""
        columns_ = tuple(shape)
        cells = [tuple(row) for row in rows]
        if not cells:
            return []
        lines = table(columns_, cells, self.width, indent=indent)
        if self.colour and lines[0].strip().startswith(columns_[0].title):
            lines[0] = self.paint(lines[0], "quiet")
        return lines

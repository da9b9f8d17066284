"""The properties of the output for a report: width, colours, level of detail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TextIO, TypeAlias, TypeVar

from ..jobs.units import columns, count_text
from .blocks import Tone
from .table import wrap

T = TypeVar("T")
Color: TypeAlias = Literal["auto", "always", "never"]
_CODES: Final[dict[str, str]] = {"title": "1", "good": "32", "warning": "33", "bad": "31", "quiet": "2"}
_PIPED_WIDTH: Final = 120
"""Columns, if the width of the reader's window is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The layout parameters of a report."""

    width: int = 80
    """Columns."""
    colour: bool = False
    everything: bool = False
    """Show every row and location, instead of groups and the first few."""

    @classmethod
    def of(cls, stream: TextIO | None, *, everything: bool = False, color: Color = "auto") -> Page:
        """The page for a stream, as wide as the terminal or COLUMNS.

        By default it is coloured on a terminal if NO_COLOR (https://no-color.org) is unset or empty.
        """
        try:
            terminal = stream is not None and stream.isatty()
        except ValueError:  # closed
            terminal = False
        size = shutil.get_terminal_size((80 if terminal else _PIPED_WIDTH, 24))
        width = size.columns if terminal or os.environ.get("COLUMNS") else _PIPED_WIDTH
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        colour = colour if color == "auto" else color == "always"
        return cls(width=max(width, 40), colour=colour, everything=everything)

    def paint(self, text: str, tone: Tone) -> str:
        """The text, coloured if the page has colours."""
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if self.colour and text else text

    def paragraph(
        self, text: str, *, indent: int = 0, hang: int | None = None, tone: Tone | None = None
    ) -> list[str]:
        """Wrapped lines; `hang` is the indentation of all lines except the first."""
        rest = " " * (indent if hang is None else hang)
        lines = wrap(text, self.width, first=" " * indent, rest=rest)
        return [self.paint(line, tone) for line in lines] if tone else lines

    def advice(self, text: str, command: str) -> list[str]:
        """Text and a command to paste, which is never wrapped: if too long, it gets its own line."""
        line = f"{text} {command}"
        return [line] if columns(line) <= self.width else [*self.paragraph(text), f"  {command}"]

    def pairs(self, pairs: Iterable[tuple[str, str]], *, indent: int = 2) -> list[str]:
        """Labelled lines with aligned values; pairs without a value are omitted."""
        rows = [(label, value) for label, value in pairs if value]
        width = max((len(label) for label, _ in rows), default=0)
        lines: list[str] = []
        for label, value in rows:
            lead = " " * indent + label.ljust(width) + "  "
            lines += wrap(value, self.width, first=lead, rest=" " * len(lead))
        return lines

    def shown(self, items: Sequence[T], most: int) -> Sequence[T]:
        """The first items, or all with `everything`."""
        return items if self.everything else items[:most]

    def rest(self, count: int, what: str = "", *, indent: int = 2) -> list[str]:
        """The number of items that are not shown; nothing for 0."""
        text = count_text(count, f"more {what}") if what else f"{count_text(count)} more"
        return self.paragraph(f"and {text} (--all shows them)", indent=indent) if count > 0 else []

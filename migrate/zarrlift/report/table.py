"""Text that fits a width: wrapped paragraphs, and tables that narrow or stack.

A table has one line per row if that fits; otherwise its wrapping columns are narrowed; otherwise each row
becomes a small paragraph. Text is never truncated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..jobs.units import columns

_GAP: Final = 2
_NARROWEST: Final = 16
"""Minimum width of a wrapping column; a narrower one is harder to read than a stacked row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Title and layout of a column."""

    title: str
    right: bool = False
    """Align right, for numbers."""
    wraps: bool = False
    """Cells may take several lines if the table is too wide."""


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns; `first` and `rest` precede the first and the other lines."""
    lines: list[str] = []
    line = first
    empty = True
    for word in text.split(" "):
        if not empty and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line, empty = rest, True
        line += word if empty else " " + word
        empty = False
        while columns(line) > width and columns(rest) < width:
            cut = _cut(line, width)
            if cut <= len(rest):
                break
            lines.append(line[:cut])
            line = rest + line[cut:]
    return [*lines, line]


def _cut(text: str, width: int) -> int:
    """Number of characters of a text that fit."""
    used = 0
    for position, char in enumerate(text):
        used += columns(char)
        if used > width:
            return position
    return len(text)


def table(
    shape: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, indent: int = 2
) -> list[str]:
    """The rows below their titles, within `width` columns; columns without any text are omitted."""
    used = [i for i in range(len(shape)) if i == 0 or any(row[i] for row in rows)]
    shape = [shape[i] for i in used]
    rows = [[row[i] for i in used] for row in rows]
    widths = [
        max(columns(column.title), *(columns(row[i]) for row in rows), 0) for i, column in enumerate(shape)
    ]
    room = width - indent - _GAP * (len(shape) - 1)
    fitted = _fit(shape, widths, room)
    if fitted is None:
        return [line for row in rows for line in _stacked(shape, row, width, indent)]
    titles = [column.title for column in shape]
    return [line for row in (titles, *rows) for line in _flat(shape, row, fitted, indent)]


def _fit(shape: Sequence[Column], widths: Sequence[int], room: int) -> list[int] | None:
    """Column widths that fit the room, reducing the widest wrapping column first; None if impossible."""
    fitted = list(widths)
    excess = sum(fitted) - room
    while excess > 0:
        able = [i for i, column in enumerate(shape) if column.wraps and fitted[i] > _NARROWEST]
        if not able:
            return None
        widest = max(able, key=lambda i: fitted[i])
        fitted[widest] -= 1
        excess -= 1
    return fitted


def _flat(shape: Sequence[Column], row: Sequence[str], widths: Sequence[int], indent: int) -> Iterator[str]:
    cells = [
        wrap(cell, width) if column.wraps else [cell]
        for column, cell, width in zip(shape, row, widths, strict=True)
    ]
    for number in range(max(len(cell) for cell in cells)):
        line = " " * indent
        for column, cell, width in zip(shape, cells, widths, strict=True):
            text = cell[number] if number < len(cell) else ""
            pad = " " * (width - columns(text))
            line += (pad + text if column.right else text + pad) + " " * _GAP
        yield line.rstrip()


def _stacked(shape: Sequence[Column], row: Sequence[str], width: int, indent: int) -> Iterator[str]:
    # A first cell may be indented, as the nodes of a tree are.
    margin = " " * (indent + len(row[0]) - len(row[0].lstrip(" ")))
    yield from wrap(row[0].lstrip(" "), width, first=margin, rest=margin)
    pairs = [f"{column.title} {cell}" for column, cell in zip(shape[1:], row[1:], strict=True) if cell]
    if pairs:
        margin += " " * 4
        yield from wrap(", ".join(pairs), width, first=margin, rest=margin)

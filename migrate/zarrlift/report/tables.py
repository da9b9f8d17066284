"""Lines that fit a width: wrapped paragraphs, and tables that narrow and leave out columns.

A table has one line per row if that fits; otherwise its wrapping columns are narrowed, then the columns that
matter least are left out and named below it. Text is never truncated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ..core.units import columns
from .blocks import Column

_GAP: Final = 2
_NARROWEST: Final = 16
"""Minimum width of a wrapping column; a narrower one is hard to read."""
_LONGEST_WORD: Final = 28
"""A wrapping column is not narrowed so far that words of up to this length are cut."""
_REPEATED: Final = 8
"""Equal cells of this number stand once even if the table is not too wide."""


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
    """The rows below their titles, within `width` columns; columns without any text are omitted.

    Below them is what is the same in all rows, and what had to be left out.
    """
    used = _used(shape, rows)
    once: dict[int, str] = {}
    for i in sorted(used, key=lambda i: (-shape[i].spare, i)):
        texts = [row[i] for row in rows if row[i]]
        repeated = _REPEATED if fits(shape, rows, width - indent, used) else 2
        if shape[i].once and len(texts) >= repeated and len(set(texts)) == 1:
            once[i] = texts[0]
            used.remove(i)
    selection, fitted = _narrowed(shape, rows, used, width - indent)
    if fitted is None:  # names of nodes are cut too, and every other text
        shape = [replace(column, wraps=True) for column in shape]
        for least in (_NARROWEST, _NARROWEST // 2, 1):
            fitted = fitted or _fit(shape, rows, selection, width - indent, least)
    assert fitted is not None  # a page is wider than its columns are many
    final_shape = [shape[i] for i in selection]
    cells = [[column.title for column in final_shape], *([row[i] for i in selection] for row in rows)]
    lines = [line for row in cells for line in _flat(final_shape, row, fitted, indent)]
    below = {
        "The same for all": "; ".join(f"{shape[i].title} {text}" for i, text in sorted(once.items())),
        "Not shown, for lack of width": ", ".join(shape[i].title for i in used if i not in selection),
    }
    margin = " " * indent
    for head, text in below.items():
        if text:
            lines += wrap(f"{head}: {text}.", width, first=margin, rest=margin)
    return lines


def fits(
    shape: Sequence[Column], rows: Sequence[Sequence[str]], room: int, selection: Sequence[int] | None = None
) -> bool:
    """Whether there is room for these columns, by default all with text, with a line for each row."""
    selection = _used(shape, rows) if selection is None else selection
    return sum(_widest(shape, rows, selection)) + _GAP * (len(selection) - 1) <= room


def _used(shape: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [i for i in range(len(shape)) if i == 0 or any(row[i] for row in rows)]


def _widest(shape: Sequence[Column], rows: Sequence[Sequence[str]], selection: Sequence[int]) -> list[int]:
    """The widths at which no cell is wrapped."""
    return [max(columns(shape[i].title), *(columns(row[i]) for row in rows), 0) for i in selection]


def _narrowed(
    shape: Sequence[Column], rows: Sequence[Sequence[str]], used: list[int], room: int
) -> tuple[list[int], list[int] | None]:
    """The columns that are kept and their widths, None if nothing that gives way is enough."""
    selection = list(used)
    for last, least in ((2, None), (1, _NARROWEST)):
        while (fitted := _fit(shape, rows, selection, room, least)) is None:
            spare = [i for i in selection if shape[i].spare >= last]
            if not spare:
                break
            selection.remove(max(spare, key=lambda i: shape[i].spare))
        if fitted is not None:
            return selection, fitted
    return selection, None


def _fit(
    shape: Sequence[Column],
    rows: Sequence[Sequence[str]],
    selection: Sequence[int],
    room: int,
    least: int | None,
) -> list[int] | None:
    """Widths of the kept columns that fit, reducing the widest wrapping one first; None if impossible.

    Words are cut only down to a width of `least`, if not None.
    """
    fitted = _widest(shape, rows, selection)
    narrowest = [_narrowest(shape[i], [row[i] for row in rows], least) for i in selection]
    excess = sum(fitted) + _GAP * (len(selection) - 1) - room
    while excess > 0:
        able = [i for i, least_here in enumerate(narrowest) if fitted[i] > least_here >= 0]
        if not able:
            return None
        fitted[max(able, key=lambda i: fitted[i])] -= 1
        excess -= 1
    return fitted


def _narrowest(column: Column, cells: Sequence[str], least: int | None) -> int:
    """The least width of a column; -1 if it has only one."""
    if not column.wraps:
        return -1
    if least is not None:
        return least
    words = (columns(word) for text in (column.title, *cells) for word in text.split(" "))
    return max(_NARROWEST, *(length for length in words if length <= _LONGEST_WORD))


def _flat(shape: Sequence[Column], row: Sequence[str], widths: Sequence[int], indent: int) -> Iterator[str]:
    cells = [
        _lines(cell, width) if column.wraps else [cell]
        for column, cell, width in zip(shape, row, widths, strict=True)
    ]
    for number in range(max(len(cell) for cell in cells)):
        line = " " * indent
        for column, cell, width in zip(shape, cells, widths, strict=True):
            text = cell[number] if number < len(cell) else ""
            pad = " " * (width - columns(text))
            line += (pad + text if column.right else text + pad) + " " * _GAP
        yield line.rstrip()


def _lines(cell: str, width: int) -> list[str]:
    """The lines of a cell, each indented like the first, as the nodes of a tree are."""
    text = cell.lstrip(" ")
    margin = " " * min(len(cell) - len(text), max(width - _NARROWEST // 2, 0))
    return wrap(text, width, first=margin, rest=margin)

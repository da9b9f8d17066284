"""Prints blocks as text that fits a page; each problem has its location, and equal ones are merged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TextIO, TypeVar

from zarrstack.core.errors import short

from ..core.units import columns, count_text, is_terminal, node_names, node_text, safe
from . import blocks as b
from .blocks import ORDER, ProblemGroup, Tone, Where
from .tables import fits, table, wrap

T = TypeVar("T")
_CODES: Final[dict[str, str]] = {"title": "1", "good": "32", "warning": "33", "bad": "31", "quiet": "2"}
_PIPED_WIDTH: Final = 120
"""Columns, if the width of the reader's window is unknown."""
_NAMES = 8
"""Maximum number of names and ranges of nodes that share columns; further ones are counted."""
_FORMS = 12
"""Maximum number of rows of the table of these columns."""
PLACES: Final = 3
"""Maximum number of locations shown for equal problems."""
_ALIKE: Final = 8
"""Maximum number of different messages shown for one kind."""
_TONES: Final[dict[str, Tone]] = {"refusal": "bad", "warning": "warning", "note": "quiet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The layout parameters of a report."""

    width: int = 80
    """Columns."""
    colour: bool = False
    everything: bool = False
    """Show every row and location, instead of groups and the first few."""

    @classmethod
    def of(cls, stream: TextIO | None, *, everything: bool = False) -> Page:
        """The page for a stream, as wide as the terminal or COLUMNS.

        It is coloured on a terminal if NO_COLOR (https://no-color.org) is unset or empty.
        """
        terminal = is_terminal(stream)
        size = shutil.get_terminal_size((80 if terminal else _PIPED_WIDTH, 24))
        width = size.columns if terminal or os.environ.get("COLUMNS") else _PIPED_WIDTH
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
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

    def first(self, items: Sequence[T], most: int) -> Sequence[T]:
        """The first items, or all with `everything`."""
        return items if self.everything else items[:most]

    def rest(self, count: int, what: str = "", *, indent: int = 2) -> list[str]:
        """The number of items that are not shown; nothing for 0."""
        text = count_text(count, f"more {what}") if what else f"{count_text(count)} more"
        return self.paragraph(f"and {text} (--all shows them)", indent=indent) if count > 0 else []


def lines(blocks: Iterable[b.Block], page: Page) -> Iterator[str]:
    """The lines of blocks, with an empty one before each section that has any."""
    begun = gap = silent = False
    for block in blocks:
        if isinstance(block, b.Section):
            gap, silent = begun, block.on == "pages"
            if not block.heads_text:
                continue
        if not silent:
            for line in _lines(block, page):
                if gap:
                    yield ""
                begun, gap = True, False
                yield line


def _lines(block: b.Block, page: Page) -> Iterable[str]:
    match block:
        case b.Section():
            return page.paragraph(block.title, hang=2, tone="title")
        case b.Title():
            return page.paragraph(block.text, hang=block.hang, tone=block.tone)
        case b.Summary():
            return page.paragraph(block.text, hang=2)
        case b.Text():
            return page.paragraph(block.text, indent=block.indent, hang=block.hang)
        case b.Names():
            hint = " (--all shows them)"
            names = node_names(block.paths, None if page.everything else block.most, hint=hint)
            return page.paragraph(f"{block.head}: {names}", hang=2)
        case b.Lines():
            some = page.first(block.lines, len(block.lines) if block.most is None else block.most)
            rest = page.rest(len(block.lines) - len(some), indent=block.indent)
            lines = [" " * block.indent + line for line in some]
            return (*([page.paint(line, block.tone) for line in lines] if block.tone else lines), *rest)
        case b.Pairs():
            return page.pairs(block.rows)
        case b.Table():
            return _table(block, page)
        case b.Problems():
            most = None if page.everything else PLACES
            return problem_lines(block.grouped(most), page, refusal=block.refusal)
        case b.Advice():
            return page.advice(block.text, block.command)
    return ()


def _table(block: b.Table[Any], page: Page) -> Iterator[str]:
    groups = _groups(block, page)
    excerpt = page.first(groups, len(groups) if block.most is None else block.most)
    rest = [item for group in groups[len(excerpt) :] for item in group]
    rows = [block.row(*group) for group in excerpt]
    if rest and block.rest is not None:
        rows.append(block.rest(rest))
    columns = block.columns
    if len(groups) < len(block.items):  # the names of several are long
        columns = (replace(columns[0], wraps=True), *columns[1:])
    forms = {} if block.shared is None else _forms(block, block.shared, rows, page)
    if block.shared is not None and forms:
        own = range(len(columns))[block.shared]
        rows = [["" if place in own else cell for place, cell in enumerate(row)] for row in rows]
    yield from _rows(columns, rows, page, block.indent)
    if block.rest is None:
        yield from page.rest(len(rest), block.what)
    if block.shared is not None and forms:
        most = None if page.everything else _NAMES
        arrays = b.Column(title="arrays", wraps=True)
        names = [
            (node_names(forms[form], most, hint=" (--all)"), *form) for form in page.first([*forms], _FORMS)
        ]
        yield ""
        yield from _rows((arrays, *columns[block.shared]), names, page)
        yield from page.rest(len(forms) - len(names), "codec chain")


def _groups(block: b.Table[Any], page: Page) -> list[list[Any]]:
    """The items of each row."""
    if block.alike is None or page.everything or len(block.items) <= (block.most or 0):
        return [[item] for item in block.items]
    groups: dict[object, list[Any]] = {}
    for item in block.items:
        groups.setdefault(block.alike(item), []).append(item)
    return list(groups.values())


def _forms(
    block: b.Table[Any], shared: slice, rows: Sequence[Sequence[str]], page: Page
) -> dict[Sequence[str], list[str]]:
    """The shared cells with the paths of their nodes, the most frequent first; none if the rows fit."""
    forms: dict[Sequence[str], list[str]] = {}
    for item, row in zip(block.items, rows, strict=False):
        if any(row[shared]) and block.paths is not None:
            forms.setdefault(tuple(row[shared]), []).append(block.paths(item))
    are_few = 1 < len(forms) < sum(map(len, forms.values())) / 2
    if not are_few or fits(block.columns, rows, page.width - 2):
        return {}
    return dict(sorted(forms.items(), key=lambda form: -len(form[1])))


def _rows(
    columns: Sequence[b.Column], rows: Sequence[Sequence[str]], page: Page, indent: int = 2
) -> Iterator[str]:
    if rows:
        titles, *lines = table(columns, rows, page.width, indent=indent)
        yield page.paint(titles, "quiet")
        yield from lines


def problem_lines(groups: Iterable[ProblemGroup], page: Page, *, refusal: str) -> Iterator[str]:
    """Refusals first, then warnings, then notes, each with a count and its first locations.

    `refusal` is the word for problems that exclude a node: "refused", "failed", "differs".
    """
    kinds: dict[tuple[int, str], list[ProblemGroup]] = {}
    for group in groups:
        kinds.setdefault((ORDER.index(group.first.severity), group.first.kind), []).append(group)
    for (order, kind), alike in sorted(kinds.items(), key=lambda item: item[0][0]):
        head = refusal if order == 0 else ORDER[order]
        excerpt = page.first(alike, _ALIKE)
        for group, following in zip(excerpt, [*excerpt[1:], None], strict=True):
            # Advice shared by several groups follows the last of them.
            same = following is not None and following.first.advice == group.first.advice
            yield from _group(group, page, head, advised=not same)
        rest = sum(group.count for group in alike) - sum(group.count for group in excerpt)
        yield from page.rest(rest, f"{kind} {ORDER[order]}")


def _group(group: ProblemGroup, page: Page, head: str, *, advised: bool) -> Iterator[str]:
    """One problem with its place, or equal ones with their number and the first places."""
    first = group.first
    text = safe(first.message)
    if group.found is not None:
        text += f"; found {safe(group.found)}"
    if first.expected is not None:
        text += f"; expected {safe(first.expected)}"
    places = [place for where in group.places if (place := _place(where))]
    if group.count_text:
        text += f" ({group.count_text})"
    elif places:
        text = f"{places[0]}: {text}"
    head += ":"
    wrapped = page.paragraph(f"{head} {text}", indent=2, hang=4)
    wrapped[0] = wrapped[0].replace(head, page.paint(head, _TONES[first.severity]), 1)
    yield from wrapped
    if group.count_text:
        for place in places:
            yield from page.paragraph(f"at {place}", indent=4, hang=6)
        yield from page.rest(group.more, indent=4)
    if first.advice is not None and advised:
        yield from page.paragraph(safe(first.advice), indent=4)


def _place(where: Where) -> str:
    """`/a/b, key 'a/b/.zarray'`, after the archive if there is one, with what was found if that differs."""
    parts = [] if where.archive is None else [safe(where.archive)]
    if where.node is not None:
        parts.append(node_text(short(where.node)))
    if where.key is not None:
        parts.append(f"key '{safe(short(where.key))}'")
    texts = (where.message, None if where.found is None else f"found {where.found}")
    return ": ".join(filter(None, (", ".join(parts), safe("; ".join(filter(None, texts))))))

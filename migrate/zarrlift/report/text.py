"""Prints blocks as text that fits a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from zarrstack.core.units import node_names

from . import blocks as b
from .page import Page, fits, table
from .problems import PLACES, failure_lines, problem_lines

_NAMES = 8
"""Maximum number of names and ranges of nodes that share columns; further ones are counted."""
_FORMS = 12
"""Maximum number of rows of the table of these columns."""


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
            some = page.shown(block.lines, len(block.lines) if block.most is None else block.most)
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
        case b.Failures():
            excerpt = page.shown(block.rows, block.most)
            return (
                *failure_lines(excerpt, page),
                *page.rest(len(block.rows) - len(excerpt), block.what),
            )
        case b.Advice():
            return page.advice(block.text, block.command)
    return ()


def _table(block: b.Table[Any], page: Page) -> Iterator[str]:
    groups = _groups(block, page)
    excerpt = page.shown(groups, len(groups) if block.most is None else block.most)
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
            (node_names(forms[form], most, hint=" (--all)"), *form) for form in page.shown([*forms], _FORMS)
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

"""Prints blocks as text that fits a page.

Lines before and after a change are side by side on a wide page, else a unified diff.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from ..jobs.units import columns, count_text, node_names, safe
from . import blocks as b
from .page import Page, fits, table, wrap
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
        case b.Links():
            return [
                line
                for program, link in block.rows
                for line in (*page.paragraph(f"{program}:", indent=2, hang=4), f"    {link}")
            ]
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
        case b.Change():
            return _change(block, page)
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


_AROUND: Final = 3
"""Lines without a change that are shown before and after one."""
_SIDES: Final = 100
"""Least number of columns for two sides."""
_BETWEEN: Final = 3
_MOST: Final = 400
"""Maximum number of lines."""
_MANY: Final = 1000
"""Number of lines, as of consolidated metadata, from which frequent ones are not matched: it takes long."""


class Part(NamedTuple):
    """Lines that are on both sides, or those of each side."""

    same: Sequence[str] = ()
    """As they are after the change."""
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    omitted: int = 0
    """Number of lines that are on both sides and not shown."""


def parts(block: b.Change, *, everything: bool) -> Iterator[Part]:
    """The lines in order; those far from a change are omitted unless `everything` is shown.

    Indentation and a comma at the end of a line do not count: they mean nothing in JSON.
    """
    before, after = ([safe(line) for line in side] for side in (block.before, block.after))
    keys = [[line.strip().rstrip(",") for line in side] for side in (before, after)]
    many = len(before) + len(after) > _MANY
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=many)
    for group in [matcher.get_opcodes()] if everything else _opcodes(matcher, len(after)):
        for kind, first, last, start, end in group:
            if kind == "omitted":
                yield Part(omitted=end - start)
            elif kind == "equal":
                yield Part(same=after[start:end])
            else:
                yield Part(before=before[first:last], after=after[start:end])


def _opcodes(matcher: SequenceMatcher[str], length: int) -> Iterator[list[tuple[str, int, int, int, int]]]:
    last = 0
    for group in matcher.get_grouped_opcodes(_AROUND):
        start, end = group[0][3], group[-1][4]
        yield [*([("omitted", 0, 0, last, start)] if start > last else []), *group]
        last = end
    if last < length:
        yield [("omitted", 0, 0, last, length)]


def _change(block: b.Change, page: Page) -> Iterator[str]:
    """The lines that fit a page; the rest of very many is counted."""
    lines = list((_side_by_side if page.width >= _SIDES else _unified)(block, page))
    some = page.shown(lines, _MOST)
    return iter((*some, *page.rest(len(lines) - len(some), "line")))


def _unified(block: b.Change, page: Page) -> Iterator[str]:
    yield from page.paragraph(f"--- {safe(block.heads[0])}", hang=4, tone="bad")
    yield from page.paragraph(f"+++ {safe(block.heads[1])}", hang=4, tone="good")
    for part in parts(block, everything=page.everything):
        if part.omitted:
            yield from _omitted(part, page)
        sides: tuple[tuple[str, Sequence[str], b.Tone | None], ...] = (
            ("  ", part.same, None), ("- ", part.before, "bad"), ("+ ", part.after, "good"),
        )  # fmt: skip
        for mark, texts, tone in sides:
            for text in texts:
                for line in _wrapped(text, page.width - len(mark)):
                    yield page.paint(mark + line, tone) if tone else mark + line


def _side_by_side(block: b.Change, page: Page) -> Iterator[str]:
    width = (page.width - _BETWEEN) // 2

    def row(left: str | None, right: str | None, *, changed: bool) -> Iterator[str]:
        sides = [[] if text is None else _wrapped(text, width) for text in (left, right)]
        for number, (one, other) in enumerate(zip_longest(*sides, fillvalue="")):
            mark = " "
            if changed and not number:
                mark = "<" if right is None else ">" if left is None else "|"
            left_line, right_line = one + " " * (width - columns(one)), other
            if changed:
                left_line = page.paint(left_line, "bad") if one else left_line
                right_line = page.paint(other, "good")
            yield f"{left_line} {mark} {right_line}".rstrip()

    yield page.paint(next(row(*map(safe, block.heads), changed=False)), "title")
    for part in parts(block, everything=page.everything):
        if part.omitted:
            yield from _omitted(part, page)
        for line in part.same:
            yield from row(line, line, changed=False)
        for left, right in zip_longest(part.before, part.after):
            yield from row(left, right, changed=True)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, indented like the first and some more."""
    margin = text[: len(text) - len(text.lstrip())]
    return wrap(text[len(margin) :], width, first=margin, rest=f"{margin}    ")


def _omitted(part: Part, page: Page) -> list[str]:
    text = f"... {count_text(part.omitted, 'unchanged line')} (--all shows them)"
    return page.paragraph(text, indent=2, tone="quiet")

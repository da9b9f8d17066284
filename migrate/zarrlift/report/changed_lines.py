"""Prints lines before and after a change: side by side on a wide page, else as a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from ..jobs.units import columns, count_text, safe
from .table import wrap

if TYPE_CHECKING:
    from .blocks import Change, Tone
    from .page import Page

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


def parts(block: Change, *, everything: bool) -> Iterator[Part]:
    """The lines in order; those far from a change are omitted unless `everything` is shown.

    Indentation and a comma at the end of a line do not count: they mean nothing in JSON.
    """
    before, after = ([safe(line) for line in side] for side in (block.before, block.after))
    keys = [[line.strip().rstrip(",") for line in side] for side in (before, after)]
    many = len(before) + len(after) > _MANY
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=many)
    for group in [matcher.get_opcodes()] if everything else _groups(matcher, len(after)):
        for kind, a, b, c, d in group:
            if kind == "omitted":
                yield Part(omitted=d - c)
            elif kind == "equal":
                yield Part(same=after[c:d])
            else:
                yield Part(before=before[a:b], after=after[c:d])


def _groups(matcher: SequenceMatcher[str], length: int) -> Iterator[list[tuple[str, int, int, int, int]]]:
    last = 0
    for group in matcher.get_grouped_opcodes(_AROUND):
        start, end = group[0][3], group[-1][4]
        yield [*([("omitted", 0, 0, last, start)] if start > last else []), *group]
        last = end
    if last < length:
        yield [("omitted", 0, 0, last, length)]


def lines(block: Change, page: Page) -> Iterator[str]:
    """The lines that fit a page; the rest of very many is counted."""
    found = list((_side_by_side if page.width >= _SIDES else _unified)(block, page))
    some = page.shown(found, _MOST)
    return iter((*some, *page.rest(len(found) - len(some), "line")))


def _unified(block: Change, page: Page) -> Iterator[str]:
    yield from page.paragraph(f"--- {safe(block.heads[0])}", hang=4, tone="bad")
    yield from page.paragraph(f"+++ {safe(block.heads[1])}", hang=4, tone="good")
    for part in parts(block, everything=page.everything):
        if part.omitted:
            yield from _omitted(part, page)
        sides: tuple[tuple[str, Sequence[str], Tone | None], ...] = (
            ("  ", part.same, None), ("- ", part.before, "bad"), ("+ ", part.after, "good"),
        )  # fmt: skip
        for mark, texts, tone in sides:
            for text in texts:
                for line in _wrapped(text, page.width - len(mark)):
                    yield page.paint(mark + line, tone) if tone else mark + line


def _side_by_side(block: Change, page: Page) -> Iterator[str]:
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

"""Problems as text for people: each with its location, equal ones merged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import short
from zarrstack.core.units import count_text, node_text, safe

from .blocks import ORDER, ProblemGroup, Where

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from .blocks import Tone
    from .page import Page

PLACES: Final = 3
"""Maximum number of locations shown for equal problems, and of messages that differ by numbers."""
_ALIKE: Final = 8
"""Maximum number of different messages shown for one kind."""
_NUMBER: Final = re.compile("[0-9]+([.,][0-9]+)*( [kMGTPE]?B)?")
_TONES: Final[dict[str, Tone]] = {"refusal": "bad", "warning": "warning", "note": "quiet"}


def problem_lines(groups: Iterable[ProblemGroup], page: Page, *, refusal: str) -> Iterator[str]:
    """Refusals first, then warnings, then notes, each with a count and its first locations.

    `refusal` is the word for problems that exclude a node: "refused", "failed", "differs".
    """
    kinds: dict[tuple[int, str], list[ProblemGroup]] = {}
    for group in groups:
        kinds.setdefault((ORDER.index(group.first.severity), group.first.kind), []).append(group)
    for (order, kind), alike in sorted(kinds.items(), key=lambda item: item[0][0]):
        head = refusal if order == 0 else ORDER[order]
        excerpt = alike if page.everything else _first(alike)
        for group, following in zip(excerpt, [*excerpt[1:], None], strict=True):
            # Advice shared by several groups follows the last of them.
            same = following is not None and following.first.advice == group.first.advice
            yield from _group(group, page, head, advised=not same)
        rest = sum(group.count for group in alike) - sum(group.count for group in excerpt)
        yield from page.rest(rest, f"{kind} {ORDER[order]}")


def _first(groups: Iterable[ProblemGroup]) -> list[ProblemGroup]:
    """The first few different messages, fewer of those that differ by numbers alone."""
    seen: Counter[str] = Counter()
    first: list[ProblemGroup] = []
    for group in groups:
        text = _NUMBER.sub("0", group.first.message)
        seen[text] += 1
        if seen[text] <= PLACES and len(first) < _ALIKE:
            first.append(group)
    return first


def failure_lines(rows: Iterable[tuple[str, str, str]], page: Page) -> Iterator[str]:
    """What is wrong with rows of a table: state, place and text of each; equal texts are grouped."""
    groups: dict[tuple[str, str], list[str]] = {}
    for state, place, text in rows:
        groups.setdefault((state, text), []).append(place)
    for (state, text), places in groups.items():
        excerpt = page.shown(places, PLACES)
        count = count_text(len(places), "time") if len(places) > 1 else ""
        yield from _entry(state, "bad", text, excerpt, page, count=count, more=len(places) - len(excerpt))


def _entry(
    head: str,
    tone: Tone,
    text: str,
    places: Sequence[str],
    page: Page,
    *,
    count: str,
    more: int,
) -> Iterator[str]:
    """One text with its only place, or with a count and its first places; `more` are not shown."""
    head += ":"
    if count:
        text += f" ({count})"
    elif places:
        text = f"{places[0]}: {text}"
    wrapped = page.paragraph(f"{head} {text}", indent=2, hang=4)
    wrapped[0] = wrapped[0].replace(head, page.paint(head, tone), 1)
    yield from wrapped
    if count:
        for place in places:
            yield from page.paragraph(f"at {place}", indent=4, hang=6)
        yield from page.rest(more, indent=4)


def summary(problems: Iterable[Problem]) -> str:
    """`2 refusals, 1 warning`, or "" without problems."""
    counts = dict.fromkeys(ORDER, 0)
    for problem in problems:
        counts[problem.severity] += 1
    return ", ".join(count_text(count, severity) for severity, count in counts.items() if count)


def _group(group: ProblemGroup, page: Page, head: str, *, advised: bool) -> Iterator[str]:
    first = group.first
    text = safe(first.message)
    if group.found is not None:
        text += f"; found {safe(group.found)}"
    if first.expected is not None:
        text += f"; expected {safe(first.expected)}"
    places = [place for where in group.places if (place := _place(where))]
    yield from _entry(
        head,
        _TONES[first.severity],
        text,
        places,
        page,
        count=group.count_text,
        more=group.more,
    )
    if first.advice is not None and advised:
        yield from page.paragraph(safe(first.advice), indent=4)


def _place(where: Where) -> str:
    """`/a/b, key 'a/b/.zarray'`, after the archive if there is one, with what was found if that differs."""
    parts = [] if where.archive is None else [safe(where.archive)]
    if where.node is not None:
        parts.append(node_text(short(where.node)))
    if where.key is not None:
        parts.append(f"key '{safe(short(where.key))}'")
    return ", ".join(parts) + ("" if where.found is None else f": found {safe(where.found)}")

"""Problems as text for people: each with its location, equal ones merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import short

from ..jobs.units import count_text, node_text, safe

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from .page import Page, Tone

_PLACES: Final = 3
"""Maximum number of locations shown for equal problems; the rest is counted."""
_ALIKE: Final = 8
"""Maximum number of different messages shown for one kind, such as notes that differ by a number."""
_ORDER: Final = ("refusal", "warning", "note")
_TONES: Final[dict[str, Tone]] = {"refusal": "bad", "warning": "warning", "note": "quiet"}


def lines(problems: Iterable[Problem], page: Page, *, refusal: str = "refusal") -> Iterator[str]:
    """Refusals first, then warnings, then notes; equal ones are grouped with a count and their locations.

    `refusal` is the word for problems that exclude a node: "refused", "failed", "differs".
    """
    groups: dict[tuple[str | None, ...], list[Problem]] = {}
    for problem in problems:
        key = (problem.severity, problem.kind, problem.message, problem.expected, problem.advice)
        groups.setdefault(key, []).append(problem)
    alike: dict[tuple[int, str], list[list[Problem]]] = {}
    for group in groups.values():
        alike.setdefault((_ORDER.index(group[0].severity), group[0].kind), []).append(group)
    for (order, kind), several in sorted(alike.items(), key=lambda item: item[0][0]):
        head = refusal if order == 0 else _ORDER[order]
        shown = several if page.everything else several[:_ALIKE]
        for group, following in zip(shown, [*shown[1:], None], strict=True):
            # Advice shared by several groups follows the last of them.
            same = following is not None and following[0].advice == group[0].advice
            yield from _group(group, page, head, advised=not same)
        rest = sum(len(group) for group in several[len(shown) :])
        if rest:
            yield f"  and {count_text(rest)} more {kind} {_ORDER[order]}s (--all shows them)"


def failures(rows: Iterable[tuple[str, str, str]], page: Page) -> Iterator[str]:
    """What is wrong with rows of a table: state, place and text of each; equal texts are grouped."""
    groups: dict[tuple[str, str], list[str]] = {}
    for state, place, text in rows:
        groups.setdefault((state, text), []).append(place)
    for (state, text), places in groups.items():
        head = f"{state}:"
        one = f"{places[0]}: " if len(places) == 1 else ""
        times = f" ({count_text(len(places), 'time')})" if len(places) > 1 else ""
        wrapped = page.paragraph(f"{head} {one}{text}{times}", indent=2, hang=4)
        wrapped[0] = wrapped[0].replace(head, page.paint(head, "bad"), 1)
        yield from wrapped
        if len(places) > 1:
            shown = places if page.everything else places[:_PLACES]
            for place in shown:
                yield from page.paragraph(f"at {place}", indent=4, hang=6)
            if len(shown) < len(places):
                yield f"    and {count_text(len(places) - len(shown))} more (--all shows them)"


def summary(problems: Iterable[Problem]) -> str:
    """`2 refusals, 1 warning`, or "" without problems."""
    counts = dict.fromkeys(_ORDER, 0)
    for problem in problems:
        counts[problem.severity] += 1
    return ", ".join(count_text(count, severity) for severity, count in counts.items() if count)


def _group(group: list[Problem], page: Page, head: str, *, advised: bool) -> Iterator[str]:
    first = group[0]
    head += ":"
    text = safe(first.message)
    same_found = len({problem.found for problem in group}) == 1
    if len(group) == 1 and _place(first):
        text = f"{_place(first)}: {text}"
    if same_found and first.found is not None:
        text += f"; found {safe(first.found)}"
    if first.expected is not None:
        text += f"; expected {safe(first.expected)}"
    if len(group) > 1:
        text += f" ({count_text(len(group), 'time')})"
    wrapped = page.paragraph(f"{head} {text}", indent=2, hang=4)
    wrapped[0] = wrapped[0].replace(head, page.paint(head, _TONES[first.severity]), 1)
    yield from wrapped
    if len(group) > 1:
        yield from _places(group, page, with_found=not same_found)
    if first.advice is not None and advised:
        yield from page.paragraph(safe(first.advice), indent=4)


def _places(group: list[Problem], page: Page, *, with_found: bool) -> Iterator[str]:
    shown = group if page.everything else group[:_PLACES]
    for problem in shown:
        found = f": found {safe(problem.found)}" if with_found and problem.found is not None else ""
        if text := _place(problem) + found:
            yield from page.paragraph(f"at {text}", indent=4, hang=6)
    if len(group) > len(shown):
        yield f"    and {count_text(len(group) - len(shown))} more (--all shows them)"


def _place(problem: Problem) -> str:
    """`/a/b, key 'a/b/.zarray'`, with further known details."""
    parts = []
    if problem.node is not None:
        parts.append(node_text(short(problem.node)))
    if problem.key is not None:
        parts.append(f"key '{safe(short(problem.key))}'")
    return ", ".join(parts)

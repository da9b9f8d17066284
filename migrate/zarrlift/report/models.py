"""What the `zarrlift model` commands show: violations, differences, created nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.units import count_text, safe

from . import blocks as b

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..models.creation import Created
    from ..models.differences import Difference

_MARKS: Final[dict[str, tuple[str, b.Tone]]] = {
    "added": ("+", "good"),
    "missing": ("-", "bad"),
    "changed": ("~", "warning"),
}


def validation(rows: Sequence[tuple[str, Sequence[Problem]]], model: str) -> Iterator[b.Block]:
    """All violations of all archives, one per line; then the number of conforming archives."""
    for place, problems in rows:
        result = count_text(len(problems), "violation") if problems else "conforms"
        yield b.Lines((f"{safe(place)}: {result}",), indent=0, tone="bad" if problems else "good")
        yield _unbroken(problems)
    if len(rows) > 1:
        good = sum(not problems for _, problems in rows)
        yield b.Text(f"{count_text(good)} of {count_text(len(rows), 'archive')} conform to {safe(model)}.")


def differences(all_differences: Sequence[Difference]) -> Iterator[b.Block]:
    """All differences, one per line, then their number."""
    for difference in all_differences:
        mark, tone = _MARKS[difference.what]
        yield b.Lines((f"{mark} {safe(str(difference))}",), indent=0, tone=tone)
    if not all_differences:
        yield b.Text("The structures are equal.")
        return
    counts = {what: sum(difference.what == what for difference in all_differences) for what in _MARKS}
    words = ", ".join(f"{count_text(count)} {what}" for what, count in counts.items() if count)
    yield b.Text(f"{count_text(len(all_differences), 'difference')}: {words}.")


def created(result: Created) -> Iterator[b.Block]:
    """The created nodes, and warnings."""
    what = f"{count_text(result.groups, 'group')} and {count_text(result.arrays, 'array')}"
    yield b.Text(f"Created {safe(result.url)}: {what}, no chunks.", hang=2)
    yield _unbroken(result.problems)


def _unbroken(problems: Iterable[Problem]) -> b.Block:
    """One searchable line per problem."""
    return b.Lines([safe(str(problem)) for problem in problems])

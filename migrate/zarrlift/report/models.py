"""The output of the `zarrlift model` commands: violations, differences, created nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..jobs.units import count_text, safe

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..models.creation import Created
    from ..models.differences import Difference
    from .page import Page


def validation_lines(rows: Sequence[tuple[str, Sequence[Problem]]], model: str, page: Page) -> Iterator[str]:
    """All violations of all archives, one per line; then the number of conforming archives."""
    for place, problems in rows:
        if not problems:
            yield f"{safe(place)}: {page.paint('conforms', 'good')}"
            continue
        yield f"{safe(place)}: {page.paint(count_text(len(problems), 'violation'), 'bad')}"
        yield from problem_lines(problems)
    if len(rows) > 1:
        good = sum(not problems for _, problems in rows)
        yield f"{count_text(good)} of {count_text(len(rows), 'archive')} conform to {safe(model)}."


def problem_lines(problems: Iterable[Problem]) -> Iterator[str]:
    """One unbroken, searchable line per problem."""
    for problem in problems:
        yield f"  {safe(str(problem))}"


def difference_lines(differences: Sequence[Difference], page: Page) -> Iterator[str]:
    """All differences, one per line, then their number."""
    tones = {"added": "good", "missing": "bad", "changed": "warning"}
    marks = {"added": "+", "missing": "-", "changed": "~"}
    for difference in differences:
        mark = page.paint(marks[difference.what], tones[difference.what])  # type: ignore[arg-type]
        yield f"{mark} {safe(str(difference))}"
    if not differences:
        yield "The structures are equal."
        return
    counts = {what: sum(difference.what == what for difference in differences) for what in marks}
    words = ", ".join(f"{count_text(count)} {what}" for what, count in counts.items() if count)
    yield f"{count_text(len(differences), 'difference')}: {words}."


def created_lines(created: Created, page: Page) -> Iterator[str]:
    """The created nodes, and warnings."""
    what = f"{count_text(created.groups, 'group')} and {count_text(created.arrays, 'array')}"
    yield from page.paragraph(f"Created {safe(created.url)}: {what}, no chunks.", hang=2)
    yield from problem_lines(created.problems)

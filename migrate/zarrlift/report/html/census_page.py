"""The page of a census: what many archives contain, and what a migration of all would do and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...jobs.units import FORMATS, bytes_text, count_text
from ..census import TALLIES, cost_rows, range_text, summary
from ..plan import MEANINGS
from ..problem_groups import MAX_PLACES, ProblemGroup, grouped
from .rendering import render

if TYPE_CHECKING:
    from ...jobs.census.census import Census, Tally

_ROWS: Final = 12
"""Maximum number of bars of a chart; further names are counted."""


class Chart(NamedTuple):
    """Bars with a title."""

    title: str
    unit: str
    bars: Sequence[tuple[str, int]]
    most: int
    more: int
    """Occurrences of names that are not shown."""


def census_page(census: Census) -> str:
    """One self-contained HTML page on a census."""
    return render(
        "census.html",
        title=census.place.rstrip("/").rpartition("/")[2] or census.place,
        place=census.place,
        complete=census.complete,
        summary=summary(census),
        figures=list(_figures(census)),
        broken=grouped((example.archive or None, example.problem) for example in census.broken),
        unsearched=grouped((None, problem) for problem in census.unsearched),
        nested=census.nested,
        routes=census.routes,
        most=max((max(route.bytes_in, route.bytes_out) for route in census.routes), default=0),
        meanings=MEANINGS,
        max_codecs=_ROWS,
        listed=census.listed,
        cost=[] if census.cost is None else list(cost_rows(census.cost)),
        charts=[chart for chart in _charts(census) if chart.bars],
        groups=[
            ProblemGroup.of(
                [(example.archive or None, example.problem) for example in group.examples],
                most=MAX_PLACES,
                count=group.count,
            )
            for group in census.problems
        ],
    )


def _figures(census: Census) -> Iterator[tuple[str, str, str]]:
    broken = f"{count_text(len(census.broken))} cannot be read" if census.broken else ""
    yield "Archives", count_text(census.archives), broken
    refused = f"{count_text(census.refused, 'node')} refused" if census.refused else ""
    yield "Arrays", count_text(census.arrays), refused
    yield "Groups", count_text(census.groups), ""
    if census.listed:
        yield "Stored", bytes_text(census.bytes, estimated=not census.bytes_known), "chunks and shards"
        yield "Objects", count_text(census.objects), "with documents"


def _charts(census: Census) -> Iterator[Chart]:
    formats = [(FORMATS.get(name, name), count) for name, count in census.formats.items()]
    yield _chart("formats", "archive", formats)
    sizes = [(range_text(size), size.arrays) for size in census.chunk_sizes]
    yield _chart("chunk sizes", "array", sizes, rows=len(sizes))
    for title, unit, name in TALLIES:
        tally: Tally = getattr(census, name)
        yield _chart(title, unit, list(tally.counts.items()), tally.others)


def _chart(
    title: str, unit: str, counts: Sequence[tuple[str, int]], others: int = 0, rows: int = _ROWS
) -> Chart:
    most = max((count for _, count in counts[:rows]), default=0)
    others += sum(count for _, count in counts[rows:])
    return Chart(title.capitalize(), unit, counts[:rows], most, others)

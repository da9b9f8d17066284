"""The page of a census: what many archives contain, and what a migration of all would do and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...jobs.units import bytes_text, count_text
from ..census import cost_rows, range_text, summary
from ..problem_groups import MAX_PLACES, ProblemGroup, grouped
from .rendering import render
from .report_page import FORMATS, MEANINGS

if TYPE_CHECKING:
    from ...jobs.census.census import Census, RouteTotals, Tally

_ROWS: Final = 12
"""Maximum number of bars of a chart; further names are counted."""
_TALLIES: Final = (
    ("Writers", "archive", "writers"),
    ("Conventions", "archive", "conventions"),
    ("Data types", "array", "data_types"),
    ("Codecs", "array", "codecs"),
    ("Chunk shapes", "array", "chunk_shapes"),
)


class Bar(NamedTuple):
    """A row of a chart."""

    name: str
    value: int
    text: str


class Chart(NamedTuple):
    """Bars with a title."""

    title: str
    bars: list[Bar]
    most: int
    more: str


class Route(NamedTuple):
    """What becomes of the arrays of one route."""

    name: str
    meaning: str
    bytes_in: int
    bytes_out: int
    text: str
    codecs: list[str]


def census_page(census: Census) -> str:
    """One self-contained HTML page on a census."""
    routes = [_route(route, listed=census.listed) for route in census.routes]
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
        routes=routes,
        most=max((max(route.bytes_in, route.bytes_out) for route in routes), default=0),
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
    yield _chart("Formats", "archive", formats)
    sizes = [(range_text(size), size.arrays) for size in census.chunk_sizes]
    yield _chart("Chunk sizes", "array", sizes, rows=len(sizes))
    for title, unit, name in _TALLIES:
        tally: Tally = getattr(census, name)
        yield _chart(title, unit, list(tally.counts.items()), tally.others)


def _chart(
    title: str, unit: str, counts: Sequence[tuple[str, int]], others: int = 0, rows: int = _ROWS
) -> Chart:
    bars = [Bar(name, count, count_text(count, unit)) for name, count in counts[:rows]]
    others += sum(count for _, count in counts[rows:])
    most = max((bar.value for bar in bars), default=0)
    return Chart(title, bars, most, f"{count_text(others, unit)} with others" if others else "")


def _route(route: RouteTotals, *, listed: bool) -> Route:
    text = f"{count_text(route.archives, 'archive')}, {count_text(route.arrays, 'array')}"
    if listed:
        text += f", {count_text(route.chunks, 'chunk')} → {count_text(route.objects_out, 'object')}"
    codecs = _shown(route.codecs.counts)
    return Route(route.route, MEANINGS[route.route], route.bytes_in, route.bytes_out, text, codecs)


def _shown(names: Iterable[str]) -> list[str]:
    every = list(names)
    more = len(every) - _ROWS
    return every if more <= 0 else [*every[:_ROWS], f"and {count_text(more)} more"]

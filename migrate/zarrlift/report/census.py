"""The output of `zarrlift inspect` for many archives: what they contain, and what a migration would cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from ..core.problems import any_refusal
from ..jobs.units import ROUTES, brief, bytes_text, count_text, duration_text, safe
from . import blocks as b
from .problem_groups import ProblemGroup

if TYPE_CHECKING:
    from ..jobs.census.census import Census, Cost, RouteTotals, SizeClass, Tally
    from ..jobs.census.census import ProblemGroup as CensusGroup

_ROWS: Final = 10
"""Maximum number of rows for each property; further ones are only counted."""
_CODECS: Final = 2
"""Maximum number of codec chains shown of a route."""
_TALLIES: Final = (
    ("writers", "archives", "writers"),
    ("conventions", "archives", "conventions"),
    ("data types", "arrays", "data_types"),
    ("codecs", "arrays", "codecs"),
    ("chunk shapes", "arrays", "chunk_shapes"),
)
"""Title, what is counted, and field of each tally."""
_SIZES: Final = (
    b.Column(title="chunk sizes"),
    b.Column(title="arrays", right=True),
    b.Column(title="chunks", right=True),
    b.Column(title=""),
)
_ROUTES: Final = (
    b.Column(title="route"),
    b.Column(title="archives", right=True),
    b.Column(title="arrays", right=True, spare=1),
    b.Column(title="chunks", right=True, spare=2),
    b.Column(title="in", right=True),
    b.Column(title="out", right=True),
    b.Column(title="codecs", wraps=True),
)


def blocks(census: Census) -> Iterator[b.Block]:
    """What many archives contain, and what a migration of all would do and cost."""
    yield b.Title(f"Census: {safe(census.place)}")
    yield b.Pairs(tuple(_contents(census)))
    for title, unit, name in _TALLIES:
        yield from _tally(getattr(census, name), title, unit)
    yield b.Section(title="Chunk sizes", half=True)
    yield b.Table(
        columns=_SIZES,
        items=census.chunk_sizes,
        row=partial(_size_row, census),
        bars=lambda size: (size.arrays,),
    )
    yield b.Section(title="What the arrays would become", half=True)
    yield b.Table(
        columns=_ROUTES,
        items=census.routes,
        row=partial(_route_row, census),
        bars=(lambda route: (route.bytes_in, route.bytes_out)) if census.listed else None,
    )
    yield b.Section(title="Routes", on="pages", half=True)
    yield b.Pairs(tuple((route.route, ROUTES.get(route.route, "")) for route in census.routes))
    yield b.Section(title=f"{count_text(len(census.broken), 'archive')} cannot be read")
    broken = [(example.archive or "the archive", example.problem) for example in census.broken]
    yield b.Problems(problems=broken, refusal="cannot be read")
    yield b.Section(title="Places that could not be searched")
    yield b.Problems.of(census.unsearched, "not searched")
    if census.nested:
        yield b.Section(title="Archives inside others")
        yield b.Text(f"{count_text(len(census.nested), 'archive')} inside others, not counted:")
        yield b.Lines(tuple(map(safe, census.nested)), most=_ROWS)
    yield b.Section(title="Problems of nodes")
    yield b.Problems(groups=tuple(map(_group, census.problems)), refusal="refused")
    if census.cost is not None:
        yield b.Section(title="Cost of a migration to a new place", heads_text=True, half=True)
        yield b.Pairs(tuple(_cost_rows(census.cost)))
    yield b.Section()
    yield b.Summary(summary(census))


def brief_lines(census: Census) -> Iterator[str]:
    """Short lines for what prevents a complete migration; none if nothing does."""
    if census.broken:
        yield f"{count_text(len(census.broken), 'archive')} cannot be read."
    if census.refused:
        yield f"{count_text(census.refused, 'node')} would be refused."
    if any_refusal(census.unsearched):
        yield f"{count_text(len(census.unsearched), 'place')} could not be searched."


def _contents(census: Census) -> Iterator[tuple[str, str]]:
    """What there is, as names and values."""
    formats = ", ".join(f"{count_text(count)} {name}" for name, count in census.formats.items())
    broken = f", {count_text(len(census.broken))} cannot be read" if census.broken else ""
    yield "archives", f"{count_text(census.archives)} ({formats}){broken}" if formats else "0"
    yield "nodes", f"{count_text(census.groups, 'group')}, {count_text(census.arrays, 'array')}"
    if census.listed:
        size = bytes_text(census.bytes, estimated=not census.bytes_known)
        yield "stored", f"{count_text(census.objects, 'object')}, {size}"


def _tally(tally: Tally, title: str, unit: str) -> Iterator[b.Block]:
    counts = list(tally.counts.items())
    if tally.others:
        counts.append(("others", tally.others))
    yield b.Section(title=title.capitalize(), half=True)
    yield b.Table(
        columns=(b.Column(title=title, wraps=True), b.Column(title=unit, right=True)),
        items=counts,
        row=lambda count: (brief(count[0]), count_text(count[1])),
        most=_ROWS,
        rest=lambda others: ("others", count_text(sum(count for _, count in others))),
        bars=lambda count: count[1:],
    )


def _size_row(census: Census, size: SizeClass) -> tuple[str, ...]:
    most = max(each.arrays for each in census.chunk_sizes)
    stored = count_text(size.chunks) if census.listed else ""
    return _range_text(size), count_text(size.arrays), stored, "#" * -(-20 * size.arrays // most)


def _range_text(size: SizeClass) -> str:
    """The sizes of a class."""
    if size.below is None:
        return f"{bytes_text(size.at_least)} and more"
    return f"{bytes_text(size.at_least)} to {bytes_text(size.below)}" if size.at_least else "below 1.00 kB"


def _route_row(census: Census, route: RouteTotals) -> tuple[str, ...]:
    names = list(route.codecs.counts)
    more = len(names) - _CODECS
    codecs = "; ".join(brief(name) for name in names[:_CODECS]) + (f"; {more} more" if more > 0 else "")
    amounts = ("", "", "")
    if census.listed:
        written = bytes_text(route.bytes_out, estimated=route.route != "relink")
        amounts = (count_text(route.chunks), bytes_text(route.bytes_in), written)
    return route.route, count_text(route.archives), count_text(route.arrays), *amounts, codecs


def _group(group: CensusGroup) -> ProblemGroup:
    examples = [(example.archive or "the archive", example.problem) for example in group.examples]
    return ProblemGroup.of(examples, most=None, count=group.count, archives=group.archives)


def _cost_rows(cost: Cost) -> Iterator[tuple[str, str]]:
    """What a migration takes, as names and values."""
    counts = {"list": cost.lists, "read": cost.reads, "write": cost.writes}
    yield "requests", ", ".join(f"{count_text(count)} to {what}" for what, count in counts.items())
    written = bytes_text(cost.bytes_written, estimated=not cost.bytes_known)
    yield "bytes", f"{bytes_text(cost.bytes_read)} to read, {written} to write"
    if cost.rate is not None and cost.seconds is not None:
        yield "time", f"{duration_text(cost.seconds)} at {bytes_text(round(cost.rate))}/s"


def summary(census: Census) -> str:
    """The census in one line."""
    parts = [count_text(census.archives, "archive")]
    if census.current:
        parts.append(f"{count_text(census.current)} of Zarr v3 already")
    if census.broken:
        parts.append(f"{count_text(len(census.broken))} that cannot be read")
    if census.refused:
        parts.append(f"{count_text(census.refused, 'node')} refused")
    return ", ".join(parts) + "."

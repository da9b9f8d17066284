"""The page on a census of many archives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...jobs.units import bytes_text, count_text, duration_text
from ..census import TALLIES, money_text, range_text
from .problem_groups import ProblemGroup, Where, grouped
from .rendering import render

if TYPE_CHECKING:
    from ...survey.census import Census
    from ...survey.census import ProblemGroup as Counted

_MAX_NESTED: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Names with their counts, as bars."""

    title: str
    unit: str
    rows: tuple[tuple[str, int], ...]

    @property
    def most(self) -> int:
        """The largest count."""
        return max(count for _, count in self.rows)


def census_page(census: Census) -> str:
    """The page on a census."""
    return render(
        "census.html",
        census=census,
        figures=list(_figures(census)),
        cost=list(_cost(census)),
        charts=list(_charts(census)),
        broken=grouped((each.archive or "the archive", each.problem) for each in census.broken),
        unsearched=grouped((None, problem) for problem in census.unsearched),
        groups=[_group(group) for group in census.problems],
        nested=census.nested[:_MAX_NESTED],
    )


def _figures(census: Census) -> Iterator[tuple[str, str, str]]:
    formats = ", ".join(f"{count_text(count)} {name}" for name, count in census.formats.items())
    yield "Archives", count_text(census.archives), formats
    yield "Arrays", count_text(census.arrays), f"in {count_text(census.groups, 'group')}"
    if census.listed:
        size = bytes_text(census.bytes, estimated=not census.bytes_known)
        yield "Stored", size, f"in {count_text(census.objects, 'object')}"
    if census.broken:
        yield "Broken", count_text(len(census.broken)), "archives that cannot be read"
    if census.refused:
        yield "Refused", count_text(census.refused), "nodes that would not be migrated"


def _cost(census: Census) -> Iterator[tuple[str, str]]:
    cost = census.cost
    if cost is None:
        return
    yield "Requests to list", count_text(cost.lists)
    yield "Requests to read", count_text(cost.reads)
    yield "Requests to write", count_text(cost.writes)
    yield "Bytes to read", bytes_text(cost.bytes_read)
    yield "Bytes to write", bytes_text(cost.bytes_written, estimated=not cost.bytes_known)
    if cost.rate is not None and cost.seconds is not None:
        yield "Time", f"{duration_text(cost.seconds)} at {bytes_text(round(cost.rate))}/s"
    if cost.money is not None:
        yield "Money", money_text(cost.money)


def _charts(census: Census) -> Iterator[Bars]:
    if census.chunk_sizes:
        sizes = tuple((range_text(size), size.arrays) for size in census.chunk_sizes)
        yield Bars(title="Chunk sizes", unit="array", rows=sizes)
    for title, unit, name in TALLIES:
        tally = getattr(census, name)
        if not tally.counts:
            continue
        rows = list(tally.counts.items())[:10]
        rest = sum(tally.counts.values()) + tally.others - sum(count for _, count in rows)
        if rest:
            rows.append(("others", rest))
        yield Bars(title=title.capitalize(), unit=unit.removesuffix("s"), rows=tuple(rows))


def _group(group: Counted) -> ProblemGroup:
    first = group.examples[0].problem
    return ProblemGroup(
        severity=group.severity,
        kind=group.kind,
        message=group.message,
        found=None,
        expected=first.expected,
        advice=first.advice,
        count=group.count,
        places=tuple(
            Where(each.archive or None, each.problem.node, each.problem.key, each.problem.found)
            for each in group.examples
        ),
        more=group.count - len(group.examples),
    )

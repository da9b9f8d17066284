"""The output of `zarrlift inspect` for many archives: what they contain, and what a migration would cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import any_refusal

from ..jobs.units import brief, bytes_text, count_text, duration_text, safe
from . import problems as report_problems
from .table import Column

if TYPE_CHECKING:
    from ..jobs.census.census import Census, Example, ProblemGroup, SizeClass, Tally
    from ..jobs.census.costs import Cost
    from .page import Page

_ROWS: Final = 10
"""Maximum number of rows for each property, and of problems; further ones are only counted."""
TALLIES: Final = (
    ("writers", "archive", "writers"),
    ("conventions", "archive", "conventions"),
    ("data types", "array", "data_types"),
    ("codecs", "array", "codecs"),
    ("chunk shapes", "array", "chunk_shapes"),
)
"""Title, what is counted, and field of each tally."""
_SIZES: Final = (
    Column(title="chunk sizes"),
    Column(title="arrays", right=True),
    Column(title="chunks", right=True),
    Column(title=""),
)
_ROUTES: Final = (
    Column(title="route"),
    Column(title="archives", right=True),
    Column(title="arrays", right=True, spare=1),
    Column(title="chunks", right=True, spare=2),
    Column(title="in", right=True),
    Column(title="out", right=True),
    Column(title="codecs", wraps=True),
)
_HEADS: Final = {"refusal": "refused", "warning": "warning", "note": "note"}


def lines(census: Census, page: Page) -> Iterator[str]:
    """The report on a census."""
    yield from page.paragraph(f"Census: {safe(census.place)}", hang=2, tone="title")
    yield from page.pairs(contents(census))
    for title, unit, name in TALLIES:
        yield from _tally(getattr(census, name), title, unit, page)
    yield from page.apart(page.table(_SIZES, _sizes(census)))
    yield from page.apart(page.table(_ROUTES, _routes(census, page)))
    yield from _problems(census, page)
    if census.cost is not None:
        yield ""
        yield page.paint("Cost of a migration to a new place", "title")
        yield from page.pairs(cost_rows(census.cost))
    yield ""
    yield from page.paragraph(summary(census), hang=2)


def brief_lines(census: Census) -> Iterator[str]:
    """Short lines for what prevents a complete migration; none if nothing does."""
    if census.broken:
        yield f"{count_text(len(census.broken), 'archive')} cannot be read."
    if census.refused:
        yield f"{count_text(census.refused, 'node')} would be refused."
    if any_refusal(census.unsearched):
        yield f"{count_text(len(census.unsearched), 'place')} could not be searched."


def contents(census: Census) -> Iterator[tuple[str, str]]:
    """What there is, as names and values."""
    formats = ", ".join(f"{count_text(count)} {name}" for name, count in census.formats.items())
    yield "archives", f"{count_text(census.archives)} ({formats})" if formats else "0"
    yield "nodes", f"{count_text(census.groups, 'group')}, {count_text(census.arrays, 'array')}"
    if census.listed:
        size = bytes_text(census.bytes, estimated=not census.bytes_known)
        yield "stored", f"{count_text(census.objects, 'object')}, {size}"


def _tally(tally: Tally, title: str, unit: str, page: Page) -> Iterator[str]:
    if not tally.counts:
        return
    excerpt = page.shown(list(tally.counts.items()), _ROWS)
    rows = [(brief(name), count_text(count)) for name, count in excerpt]
    rest = sum(tally.counts.values()) - sum(count for _, count in excerpt) + tally.others
    if rest:
        rows.append(("others", count_text(rest)))
    yield ""
    yield from page.table((Column(title=title, wraps=True), Column(title=f"{unit}s", right=True)), rows)


def _sizes(census: Census) -> Iterator[tuple[str, ...]]:
    most = max((size.arrays for size in census.chunk_sizes), default=0)
    for size in census.chunk_sizes:
        bar = "#" * -(-20 * size.arrays // most)
        stored = count_text(size.chunks) if census.listed else ""
        yield range_text(size), count_text(size.arrays), stored, bar


def range_text(size: SizeClass) -> str:
    """The sizes of a class."""
    if size.below is None:
        return f"{bytes_text(size.at_least)} and more"
    return f"{bytes_text(size.at_least)} to {bytes_text(size.below)}" if size.at_least else "below 1.00 kB"


def _routes(census: Census, page: Page) -> Iterator[tuple[str, ...]]:
    for route in census.routes:
        names = list(route.codecs.counts)
        excerpt = page.shown(names, 2)
        more = len(names) - len(excerpt)
        codecs = "; ".join(brief(name) for name in excerpt) + (f"; {more} more" if more else "")
        amounts = ("", "", "")
        if census.listed:
            amounts = (
                count_text(route.chunks),
                bytes_text(route.bytes_in),
                bytes_text(route.bytes_out, estimated=route.route != "relink"),
            )
        yield route.route, count_text(route.archives), count_text(route.arrays), *amounts, codecs


def _problems(census: Census, page: Page) -> Iterator[str]:
    if census.broken:
        yield ""
        yield page.paint(f"{count_text(len(census.broken), 'archive')} cannot be read", "bad")
        excerpt = page.shown(census.broken, _ROWS)
        for example in excerpt:
            yield from page.paragraph(_example(example), indent=2, hang=4)
        yield from page.rest(len(census.broken) - len(excerpt))
    yield from page.apart(report_problems.lines(census.unsearched, page, refusal="not searched"))
    if census.nested:
        yield ""
        paths = page.shown(census.nested, _ROWS)
        head = f"{count_text(len(census.nested), 'archive')} inside others, not counted: "
        yield from page.paragraph(head + ", ".join(map(safe, paths)), hang=2)
        yield from page.rest(len(census.nested) - len(paths))
    if census.problems:
        yield ""
        groups = page.shown(census.problems, _ROWS)
        for group in groups:
            yield from _group(group, page)
        yield from page.rest(len(census.problems) - len(groups))


def _group(group: ProblemGroup, page: Page) -> Iterator[str]:
    head = f"{_HEADS[group.severity]}: {safe(group.message)}"
    counts = f"{count_text(group.count, 'time')} in {count_text(group.archives, 'archive')}"
    yield from page.paragraph(f"{head} ({group.kind}; {counts})", indent=2, hang=4)
    for example in page.shown(group.examples, 1):
        yield from page.paragraph(f"at {_example(example)}", indent=4, hang=6)


def _example(example: Example) -> str:
    problem = example.problem
    place = safe(example.archive) or "the archive"
    place += f" /{safe(problem.node)}" if problem.node else ""
    detail = f": found {brief(problem.found)}" if problem.found else ""
    return f"{place}{detail}" if detail else f"{place}: {brief(problem.message)}"


def cost_rows(cost: Cost) -> Iterator[tuple[str, str]]:
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

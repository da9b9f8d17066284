"""Takes a census: searches a place for archives, describes and plans each, and adds them up.

Nothing of an archive is kept but counts and examples.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final, TypeAlias, Unpack

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ...archive.nodes import Archive, ArrayNode, GroupNode
from ...core.chain.chain import Chain
from ...formats.describe import describe
from ...formats.detect import detect
from ...formats.globs import divided
from ...formats.search import FoundArchive, search
from ...formats.writers import writers
from ...planning.estimates import listing_requests, plan_totals
from ...planning.planner import make_plan
from ...planning.plans import Plan
from ...recipe.keywords import ReadingKeywords, SourceOptionsKeywords
from ...recipe.options import PathText, Reading, SourceOptions
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.open_storage import is_url, open_storage
from ...storage.redact import redact, secrets_of
from ...transfer.unexpected_errors import unexpected_error
from ..units import shape_text
from .census import Census, Cost, Example, ProblemGroup, RouteTotals, SizeClass, Tally

_AT_ONCE: Final = 16
"""Number of archives in a store that are read at a time; latency, not the processor, limits each."""
_Assessed: TypeAlias = tuple[FoundArchive, tuple[Archive, Plan] | Problem]


class _Reading(ReadingKeywords, SourceOptionsKeywords):
    """The options of `census`."""


@explicit
def census(
    place: PathText,
    *,
    recipe: Recipe | None = None,
    listing: bool = True,
    rate: float | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Unpack[_Reading],
) -> Census:
    """Return what the archives in a place contain, and what a migration of all would do and cost.

    - `place`: a folder, a prefix of a store, or a glob; see `zarrlift.formats.search`.
    - `recipe`: the changes that the migration would make.
    - `listing`: list the chunks of every array; without, there are no amounts and no cost.
    - `rate`: bytes read per second, for the time.
    - `storage_options`: those of fsspec, for a URL.
    - `progress`: called with the number of archives after each.

    The other arguments are those of `inspect`. Archives that cannot be read are in `Census.broken`, and do
    not affect the others.

    Raises
    ------
    UsageError
        If the place does not exist or has no archives, or for invalid arguments.

    Examples
    --------
    >>> census = zarrlift.census(".")
    >>> census.archives, dict(census.formats)
    (2, {'n5': 1, 'zarr2': 1})
    """
    if rate is not None and not rate > 0:
        raise UsageError("not a rate", found=repr(rate), expected="bytes per second")
    if not listing and rate is not None:
        raise UsageError("the time requires a listing of the chunks", advice="Omit the rate, or list.")
    reading, opening = given(options, Reading, SourceOptions)
    storage_options = opening.storage_options
    counting = Counting(listed=listing)
    matches = search(place, storage_options=storage_options, follow_links=reading.follow_links)
    for archive, result in _each(
        _archives(matches, counting),
        lambda each: _assess(each, recipe or Recipe(), reading.settled(), storage_options, listing=listing),
        at_once=_AT_ONCE if is_url(os.fspath(place)) else 1,
    ):
        if isinstance(result, Problem):
            counting.add_broken(archive, result)
        else:
            counting.add(archive, *result)
        if progress is not None:
            progress(counting.counts["sums"]["archives"])
    redacted = redact(os.fspath(place), secrets_of(storage_options))
    if not counting.counts["formats"] and not counting.unsearched:
        if divided(os.fspath(place))[1] is None:
            detect(open_storage(place, storage_options=storage_options))  # raises, and names what is there
        raise UsageError("no archives found", found=redacted)
    return counting.census(redacted, counting.cost.at(rate) if listing else None)


def _archives(matches: Iterable[FoundArchive | Problem], counting: Counting) -> Iterator[FoundArchive]:
    """The archives of a search; its problems are added to the counts."""
    for match in matches:
        if isinstance(match, Problem):
            counting.unsearched.append(match)
        else:
            yield match


def _assess(
    match: FoundArchive,
    recipe: Recipe,
    reading: Reading,
    storage_options: Mapping[str, Any] | None,
    *,
    listing: bool,
) -> tuple[Archive, Plan] | Problem:
    """An archive and the plan for it, or the problem for which it cannot be read."""
    try:
        storage = open_storage(match.url, storage_options=storage_options)
        archive = describe(storage, options=reading)
        plan, _ = make_plan(archive, storage, recipe, destination="", reading=reading, listing=listing)
    except ZarrstackError as error:
        return error.problem
    except Exception as error:  # noqa: BLE001 - one archive must not end the census of the others
        return unexpected_error("", error)
    return archive, plan


def _each(
    archives: Iterable[FoundArchive],
    assess: Callable[[FoundArchive], tuple[Archive, Plan] | Problem],
    *,
    at_once: int,
) -> Iterator[_Assessed]:
    """The results in the order of the archives, some computed at the same time."""
    if at_once == 1:
        for match in archives:
            yield match, assess(match)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="zarrlift-census") as pool:
        pending: deque[tuple[FoundArchive, Future[tuple[Archive, Plan] | Problem]]] = deque()
        for match in archives:
            pending.append((match, pool.submit(assess, match)))
            if len(pending) >= 2 * at_once:
                first, result = pending.popleft()
                yield first, result.result()
        for match, result in pending:
            yield match, result.result()


_EXAMPLES: Final = 3
_MESSAGES: Final = 1000
"""Maximum number of different messages that are counted separately."""
_CLASSES: Final = (0, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
"""Lower limits of the sizes of chunks, in bytes."""
_SUMS: Final = ("archives", "current", "groups", "arrays", "refused", "objects", "bytes")
_TALLIES: Final = ("writers", "data_types", "codecs", "chunk_shapes", "conventions")
_OF_ROUTE: Final = ("chunks", "bytes_in", "bytes_read", "bytes_out", "objects_out")
"""Figures of an array that are summed by its route."""
_SEVERITIES: Final = ("refusal", "warning", "note")


@dataclass(slots=True, kw_only=True)
class Counting:
    """The counts of the archives so far."""

    listed: bool
    counts: defaultdict[str, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))
    """`sums` by field of the census, `formats`, the tallies; arrays (`sizes`) and stored chunks (`stored`) by
    the lower limit of their class.
    """
    bytes_known: bool = True
    cost: Cost = field(default_factory=Cost)
    routes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Route -> its sums, by field of `RouteTotals`."""
    chains: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Route -> arrays with each pair of codec chains."""
    groups: dict[tuple[str, str, str], ProblemGroup] = field(default_factory=dict)
    broken: list[Example] = field(default_factory=list)
    unsearched: list[Problem] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)

    def add(self, match: FoundArchive, archive: Archive, plan: Plan) -> None:
        """Count an archive and its plan."""
        self._count(match)
        self.counts["writers"].update(writers(archive))
        self.counts["conventions"].update(seen.name for seen in plan.conventions)
        documents = len(archive.documents)
        for node in archive.nodes:
            documents += len(node.documents)
            if isinstance(node, GroupNode):
                self.counts["sums"]["groups"] += 1
            else:
                self._add_array(node)
        self._add_problems(match, plan.all_problems())
        self.counts["sums"]["refused"] += len(plan.refusals)
        self.counts["sums"]["current"] += match.format == "zarr3"
        if not self.listed:
            self._add_routes(plan)
            return
        self.counts["sums"]["objects"] += documents
        for array in plan.arrays:
            self.counts["sums"]["objects"] += array.chunks
            self.counts["sums"]["bytes"] += array.bytes_in
            self.bytes_known &= array.bytes_in_known
            self.counts["stored"][_class_of(array.source.chunk_shape, array.source.item_bytes)] += (
                array.chunks
            )
        if match.format == "zarr3":
            return
        self._add_routes(plan)
        totals = plan_totals(plan)
        self.cost = replace(
            self.cost,
            lists=self.cost.lists + listing_requests(plan.arrays, plan.groups),
            reads=self.cost.reads + totals["reads"] + documents,
            writes=self.cost.writes + totals["objects_out"],
            bytes_read=self.cost.bytes_read + totals["bytes_read"],
            bytes_written=self.cost.bytes_written + totals["bytes_out"],
            bytes_known=self.cost.bytes_known and totals["bytes_out_known"],
        )

    def add_broken(self, match: FoundArchive, problem: Problem) -> None:
        """Count an archive that cannot be read."""
        self._count(match)
        self.broken.append(Example(archive=match.relative, problem=problem))

    def census(self, place: str, cost: Cost | None) -> Census:
        """The census of all archives."""
        figures: dict[str, Any] = {name: self.counts["sums"][name] for name in _SUMS}
        figures |= {name: Tally.of(self.counts[name]) for name in _TALLIES}
        return Census(
            place=place,
            listed=self.listed,
            formats=dict(sorted(self.counts["formats"].items())),
            bytes_known=self.bytes_known,
            chunk_sizes=tuple(self._size_classes()),
            routes=tuple(
                RouteTotals(route=name, codecs=Tally.of(self.chains[name]), **sums)
                for name, sums in sorted(self.routes.items())
            ),
            problems=tuple(
                sorted(
                    self.groups.values(),
                    key=lambda each: (_SEVERITIES.index(each.severity), -each.count, each.kind, each.message),
                )
            ),
            broken=tuple(self.broken),
            unsearched=tuple(self.unsearched),
            nested=tuple(self.nested),
            cost=cost,
            **figures,
        )

    def _count(self, match: FoundArchive) -> None:
        self.counts["sums"]["archives"] += 1
        self.counts["formats"][match.format] += 1
        self.nested += match.nested

    def _add_array(self, node: ArrayNode) -> None:
        self.counts["sums"]["arrays"] += 1
        layout = node.layout
        if layout is None:
            return
        self.counts["data_types"][str(layout.data_type)] += 1
        self.counts["codecs"].update({codec.name for codec in layout.chain.codecs})
        self.counts["chunk_shapes"][shape_text(layout.chunk_shape)] += 1
        self.counts["sizes"][_class_of(layout.chunk_shape, layout.item_bytes)] += 1

    def _add_problems(self, match: FoundArchive, problems: Iterable[Problem]) -> None:
        seen: set[tuple[str, str, str]] = set()
        for problem in problems:
            key = (problem.severity, problem.kind, problem.message)
            if key not in self.groups and len(self.groups) >= _MESSAGES:
                key = (problem.severity, problem.kind, "(other messages)")
            severity, kind, message = key
            group = self.groups.get(key) or ProblemGroup(kind=kind, severity=severity, message=message)
            is_new = key not in seen
            seen.add(key)
            own = (Example(archive=match.relative, problem=problem),) if is_new else ()
            self.groups[key] = replace(
                group,
                count=group.count + 1,
                archives=group.archives + is_new,
                examples=(*group.examples, *own)[:_EXAMPLES],
            )

    def _add_routes(self, plan: Plan) -> None:
        for name in {array.route.name for array in plan.arrays}:
            self.routes[name]["archives"] += 1
        for array in plan.arrays:
            sums = self.routes[array.route.name]
            sums["arrays"] += 1
            for figure in _OF_ROUTE:
                sums[figure] += getattr(array, figure)
            before, after = _names(array.source.chain), _names(array.destination.chain)
            self.chains[array.route.name][before if before == after else f"{before} -> {after}"] += 1

    def _size_classes(self) -> list[SizeClass]:
        limits = [*_CLASSES[1:], None]
        return [
            SizeClass(
                at_least=start,
                below=below,
                arrays=self.counts["sizes"][start],
                chunks=self.counts["stored"][start],
            )
            for start, below in zip(_CLASSES, limits, strict=True)
            if self.counts["sizes"][start]
        ]


def _names(chain: Chain) -> str:
    return ", ".join(codec.name for codec in chain.codecs)


def _class_of(chunk_shape: tuple[int, ...], item_bytes: int) -> int:
    """The lower limit of the class of a chunk's decoded size."""
    size = prod(chunk_shape) * item_bytes
    return next(start for start in reversed(_CLASSES) if size >= start)

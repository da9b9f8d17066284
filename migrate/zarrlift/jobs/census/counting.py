"""Adds archives up to a census, one by one; nothing of an archive is kept but counts and examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from zarrstack.core.errors import Problem

from ...archive.nodes import Archive, ArrayNode, GroupNode
from ...core.chain.chain import Chain
from ...formats.search import FoundArchive
from ...formats.writers import writers
from ...planning.estimates import listing_requests, plan_totals
from ...planning.plans import Plan
from ..units import shape_text
from .census import Census, Cost, Example, ProblemGroup, RouteTotals, SizeClass, Tally

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


@dataclass(slots=True)
class _Messages:
    """Problems with one message."""

    count: int = 0
    archives: int = 0
    last: str | None = None
    """The archive that was counted last."""
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Counting:
    """The counts of the archives so far."""

    listed: bool
    sums: Counter[str] = field(default_factory=Counter)
    """Field of the census -> its number."""
    bytes_known: bool = True
    cost: Cost = field(default_factory=Cost)
    formats: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _TALLIES})
    """Field of the census -> how often each name occurs."""
    sizes: Counter[int] = field(default_factory=Counter)
    """Lower limit -> arrays."""
    stored: Counter[int] = field(default_factory=Counter)
    """Lower limit -> stored chunks."""
    routes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Route -> its sums, by field of `RouteTotals`."""
    chains: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Route -> arrays with each pair of codec chains."""
    messages: dict[tuple[str, str, str], _Messages] = field(default_factory=dict)
    broken: list[Example] = field(default_factory=list)
    unsearched: list[Problem] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)

    def add(self, match: FoundArchive, archive: Archive, plan: Plan) -> None:
        """Count an archive and its plan."""
        self._count(match)
        self.tallies["writers"].update(writers(archive))
        self.tallies["conventions"].update(seen.name for seen in plan.conventions)
        documents = len(archive.documents)
        for node in archive.nodes:
            documents += len(node.documents)
            if isinstance(node, GroupNode):
                self.sums["groups"] += 1
            else:
                self._add_array(node)
        for problem in plan.all_problems():
            self._add_problem(match, problem)
        self.sums["refused"] += len(plan.refusals)
        self.sums["current"] += match.format == "zarr3"
        if not self.listed:
            self._add_routes(plan)
            return
        self.sums["objects"] += documents
        for array in plan.arrays:
            self.sums["objects"] += array.chunks
            self.sums["bytes"] += array.bytes_in
            self.bytes_known &= array.bytes_in_known
            self.stored[_class_of(array.source.chunk_shape, array.source.item_bytes)] += array.chunks
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
        figures: dict[str, Any] = {name: self.sums[name] for name in _SUMS}
        figures |= {name: Tally.of(counter) for name, counter in self.tallies.items()}
        return Census(
            place=place,
            listed=self.listed,
            formats=dict(sorted(self.formats.items())),
            bytes_known=self.bytes_known,
            chunk_sizes=tuple(self._size_classes()),
            routes=tuple(
                RouteTotals(route=name, codecs=Tally.of(self.chains[name]), **sums)
                for name, sums in sorted(self.routes.items())
            ),
            problems=tuple(self._problems()),
            broken=tuple(self.broken),
            unsearched=tuple(self.unsearched),
            nested=tuple(self.nested),
            cost=cost,
            **figures,
        )

    def _count(self, match: FoundArchive) -> None:
        self.sums["archives"] += 1
        self.formats[match.format] += 1
        self.nested += match.nested

    def _add_array(self, node: ArrayNode) -> None:
        self.sums["arrays"] += 1
        layout = node.layout
        if layout is None:
            return
        self.tallies["data_types"][str(layout.data_type)] += 1
        self.tallies["codecs"].update({codec.name for codec in layout.chain.codecs})
        self.tallies["chunk_shapes"][shape_text(layout.chunk_shape)] += 1
        self.sizes[_class_of(layout.chunk_shape, layout.item_bytes)] += 1

    def _add_problem(self, match: FoundArchive, problem: Problem) -> None:
        key = (problem.severity, problem.kind, problem.message)
        if key not in self.messages and len(self.messages) >= _MESSAGES:
            key = (problem.severity, problem.kind, "(other messages)")
        group = self.messages.setdefault(key, _Messages())
        group.count += 1
        if group.last != match.relative or not group.archives:
            group.archives += 1
            group.last = match.relative
            if len(group.examples) < _EXAMPLES:
                group.examples.append(Example(archive=match.relative, problem=problem))

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
            SizeClass(at_least=start, below=below, arrays=self.sizes[start], chunks=self.stored[start])
            for start, below in zip(_CLASSES, limits, strict=True)
            if self.sizes[start]
        ]

    def _problems(self) -> list[ProblemGroup]:
        groups = [
            ProblemGroup(
                kind=kind,
                severity=severity,
                message=message,
                count=group.count,
                archives=group.archives,
                examples=tuple(group.examples),
            )
            for (severity, kind, message), group in self.messages.items()
        ]
        return sorted(
            groups,
            key=lambda group: (_SEVERITIES.index(group.severity), -group.count, group.kind, group.message),
        )


def _names(chain: Chain) -> str:
    return ", ".join(codec.name for codec in chain.codecs)


def _class_of(chunk_shape: tuple[int, ...], item_bytes: int) -> int:
    """The lower limit of the class of a chunk's decoded size."""
    size = prod(chunk_shape) * item_bytes
    return next(start for start in reversed(_CLASSES) if size >= start)

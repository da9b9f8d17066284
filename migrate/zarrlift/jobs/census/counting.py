"""Adds archives up to a census, one by one; nothing of an archive is kept but counts and examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from zarrstack.core.errors import Problem

from ...archive.nodes import Archive, ArrayNode, GroupNode
from ...core.chain.chain import Chain
from ...formats.search import FoundArchive
from ...formats.writers import writers
from ...planning.estimates import plan_totals
from ...planning.plans import ArrayPlan, Plan
from ..units import shape_text
from .census import Census, Example, ProblemGroup, RouteTotals, SizeClass, Tally
from .costs import Cost, listing_requests

_EXAMPLES: Final = 3
_MESSAGES: Final = 1000
"""Maximum number of different messages that are counted separately."""
_CLASSES: Final = (0, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
"""Lower limits of the sizes of chunks, in bytes."""
_SEVERITIES: Final = ("refusal", "warning", "note")


@dataclass(slots=True)
class _Messages:
    """Problems with one message."""

    count: int = 0
    archives: int = 0
    last: str | None = None
    """The archive that was counted last."""
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True)
class _Route:
    arrays: int = 0
    chunks: int = 0
    bytes_in: int = 0
    bytes_read: int = 0
    bytes_out: int = 0
    objects_out: int = 0
    archives: int = 0
    codecs: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Counting:
    """The counts of the archives so far."""

    listed: bool
    archives: int = 0
    current: int = 0
    groups: int = 0
    arrays: int = 0
    refused: int = 0
    objects: int = 0
    bytes: int = 0
    bytes_known: bool = True
    cost: Cost = field(default_factory=Cost)
    formats: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    data_types: Counter[str] = field(default_factory=Counter)
    codecs: Counter[str] = field(default_factory=Counter)
    chunk_shapes: Counter[str] = field(default_factory=Counter)
    conventions: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    """Lower limit -> arrays."""
    stored: Counter[int] = field(default_factory=Counter)
    """Lower limit -> stored chunks."""
    routes: dict[str, _Route] = field(default_factory=dict)
    messages: dict[tuple[str, str, str], _Messages] = field(default_factory=dict)
    broken: list[Example] = field(default_factory=list)
    unsearched: list[Problem] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)

    def add(self, match: FoundArchive, archive: Archive, plan: Plan) -> None:
        """Count an archive and its plan."""
        self._count(match)
        self.writers.update(writers(archive))
        self.conventions.update(seen.name for seen in plan.conventions)
        documents = len(archive.documents)
        for node in archive.nodes:
            documents += len(node.documents)
            if isinstance(node, GroupNode):
                self.groups += 1
            else:
                self._add_array(node)
        for problem in plan.all_problems():
            self._add_problem(match, problem)
        self.refused += len(plan.refusals)
        self.objects += documents
        if not self.listed:
            self.current += match.format == "zarr3"
            self._add_routes(plan)
            return
        for array in plan.arrays:
            self.objects += array.chunks
            self.bytes += array.bytes_in
            self.bytes_known &= array.bytes_in_known
            self.stored[_class_of(array.source.chunk_shape, array.source.item_bytes)] += array.chunks
        if match.format == "zarr3":
            self.current += 1
            return
        self._add_routes(plan)
        totals = plan_totals(plan)
        self.cost = replace(
            self.cost,
            lists=self.cost.lists
            + sum(listing_requests(array.chunks) for array in plan.arrays)
            + len(plan.groups),
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
        return Census(
            place=place,
            archives=self.archives,
            formats=dict(sorted(self.formats.items())),
            current=self.current,
            groups=self.groups,
            arrays=self.arrays,
            refused=self.refused,
            listed=self.listed,
            objects=self.objects if self.listed else 0,
            bytes=self.bytes,
            bytes_known=self.bytes_known,
            writers=Tally.of(self.writers),
            data_types=Tally.of(self.data_types),
            codecs=Tally.of(self.codecs),
            chunk_shapes=Tally.of(self.chunk_shapes),
            chunk_sizes=tuple(self._size_classes()),
            conventions=Tally.of(self.conventions),
            routes=tuple(self._routes()),
            problems=tuple(self._problems()),
            broken=tuple(self.broken),
            unsearched=tuple(self.unsearched),
            nested=tuple(self.nested),
            cost=cost,
        )

    def _count(self, match: FoundArchive) -> None:
        self.archives += 1
        self.formats[match.format] += 1
        self.nested += match.nested

    def _add_array(self, node: ArrayNode) -> None:
        self.arrays += 1
        layout = node.layout
        if layout is None:
            return
        self.data_types[str(layout.data_type)] += 1
        self.codecs.update({codec.name for codec in layout.chain.codecs})
        self.chunk_shapes[shape_text(layout.chunk_shape)] += 1
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
            self.routes.setdefault(name, _Route()).archives += 1
        for array in plan.arrays:
            _add_to(self.routes[array.route.name], array)

    def _size_classes(self) -> list[SizeClass]:
        limits = [*_CLASSES[1:], None]
        return [
            SizeClass(at_least=start, below=below, arrays=self.sizes[start], chunks=self.stored[start])
            for start, below in zip(_CLASSES, limits, strict=True)
            if self.sizes[start]
        ]

    def _routes(self) -> list[RouteTotals]:
        return [
            RouteTotals(
                route=name,
                archives=route.archives,
                arrays=route.arrays,
                chunks=route.chunks,
                bytes_in=route.bytes_in,
                bytes_read=route.bytes_read,
                bytes_out=route.bytes_out,
                objects_out=route.objects_out,
                codecs=Tally.of(route.codecs),
            )
            for name, route in sorted(self.routes.items())
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


def _add_to(route: _Route, array: ArrayPlan) -> None:
    route.arrays += 1
    route.chunks += array.chunks
    route.bytes_in += array.bytes_in
    route.bytes_read += array.bytes_read
    route.bytes_out += array.bytes_out
    route.objects_out += array.objects_out
    before, after = _names(array.source.chain), _names(array.destination.chain)
    route.codecs[before if before == after else f"{before} -> {after}"] += 1


def _names(chain: Chain) -> str:
    return ", ".join(codec.name for codec in chain.codecs)


def _class_of(chunk_shape: tuple[int, ...], item_bytes: int) -> int:
    """The lower limit of the class of a chunk's decoded size."""
    size = prod(chunk_shape) * item_bytes
    return next(start for start in reversed(_CLASSES) if size >= start)

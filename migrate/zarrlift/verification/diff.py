"""Compares two archives of any formats: nodes, metadata and values, as both would be in Zarr v3."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.nodes import ArrayNode, Layout, Node
from ..core.data_types.compare import mismatch
from ..core.grid.overlap import touched
from ..core.problems import refusal
from ..planning.regrid.blocks import memory_budget
from ..transfer.events import Planned, Progress, TaskDone
from .archive_diff import ArchiveDiff, NodeDifference, ValueDifference
from .array_values import ArrayValues
from .attributes import strict
from .diff_sides import STORED, Side, may_need_conventions, members, of_side, stored_form
from .documents import VARIABLE, differing_types, fill_of
from .expectation import Expectation, ValueProblem
from .listed_objects import SUSPECTS
from .node_differences import MAX_LISTED
from .results import DecodedResult
from .sampling import SAMPLED, a_missing_chunk, first_samples, unlisted

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from .regions import Region


class _Sides(Expectation):
    """What the second side must have: the values of the first one."""

    def unreadable(self, error: Exception, path: str, key: str, region: Region) -> Problem:
        """The problem for a region of the second archive that cannot be read."""
        if not isinstance(error, ZarrstackError):
            raise error
        return of_side("B", error.at(node=path, key=key).problem)

    def unreadable_source(self, problem: Problem) -> Problem:
        """The problem for an object of the first archive that cannot be read."""
        return of_side("A", problem)


def diff_archives(
    first: Side, second: Side, *, full: bool = False, progress: Progress | None = None
) -> ArchiveDiff:
    """Find the differences between two described archives; both are decoded by zarrlift.

    The comparison continues after differences and after what cannot be read. Memory is that of
    `verify_archives`.
    """
    sides = (first, second)
    comparison = _Comparison(sides, full, progress)
    if progress is not None:
        progress(Planned(bytes=None, chunks=None))
    for side in sides:
        wrong = [problem for problem in side.archive.problems if problem.severity == "refusal"]
        comparison.problems += [side.trouble(problem) for problem in wrong]
    if first.archive.consolidated != second.archive.consolidated:
        answers = ("yes" if side.archive.consolidated else "no" for side in sides)
        comparison.stored.append(_difference("", "consolidated metadata", *answers))
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8), thread_name_prefix="zarrlift-diff") as pool:
        for path in sorted({*first.raw, *second.raw}):
            comparison.compare(path, pool)
    return comparison.report()


def _difference(path: str, what: str, first: Any, second: Any, **more: Any) -> NodeDifference:
    texts = (None if side is None else str(side) for side in (first, second))
    one, other = (text if text is None or len(text) <= 1000 else text[:1000] + "..." for text in texts)
    return NodeDifference(node=path, what=what, first=one, second=other, **more)


@dataclass(slots=True)
class _Comparison:
    """The state of a comparison."""

    sides: tuple[Side, Side]
    full: bool
    progress: Progress | None
    differences: list[NodeDifference] = field(default_factory=list)
    stored: list[NodeDifference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    groups: int = 0
    arrays: int = 0
    chunks: int = 0
    bytes: int = 0
    compared: int = 0
    """Number of values that were compared."""
    values: int = 0
    """Number of values in objects that are stored on either side."""

    def compare(self, path: str, pool: ThreadPoolExecutor) -> None:
        """Compare the nodes at one path."""
        one, other = (side.raw.get(path) for side in self.sides)
        kinds = [node and ("array" if isinstance(node, ArrayNode) else "group") for node in (one, other)]
        if one is None or other is None or kinds[0] != kinds[1]:
            self.differences.append(_difference(path, "node", *kinds))
            return
        if may_need_conventions(one, other):
            one, other = (side.converted[path] for side in self.sides)
        if one.refused or other.refused:
            for side, node in zip(self.sides, (one, other), strict=True):
                wrong = [problem for problem in node.problems if problem.severity == "refusal"]
                self.problems += [side.trouble(problem, path) for problem in wrong[:MAX_LISTED]]
            return
        self.attributes(path, one, other)
        if not isinstance(one, ArrayNode) or not isinstance(other, ArrayNode):
            self.groups += 1
            return
        self.arrays += 1
        assert one.layout is not None
        assert other.layout is not None
        self.storage(path, one, other)
        if self.metadata(path, one.layout, other.layout):
            try:
                self.array(path, one.layout, other.layout, pool)
            except ZarrstackError as error:
                self.problems.append(error.at(node=path).problem)

    def attributes(self, path: str, one: Node, other: Node) -> None:
        """Compare attributes and dimension names; those that differ by a convention alone mean the same."""
        raw = [side.raw[path] for side in self.sides]
        differing = list(members(strict(dict(one.attributes)), strict(dict(other.attributes)), one, other))
        self.differences += [
            _difference(path, what, *sides, place=place) for what, place, *sides in differing
        ]
        if not differing:
            before = members(dict(raw[0].attributes), dict(raw[1].attributes), *raw)
            self.stored += [_difference(path, what, *sides, place=place) for what, place, *sides in before]

    def metadata(self, path: str, one: Layout, other: Layout) -> bool:
        """Compare what an array is; returns whether values can be compared."""
        if one.shape != other.shape:
            self.differences.append(_difference(path, "shape", list(one.shape), list(other.shape)))
            return False
        types = one.data_type, other.data_type
        # An array of objects may have the values of any array of variable length.
        if all(differing_types(a.name, a.numpy, b) for a, b in (types, types[::-1])):
            self.differences.append(_difference(path, "data type", *types))
            return False
        if "object" not in [VARIABLE.get(each.name) for each in types]:
            fills = [fill_of(layout.data_type, layout.fill_value) for layout in (one, other)]
            if (differs := mismatch(fills[1], fills[0])) is not None:
                self.differences.append(_difference(path, "fill value", differs.expected, differs.found))
        return True

    def storage(self, path: str, one: ArrayNode, other: ArrayNode) -> None:
        """Note what is stored differently."""
        for what, first, second in zip(STORED, stored_form(one), stored_form(other), strict=True):
            if first != second:
                self.stored.append(_difference(path, what, first, second))

    def array(self, path: str, one: Layout, other: Layout, pool: ThreadPoolExecutor) -> None:
        """Compare the values of an array; ZarrstackError if that is impossible."""
        first, second = self.sides
        if not one.grid.total:
            return
        result = DecodedResult(second.storage, path, other)
        values = ArrayValues(
            first.storage, one, result, allow_pickle=False, fill_is_null=False, expect=_Sides
        )
        wanted, stored = self.wanted(values, path, one, other)
        budget = memory_budget(None)
        compared = (
            values.whole(wanted, budget=budget, pool=pool) if self.full else values.objects(wanted, pool)
        )
        total = min(stored * prod(values.grid.chunk_shape), prod(one.shape))
        places: list[ValueDifference] = []
        count = read = unreadable = 0
        for part in compared:
            for problem in part.problems:
                if isinstance(problem, ValueProblem):
                    count += problem.count
                    if len(places) < MAX_LISTED:
                        at, sides = problem.index or (), (problem.expected or "", problem.found or "")
                        places.append(ValueDifference(index=at, first=sides[0], second=sides[1]))
                else:
                    unreadable += 1
                    if unreadable <= MAX_LISTED:
                        self.problems.append(problem)
            read += part.bytes
            self.chunks += part.regions
            self.bytes += part.bytes
            if self.progress is not None:
                self.progress(TaskDone(chunks=part.regions, bytes_in=part.bytes))
        if count:
            self.differences.append(
                NodeDifference(node=path, what="values", count=count, values=tuple(places))
            )
        self.values += total
        self.compared += total if self.full else min(read // max(result.dtype.itemsize, 1), total)

    def wanted(self, values: ArrayValues, path: str, one: Layout, other: Layout) -> tuple[Indexes, int]:
        """The objects of the second side that are compared, and the number of those stored on either side.

        For a sample, some of each kind, and those that look wrong or that only one side has.
        """
        grid, rng = values.grid, random.Random(path)
        if not values.listed:
            return unlisted(grid, rng, full=self.full), grid.total
        stored_by_side: list[Indexes] = []
        suspects: list[Indexes] = []
        for side, layout in zip(self.sides, (one, other), strict=True):
            listed = side.inventory(path, layout)
            for key, what in (*listed.bad_links, *listed.no_files):
                problem = refusal("chunk", "an object is not a regular file", key=key, found=what)
                self.problems.append(side.trouble(problem, path))
            empty = listed.indexes[:0] if listed.sizes is None else listed.indexes[listed.sizes == 0]
            for indexes, into in ((listed.indexes, stored_by_side), (empty, suspects)):
                same = layout is other or values.aligned
                into.append(indexes if same else touched(indexes, layout.objects, grid))
        stored = np.union1d(stored_by_side[0], stored_by_side[1])
        if self.full:
            return stored, len(stored)
        if values.aligned:
            suspects.append(np.setxor1d(stored_by_side[0], stored_by_side[1], assume_unique=True))
        some = first_samples(grid, stored, rng, random_inner_chunks=SAMPLED)
        some += a_missing_chunk(grid, stored, rng)
        return np.union1d(some, np.concatenate(suspects)[:SUSPECTS]).astype(np.int64), len(stored)

    def report(self) -> ArchiveDiff:
        """The differences as frozen data."""
        first, second = self.sides
        return ArchiveDiff(
            first=first.archive.url,
            second=second.archive.url,
            first_format=first.archive.format,
            second_format=second.archive.format,
            full=self.full,
            groups=self.groups,
            arrays=self.arrays,
            chunks=self.chunks,
            bytes=self.bytes,
            share=self.compared / self.values if self.values else 1.0,
            differences=tuple(self.differences),
            stored=tuple(self.stored),
            problems=tuple(self.problems),
        )

"""Compares two archives: structure, attributes, data types, fill values and values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Self

from zarrstack.core.errors import Problem, UsageError, ZarrstackError
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Archive, ArrayNode, GroupNode, Node
from ..archive.notebook import NotebookResult
from ..conventions.apply import ConventionChanges, apply_conventions
from ..core.node_paths import names_below
from ..core.problems import JoinedProblems, refusal
from ..errors import VerificationError
from ..planning.blocks import memory_budget
from ..recipe.recipe import Recipe
from ..storage.base import Storage
from ..storage.giving_up import Threads
from ..transfer.events import Planned, Progress, TaskDone
from ..transfer.extra_files import difference
from .listed_objects import Listings
from .nodes import ArrayComparison, Differences, compare_attributes
from .ome import images
from .passed_through import Compared, compare_node
from .zarr_python_reader import ResultNode, consolidated_problems, find_nodes, node_problem

if TYPE_CHECKING:
    from .elsewhere import Elsewhere


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerificationReport(NotebookResult):
    """The differences between two archives, and the extent of the comparison.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> report = zarrlift.verify("new.zarr")
    >>> report.ok, report.differences
    (True, ())
    """

    source: str
    destination: str
    full: bool
    """Whether every value was compared, rather than a sample of chunks."""
    groups: int = 0
    """Groups present on both sides."""
    arrays: int = 0
    """Arrays present on both sides."""
    chunks: int = 0
    """Chunks, or blocks of them, whose values were compared."""
    bytes: int = 0
    """Decoded bytes compared."""
    share: float = 1.0
    """Compared values, of those in objects that are stored on either side; from 0 to 1."""
    listed: bool = True
    """Whether the names and sizes of all objects were compared."""
    differences: tuple[tuple[str, int], ...] = ()
    """(node, number of differences) of nodes that differ; `problems` contains the first ones of each."""
    problems: tuple[Problem, ...] = ()
    """Differences with node, key, the value found in the destination and the expected one.

    A note says why the job could not record the result; a warning names a chunk that some readers refuse.
    """

    def __repr__(self) -> str:
        many = sum(count for _, count in self.differences)
        result = "equal" if self.ok else f"{many} differences at {len(self.differences)} nodes"
        counts = f"{self.arrays} arrays, {self.groups} groups, {self.chunks} chunks compared"
        return f"<VerificationReport {self.source!r} and {self.destination!r}: {result}; {counts}>"

    @property
    def ok(self) -> bool:
        """Whether there are no differences."""
        return not self.differences

    def raise_for_problems(self) -> Self:
        """This report if it is `ok`; otherwise VerificationError with the first differences of each node."""
        if self.ok:
            return self
        differences = [problem for problem in self.problems if problem.severity == "refusal"]
        raise VerificationError(JoinedProblems.of(differences, before=f"{self.source} differs; "))

    @property
    def counts(self) -> Mapping[str, int]:
        """The extent of the comparison, for people."""
        return {"arrays": self.arrays, "groups": self.groups, "chunks": self.chunks, "bytes": self.bytes}

    def with_problems(self, problems: Sequence[Problem]) -> VerificationReport:
        """The same report with further differences, one for each problem."""
        counts = dict(self.differences)
        for problem in problems:
            counts[problem.node or ""] = counts.get(problem.node or "", 0) + 1
        return replace(self, differences=tuple(sorted(counts.items())), problems=(*self.problems, *problems))

    def to_json(self) -> JSONObject:
        """JSON for machines; member names are stable."""
        return {
            "source": self.source,
            "destination": self.destination,
            "full": self.full,
            "ok": self.ok,
            "listed": self.listed,
            "share": self.share,
            "compared": dict(self.counts),
            "differences": dict(self.differences),
            "problems": [problem.to_json() for problem in self.problems],
        }


def verify_archives(
    archive: Archive,
    source: Storage,
    destination: Storage,
    *,
    full: bool = False,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    elsewhere: Elsewhere | None = None,
    listings: Listings | None = None,
) -> VerificationReport:
    """Find every difference between a described archive and its v3 counterpart.

    The source's values are decoded by zarrlift as `archive` describes them, the destination is read by
    zarr-python. Names and sizes of all objects are compared first. `recipe` defines the requested changes (a
    cast, attributes or conventions kept, nodes left out). The comparison continues after differences, and an
    unreadable chunk is a difference. In place, both storages are the same.

    Memory: a few blocks of 16 MB, or of one chunk if that is larger, for each thread. For a full comparison
    of an array, the recipe's `memory` as for the migration, or what one thread needs if that is more.
    `elsewhere`: where a full comparison reads the values; WorkerError or BrokenExecutor if it is gone.
    `listings`: whether and how objects are listed, and what is known of the job that made the result.
    """
    wanted = Recipe() if recipe is None else recipe
    paths = [node.path for node in archive.nodes]
    results = find_nodes(
        destination, paths, strict_json=lambda path: wanted.for_array(path).attributes == "strict"
    )
    if not results and destination.can_list and destination.is_empty():
        raise UsageError(
            f"there is no result to compare: {destination.url} is empty",
            expected="the source first, then its result",
        )
    needed = wanted.needed(paths)
    applied = apply_conventions(archive, source, wanted)
    listings = replace(listings or Listings(), children=names_below(paths))
    comparison = _Comparison(
        source, destination, wanted, applied, needed, full, progress, elsewhere, listings
    )
    if progress is not None:
        progress(Planned(bytes=sum(map(_size, archive.nodes)) if full else None, chunks=None))
    threads = threads or min(os.cpu_count() or 1, 8)
    with Threads(threads, "zarrlift-verify") as pool:
        for node in map(applied.described, archive.nodes):
            before = comparison.bytes
            comparison.compare(node, results.get(node.path), pool)
            if progress is not None and full:  # unstored or incomparable parts count as done
                rest = max(_size(node) - (comparison.bytes - before), 0)
                progress(TaskDone(chunks=0, bytes_in=rest))
    comparison.files()
    nodes = {node.path: node for node in archive.nodes}
    comparison.unexpected(results, nodes)
    for path, (what, mine, theirs) in images(nodes, results, wanted):
        differs = f"the {what} of an image differs"
        comparison.add(path, [node_problem(path, differs, mine, theirs, kind="verify-attributes")])
    consolidate = archive.consolidated if wanted.consolidate is None else wanted.consolidate
    comparison.add("", consolidated_problems(results, wanted=consolidate and destination.holds_consolidated))
    return comparison.report(archive.url, destination.url)


@dataclass(slots=True)
class _Comparison:
    """The state of a comparison of two archives."""

    source: Storage
    destination: Storage
    recipe: Recipe
    applied: ConventionChanges
    needed: frozenset[str]
    """Paths of selected nodes, and of the groups above them."""
    full: bool
    progress: Progress | None
    elsewhere: Elsewhere | None
    listings: Listings
    compared: int = 0
    """Number of values that were compared."""
    values: int = 0
    """Number of values in objects that are stored on either side."""
    arrays: int = 0
    groups: int = 0
    chunks: int = 0
    bytes: int = 0
    differences: dict[str, Differences] = field(default_factory=dict)

    def add(self, path: str, problems: list[Problem]) -> None:
        """Record differences of one node."""
        if problems:
            self.differences.setdefault(path, Differences(path)).add(problems)

    def differ(self, path: str, message: str, found: str, expected: str, *, key: str | None = None) -> None:
        """Record a difference in the structure; `key` is the node's document by default."""
        problem = node_problem(path, message, found, expected, kind="verify-structure")
        self.add(path, [problem if key is None else replace(problem, key=key)])

    def count(self, chunks: int, read: int) -> None:
        """Record compared chunks and bytes."""
        self.chunks += chunks
        self.bytes += read
        if self.progress is not None:
            self.progress(TaskDone(chunks=chunks, bytes_in=read))

    def compare(self, node: Node, result: ResultNode | None, pool: ThreadPoolExecutor) -> None:
        """Compare one node of the source with the node at the same path in the destination."""
        path = node.path
        if path not in self.needed:
            if result is not None and not self.in_place:
                self.differ(path, "a node that the recipe excludes exists", "a node", "none")
            return
        kind = "an array" if isinstance(node, ArrayNode) else "a group"
        problems = (*node.problems, *self.applied.problems_of(path))
        reasons = [problem for problem in problems if problem.severity == "refusal"]
        if node.refused or reasons:
            reason = str(reasons[0]) if reasons else None
            found = "nothing" if result is None else "a node"
            message = f"{kind} that cannot be migrated is not compared"
            self.add(path, [refusal("verify-refused", message, node=path, found=found, expected=reason)])
            return
        if result is None:
            self.differ(path, "a node is missing", "nothing", kind)
            return
        if isinstance(node, ArrayNode) and node.passed is not None:
            self.arrays += 1
            self.compare_bytes(node)
            return
        if result.problems:
            self.add(path, list(result.problems))
            return
        if result.is_array != isinstance(node, ArrayNode):
            other = "an array" if result.is_array else "a group"
            self.differ(path, "a node is of another kind", other, kind)
            return
        if isinstance(node, GroupNode):
            self.groups += 1
            differences = Differences(path)
            change = self.applied.change(path)
            compare_attributes(differences, node, result, change, self.recipe.for_array(path))
            self.keep(differences)
            return
        self.arrays += 1
        array = ArrayComparison(self.source, node, self.destination, result, self.recipe.for_array(path))
        if array.compare_metadata(self.applied.change(path)):
            share = array.compare_values(
                full=self.full,
                pool=pool,
                budget=memory_budget(self.recipe.memory),
                count=self.count,
                listings=self.listings,
                elsewhere=self.elsewhere,
            )
            self.compared += share.compared
            self.values += share.total
        self.keep(array.differences)

    def compare_bytes(self, node: ArrayNode) -> None:
        """Compare an array that is passed through."""
        try:
            found = compare_node(node, self.source, self.destination, self.listings, full=self.full)
        except ZarrstackError as error:
            found = Compared([error.at(node=node.path).problem])
        self.add(node.path, found.problems)
        self.count(found.objects, found.bytes)

    def files(self) -> None:
        """Compare the extra files copied with groups, byte by byte."""
        for path, keys in self.applied.files.items():
            if self.in_place or path not in self.needed:
                continue
            for key in keys:
                if (found := difference(self.source, self.destination, key)) is not None:
                    self.differ(path, "a copied file differs", found, "the source's", key=key)

    def keep(self, differences: Differences) -> None:
        """Record a node's differences and warnings, if any."""
        if differences.listed:
            self.differences[differences.node] = differences

    @property
    def in_place(self) -> bool:
        """Whether both sides are the same place."""
        return self.source.url == self.destination.url

    def unexpected(self, results: Mapping[str, ResultNode], nodes: Mapping[str, Node]) -> None:
        """Record nodes of the destination that the source does not have."""
        for path in results:
            if path not in nodes:
                message = "a node does not exist in the source"
                self.differ(path, message, "a node", "none")

    def report(self, source: str, destination: str) -> VerificationReport:
        """The report as frozen data."""
        ordered = [self.differences[path] for path in sorted(self.differences)]
        return VerificationReport(
            source=source,
            destination=destination,
            full=self.full,
            arrays=self.arrays,
            groups=self.groups,
            chunks=self.chunks,
            bytes=self.bytes,
            share=self.compared / self.values if self.values else 1.0,
            listed=self.listings.lists,
            differences=tuple((item.node, item.count) for item in ordered if item.count),
            problems=tuple(problem for item in ordered for problem in item.listed),
        )


def _size(node: Node) -> int:
    """Decoded bytes of an array; 0 if unknown."""
    if not isinstance(node, ArrayNode) or node.layout is None:
        return 0
    return prod(node.layout.shape) * (node.layout.data_type.itemsize or 0)

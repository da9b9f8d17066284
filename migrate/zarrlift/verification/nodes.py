"""Compares one node of two archives from the stored data of both, independent of any plan.

Attributes are checked in three ways, of which the second and third are independent of the code that makes the
changes. The conventions are applied again to the unchanged source. Every value in the source's attributes is
searched for in the result. `conventions` checks the requirements of zarrlift's own conventions against the
result's document.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import isfinite, isnan, prod
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, canonical

from ..archive.nodes import ArrayNode, Layout, Node
from ..conventions import Change
from ..core.data_types.v3 import DataType
from ..planning.chunk_checks import explain_pointer
from ..recipe.recipe import ArrayRecipe
from ..storage.base import Storage
from .array_values import ArrayValues, ComparedArray
from .conventions import findings
from .documents import VARIABLE, fill_difference, lost_values, named, type_difference
from .listed_objects import Listings, compare_objects
from .sampling import SAMPLED, a_missing_chunk, first_samples, unlisted
from .zarr_python_reader import ResultNode, data_type_name, native, node_problem

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from .elsewhere import Elsewhere


MAX_LISTED: Final = 20
"""Maximum number of differences listed per node; all are counted."""


@dataclass(slots=True)
class Differences:
    """The first differences of one node, with warnings, and the total number of differences."""

    node: str
    listed: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems."""
        for problem in problems:
            is_difference = problem.severity != "warning"
            self.count += is_difference
            if (self.count <= MAX_LISTED) if is_difference else (len(self.listed) < MAX_LISTED):
                self.listed.append(problem.at(node=self.node))

    def say(self, what: str, found: object, expected: object, *, kind: str = "verify-metadata") -> None:
        """Add one difference in the node's document."""
        message = f"the {what} differs"
        self.add([node_problem(self.node, message, str(found), str(expected), kind=kind)])


def compare_attributes(
    differences: Differences, node: Node, result: ResultNode, change: Change, recipe: ArrayRecipe
) -> None:
    """Compare attributes after the changes made by strict JSON and conventions.

    `change` is the conventions' result for the source. If they change the node, every value of the source's
    attributes is also searched for in the result, and the requirements of zarrlift's own conventions are
    checked.
    """
    expected = dict(node.attributes if change.attributes is None else change.attributes)
    source = dict(node.attributes)
    if recipe.attributes == "strict":
        expected, source = strict(expected), strict(source)
    for name in sorted(result.attributes.keys() | expected.keys()):
        sides = result.attributes, expected
        mine, theirs = (canonical(each[name]) if name in each else "nothing" for each in sides)
        if mine != theirs:
            differences.say(f"attribute {name!r}", mine, theirs, kind="verify-attributes")
    if change.attributes is not None:
        labels = None
        if isinstance(node, ArrayNode) and node.layout is not None and result.metadata is not None:
            labels = list(result.metadata.dimension_names or [None] * len(node.layout.shape))
        for place, text in lost_values(source, result.attributes, labels, change.replaced):
            differences.say(
                f"attribute at {place}", "nothing that holds its value", text, kind="verify-attributes"
            )
    for what, mine, theirs in findings(node, result, recipe):
        differences.say(what, mine, theirs, kind="verify-attributes")


def strict(value: JSON) -> JSON:
    """A JSON value with non-finite numbers as the strings "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    return value


Count = Callable[[int, int], None]


class Coverage(NamedTuple):
    """How many of an array's values were compared."""

    compared: int
    total: int
    """Values in objects that are stored on either side, as far as that is known."""


class ArrayComparison:
    """The comparison of one array by `verify`.

    Metadata first; values only if shape and data type allow it.
    """

    def __init__(
        self,
        source: Storage,
        node: ArrayNode,
        destination: Storage,
        result: ResultNode,
        recipe: ArrayRecipe,
    ) -> None:
        layout = node.layout_with(recipe.zero_fill)
        assert layout is not None
        assert result.metadata is not None
        self.path = node.path
        self.layout: Layout = layout
        self.fill_is_open = node.number_as_text is not None and recipe.zero_fill is None
        """Whether the recipe leaves the meaning of the fill value open."""
        self.metadata = result.metadata
        self.node = node
        self.result = result
        self.recipe = recipe
        self.source = source
        self.destination = destination
        self.differences = Differences(node.path)

    def compare_metadata(self, change: Change) -> bool:
        """Compare everything except values; returns whether values can be compared."""
        say = self.differences.say
        compare_attributes(self.differences, self.node, self.result, change, self.recipe)
        names = self.layout.dimension_names if change.dimension_names is None else change.dimension_names
        mine = self.metadata.dimension_names
        if named(mine) != named(names):
            say("list of dimension names", named(mine), named(names))
        if tuple(self.metadata.shape) != self.layout.shape:
            say("shape", list(self.metadata.shape), list(self.layout.shape))
            return False
        wanted = self._wanted_type()
        if differs := type_difference(self.metadata, wanted):
            say("data type", *differs)
            return False
        if (
            wanted == self.layout.data_type
            and not self.fill_is_open
            and (differs := fill_difference(self.metadata, wanted, self.layout.fill_value))
        ):
            say("fill value", *differs)
        return True

    def _wanted_type(self) -> DataType:
        """The expected data type: the source's, or the result of the recipe."""
        if self.recipe.dtype is not None:
            return self.recipe.dtype
        source = self.layout.data_type
        if VARIABLE.get(source.name) == "object":
            # Values that are all str become `string`; others are JSON texts on request.
            return DataType(data_type_name(self.metadata))
        return source

    def compare_values(
        self,
        *,
        full: bool,
        pool: ThreadPoolExecutor,
        budget: int,
        count: Count,
        listings: Listings,
        elsewhere: Elsewhere | None = None,
    ) -> Coverage:
        """Compare names and sizes, then values region by region; `count` receives (chunks, decoded bytes).

        `budget` is the process's memory limit in bytes for a full comparison; `elsewhere` where it takes
        place, if not in the pool. Returns how many values were compared.
        """
        if not self.layout.grid.total:
            return Coverage(0, 0)
        try:
            array = ComparedArray(
                path=self.path,
                layout=self.layout,
                document=self.result.document,
                values=self.recipe.values,
                fill_is_null=self.node.fill_is_null or self.fill_is_open,
                names_streams=full,
            )
            values = ArrayValues(array, self.source, self.destination, metadata=self.metadata)
            wanted, stored = self._wanted(values, listings, full=full)
        except ZarrstackError as error:
            self.differences.add([error.problem])
            return Coverage(0, prod(self.layout.shape))
        if not full:
            comparisons = values.objects(wanted, pool)
        elif elsewhere is None:
            comparisons = values.whole(wanted, budget=budget, pool=pool)
        else:
            comparisons = elsewhere.whole(values, wanted)
        read = 0
        for compared in comparisons:
            self.differences.add(explain_pointer(problem, self.source) for problem in compared.problems)
            count(compared.regions, compared.bytes)
            read += compared.bytes
        # Full: values that are stored on neither side are equal by definition.
        total = min(stored * prod(values.grid.chunk_shape), prod(self.layout.shape))
        return Coverage(total if full else min(read // max(native(self.metadata).itemsize, 1), total), total)

    def _wanted(self, values: ArrayValues, listings: Listings, *, full: bool) -> tuple[Indexes, int]:
        """The objects whose values are compared, and the number of those that are stored on either side.

        For a sample, all suspects, some others and one that is not stored.
        """
        grid, rng = values.grid, random.Random(self.path)
        if not values.listed or not listings.lists:
            planned = listings.planned(self.path) if values.aligned else None
            if planned is not None and not full:
                some = first_samples(grid, planned.indexes, rng, random_inner_chunks=SAMPLED)
                return np.unique(some).astype(np.int64), len(planned.indexes)
            return unlisted(grid, rng, full=full), grid.total
        source = listings.source(self.source, self.path, self.layout)
        listed = compare_objects(
            values,
            source,
            self.destination,
            self.result,
            self.recipe,
            by_job=listings.by_job,
            in_place=self.source.url == self.destination.url,
            most=MAX_LISTED,
        )
        self.differences.add(listed.problems)
        self.differences.count += listed.count - len(listed.problems)
        self.differences.add(listings.changes(self.path, source))
        if full:
            return listed.unnamed, len(listed.stored)
        some = first_samples(grid, listed.unnamed, rng, random_inner_chunks=SAMPLED)
        some += a_missing_chunk(grid, listed.stored, rng)
        return np.union1d(some, listed.suspects).astype(np.int64), len(listed.stored)

"""Compares some objects of a job before their array is published: our decoder against zarr-python's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError, refusal

from ..archive.decoder import ObjectDecoder, object_decoder
from ..archive.nodes import Layout
from ..core.data_types.compare import (
    Values,
    kind,
    matches_json_text,
    mismatch,
    part_of,
    region_text,
    shown,
)
from ..core.data_types.object_values import may_be_anything
from ..core.data_types.v3 import fill_from_json
from ..core.grid.frames import Shards
from ..core.grid.overlap import touching
from ..core.grid.overlap import within as inner_chunks_within
from ..storage.base import Storage
from ..transfer.inner_chunks import inner_chunks
from ..transfer.stored_chunks import MissingObject
from .documents import VARIABLE, scalar_array
from .regions import Region, first_coordinates, intersection
from .sampling import object_bytes, read_bytes
from .zarr_python_reader import open_array, parse, read_regions, reading_store, words

if TYPE_CHECKING:
    from zarr import Array

    from ..archive.chunk_inventory import Indexes
    from ..core.data_types.cast import Casting
    from ..planning.plans import ArrayPlan

_BATCH_BYTES: Final = 8 << 20
"""Decoded bytes of the destination in one batch, unless one object is larger."""
_AT_ONCE: Final = 2
"""Number of batches that are compared together: the workers have nothing left to do meanwhile."""
_WHOLE_BYTES: Final = 32 << 20
"""Maximum of decoded bytes for a shard to be compared as a whole."""
KeyOf: TypeAlias = Callable[[tuple[int, ...]], str]
"""Gives the key of the destination's object that contains the element at given coordinates."""
_INNER_CHUNKS: Final = 4
"""Number of inner chunks compared in a larger shard."""


class SourceObjects:
    """The stored objects of one array in the source, decoded by zarrlift."""

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.layout = layout
        self.grid = layout.objects
        self._allow_pickle = allow_pickle
        self._stored = inner_chunks(storage, path, layout, allow_pickle=allow_pickle)
        self._fill = scalar_array(fill_from_json(layout.fill_value, layout.data_type), layout.data_type.numpy)

    @cached_property
    def _decoder(self) -> ObjectDecoder:
        # An array without chunks may have codecs that no decoder can be built for.
        return object_decoder(self.layout, allow_pickle=self._allow_pickle)

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The storage key of an object."""
        return self.layout.key(self.path, coordinates)

    def read(self, coordinates: tuple[int, ...]) -> Values | None:
        """An object's values within the array, or None if it is missing; ChunkError, StorageError."""
        data = self.storage.get(self.key(coordinates), self._stored.bound)
        if data is None:
            return None
        return part_of(self._decoder.decode(data), self.grid.valid(coordinates))

    def pieces(self, coordinates: tuple[int, ...]) -> list[tuple[tuple[slice, ...], Values | None]]:
        """Regions of an object with their values: all of it, or a few inner chunks of a large shard."""
        frame, grid = self.layout.frame, self.layout.grid
        if not isinstance(frame, Shards) or object_bytes(self.layout) <= _WHOLE_BYTES:
            return [(self.grid.region(coordinates), self.read(coordinates))]
        numbers = touching(coordinates, self.grid, grid)
        wanted = np.unique(numbers[np.linspace(0, len(numbers) - 1, _INNER_CHUNKS).astype(np.int64)])
        inner_chunks = self._inner_chunks(coordinates, wanted)
        return [(grid.region(grid.coordinates(number)), values) for number, values in inner_chunks]

    def overlapping(
        self, coordinates: tuple[int, ...], region: Region
    ) -> Iterator[tuple[Region, Values | None]]:
        """Regions of one object that overlap `region`, with their values: None for a missing part.

        In a shard, only the overlapping inner chunks are decoded. ChunkError, StorageError.
        """
        if not isinstance(self.layout.frame, Shards):
            yield self.grid.region(coordinates), self.read(coordinates)
            return
        grid, whole = self.layout.grid, self.grid.region(coordinates)
        wanted = inner_chunks_within(intersection(region, whole), grid)
        missing = set(wanted.tolist())
        try:
            for number, values in self._inner_chunks(coordinates, wanted):
                missing.remove(number)
                yield grid.region(grid.coordinates(number)), values
        except MissingObject:
            pass
        for number in sorted(missing):
            yield grid.region(grid.coordinates(number)), None

    def _inner_chunks(self, coordinates: tuple[int, ...], wanted: Indexes) -> Iterator[tuple[int, Values]]:
        """(linear index, values within the array) of those inner chunks of a shard that exist."""
        grid = self.layout.grid
        for chunk in self._stored.stored(self.grid.index(coordinates) or 0, wanted):
            try:
                values = self._stored.decode(chunk)
            except ZarrstackError as error:
                raise self._stored.with_position(error, chunk.number) from error
            yield chunk.number, part_of(values, grid.valid(grid.coordinates(chunk.number)))

    def fill(self, shape: tuple[int, ...]) -> Values:
        """The values of a missing chunk."""
        return np.broadcast_to(self._fill, shape)


def compare_chunks(
    plan: ArrayPlan, source: Storage, destination: Storage, indexes: Sequence[int]
) -> tuple[Problem, ...]:
    """Differences in the chunks with these linear indexes; empty if none.

    The source is decoded by zarrlift. The destination is read by zarr-python through an array made from
    `plan.document` in memory, because its `zarr.json` is not written yet. Values are compared bit by bit,
    after the cast that the recipe requests. A chunk missing in the source must read as its fill value and
    must not be stored in the destination; if the source defines no fill value, only its absence is checked.
    An unreadable chunk on either side is a problem, not an exception.
    """
    if not indexes:
        return ()
    try:
        inner_chunks = SourceObjects(source, plan.path, plan.source, allow_pickle=plan.move.allow_pickle)
        array = open_array(parse(plan.document), reading_store(destination), plan.path)
    except ZarrstackError as error:
        return (error.at(node=plan.path).problem,)
    expect = Expectation(
        plan.source,
        plan.destination.data_type.name,
        plan.destination.data_type.numpy,
        casting=plan.move.casting,
        objects=plan.move.objects,
    )
    places = [plan.source.objects.coordinates(index) for index in indexes]
    batches = _batches(places, read_bytes(plan))
    comparison = _Comparison(plan, inner_chunks, destination, array, expect)
    if len(batches) == 1:
        return tuple(comparison(batches[0]))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="zarrlift-sample") as threads:
        return tuple(chain.from_iterable(threads.map(comparison, batches)))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares batches of objects of one array; thread-safe."""

    plan: ArrayPlan
    source: SourceObjects
    destination: Storage
    array: Array[Any]
    expect: Expectation

    def __call__(self, places: Sequence[tuple[int, ...]]) -> list[Problem]:
        """Differences in the objects at these positions of the source's grid."""
        problems: list[Problem] = []
        sources: list[tuple[tuple[int, ...], Region, Values | None]] = []
        for place in places:
            # Our decoder comes first: it is bounded, and a payload that it refuses is not passed to
            # zarr-python.
            try:
                sources += [(place, region, values) for region, values in self.source.pieces(place)]
            except ZarrstackError as error:
                problems.append(self._problem(error, place))
        read = read_regions(self.array, [region for _, region, _ in sources])
        for (place, region, values), found in zip(sources, read, strict=True):
            try:
                problems += self._piece(region, values, found)
            except ZarrstackError as error:
                problems.append(self._problem(error, place))
        return problems

    def _piece(self, region: Region, values: Values | None, found: Values | Exception) -> list[Problem]:
        plan = self.plan
        if values is None:
            if plan.fill_is_null:
                return []
            key = self._key(first_coordinates(region))
            one_to_one = plan.source.object_shape == plan.destination.object_shape
            if one_to_one and self.destination.size(key) is not None:
                return [value_problem(plan.path, key, region, "a stored chunk", "none, as in the source")]
            shape = tuple(axis.stop - axis.start for axis in region)
            values = self.expect.missing(self.source.fill(shape))
        return self.expect.compare(found, values, plan.path, self._key, region)

    def _problem(self, error: ZarrstackError, place: tuple[int, ...]) -> Problem:
        return error.at(node=self.plan.path, key=self.source.key(place)).problem

    def _key(self, element: tuple[int, ...]) -> str:
        """The key of the destination's object that contains an element."""
        layout = self.plan.destination
        place = tuple(at // length for at, length in zip(element, layout.object_shape, strict=True))
        return layout.key(self.plan.path, place)


def _batches(places: list[tuple[int, ...]], each: int) -> list[list[tuple[int, ...]]]:
    """Split places into batches of limited size, at `each` bytes per place."""
    step = max(_BATCH_BYTES // max(each, 1), 1)
    return [places[start : start + step] for start in range(0, len(places), step)]


class Expectation:
    """The values to be found for given source values, after the changes of the recipe."""

    def __init__(
        self,
        layout: Layout,
        target_name: str,
        target: np.dtype[Any],
        *,
        casting: Casting,
        objects: Literal["refuse", "json"],
    ) -> None:
        source = layout.data_type
        self._tagged = may_be_anything(layout.chain.codecs[layout.chain.middle].name)
        mine, theirs = VARIABLE.get(source.name), VARIABLE.get(target_name)
        to_text = theirs == "string" and mine != "string"
        self._texts = to_text and objects == "json"
        self._blank = to_text and objects != "json"
        self._casting: Casting | None = casting
        if to_text or (mine is not None and mine == theirs) or kind(source.numpy) == kind(target):
            self._casting = None
        self._target = target

    def missing(self, fill: Values) -> Values:
        """The expected values of a missing chunk with this fill value.

        Object arrays without a fill value have 0, which is not text and becomes the empty string.
        """
        if self._blank and fill.size and not isinstance(fill.flat[0], str):
            return np.broadcast_to(np.array("", dtype=object), fill.shape)
        return fill

    def compare(
        self, found: Values | Exception, values: Values, path: str, key: KeyOf, region: Region
    ) -> list[Problem]:
        """Compare found with source values; returns no problem or one."""
        if isinstance(found, Exception):
            return [
                refusal(
                    "verify-unreadable",
                    f"zarr-python cannot read {region_text(region)}",
                    node=path,
                    key=key(first_coordinates(region)),
                    found=words(found),
                )
            ]
        if self._texts:
            return self._compare_texts(found, values, path, key(first_coordinates(region)), region)
        if self._casting is not None:
            from ..core.data_types.cast import cast

            try:
                values = cast(values, self._target, self._casting)
            except ZarrstackError as error:
                return [error.at(node=path, key=key(first_coordinates(region))).problem]
        differs = mismatch(found, values)
        if differs is None:
            return []
        if len(differs.index) != len(region):  # shapes or types differ
            return [
                value_problem(path, key(first_coordinates(region)), region, differs.found, differs.expected)
            ]
        place = tuple(axis.start + offset for axis, offset in zip(region, differs.index, strict=True))
        where = f"at {list(place)}"
        if differs.count > 1:
            where = f"{differs.count} of them, first {where}"
        return [value_problem(path, key(place), region, differs.found, differs.expected, where)]

    def _compare_texts(
        self, found: Values, values: Values, path: str, key: str, region: tuple[slice, ...]
    ) -> list[Problem]:
        """Compare for `--set objects=json`, which stores every value as its JSON text."""
        texts = found.astype(object).reshape(-1)
        wrong = [
            (text, value)
            for text, value in zip(texts, values.reshape(-1), strict=True)
            if not matches_json_text(text, value, tagged=self._tagged)
        ]
        if not wrong:
            return []
        text, value = wrong[0]
        where = f"in {len(wrong)} places"
        return [value_problem(path, key, region, shown(text), f"JSON text of {shown(value)}", where)]


def value_problem(
    path: str, key: str, region: tuple[slice, ...], found: str, expected: str, where: str = ""
) -> Problem:
    """The problem for a region whose values differ."""
    place = f" ({where})" if where else ""
    return refusal(
        "verify-values",
        f"values differ in {region_text(region)}{place}",
        node=path,
        key=key,
        found=found,
        expected=expected,
    )

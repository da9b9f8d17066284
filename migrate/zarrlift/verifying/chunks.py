"""Objects of a job, compared before their array appears: our decoder against zarr-python's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from zarrstack.core.dtypes import DataType, fill_from_json
from zarrstack.core.errors import Problem, ZarrstackError

from ..archive import Layout
from ..storage import Storage
from ..stored import object_decoder
from .documents import VARIABLE, scalar_array
from .parsing import open_array, parse, read_regions, reading_store, words
from .values import Values, kind, matches_json_text, mismatch, part_of, region_text, shown

if TYPE_CHECKING:
    from ..plans import ArrayPlan
    from ..recipe import Casting

_BATCH_BYTES: Final = 32 << 20
"""Decoded bytes of the destination in memory at a time."""


class SourceObjects:
    """The stored objects of one array in the source, decoded by our own code."""

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.layout = layout
        self.grid = layout.objects
        self._decoder = object_decoder(layout, allow_pickle=allow_pickle)
        self._fill = scalar_array(fill_from_json(layout.fill_value, layout.data_type), layout.data_type.numpy)

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The storage key of an object."""
        return self.layout.key(self.path, coordinates)

    def read(self, coordinates: tuple[int, ...]) -> Values | None:
        """An object's values inside the array, or None if it is missing; ChunkError, StorageError."""
        data = self.storage.get(self.key(coordinates))
        if data is None:
            return None
        return part_of(self._decoder.decode(data), self.grid.valid(coordinates))

    def fill(self, shape: tuple[int, ...]) -> Values:
        """What a missing chunk reads as."""
        return np.broadcast_to(self._fill, shape)


def compare_chunks(
    plan: ArrayPlan, source: Storage, destination: Storage, indexes: Sequence[int]
) -> tuple[Problem, ...]:
    """What differs in the chunks with these linear indexes; empty if nothing does.

    The source is decoded by our pipeline. The destination is read by zarr-python through an
    array made from `plan.document` in memory, since its `zarr.json` is not written yet. Values are
    compared bit for bit, after the cast the recipe asks for. A chunk that is missing in the
    source must read as its fill value and must not be stored in the destination; where the source
    defines no fill value only its absence is looked at. A chunk that cannot be read on either
    side is a problem, not an exception.
    """
    if not indexes:
        return ()
    try:
        leaves = SourceObjects(source, plan.path, plan.source, allow_pickle=plan.move.allow_pickle)
        array = open_array(parse(plan.document), reading_store(destination), plan.path)
    except ZarrstackError as error:
        return (error.at(node=plan.path).problem,)
    expect = Expectation(
        plan.source.data_type,
        plan.destination.data_type.name,
        plan.destination.data_type.numpy,
        casting=plan.move.casting,
        objects=plan.move.objects,
    )
    one_to_one = plan.source.object_shape == plan.destination.object_shape
    problems: list[Problem] = []
    places = [plan.source.objects.coordinates(index) for index in indexes]
    for batch in _batches(places, plan.source):
        sources: dict[tuple[int, ...], Values | None] = {}
        for place in batch:
            # Ours come first: they are bounded, and a payload that we refuse is shown to nobody else.
            try:
                sources[place] = leaves.read(place)
            except ZarrstackError as error:
                problems.append(error.at(node=plan.path, key=leaves.key(place)).problem)
        regions = [plan.source.objects.region(place) for place in sources]
        for place, region, found in zip(sources, regions, read_regions(array, regions), strict=True):
            # The object that the region begins in.
            key = plan.destination.key(plan.path, _object_at(plan.destination, region))
            values = sources[place]
            try:
                if values is None and plan.fill_is_null:
                    continue
                if values is None and one_to_one and destination.get(key) is not None:
                    problems.append(
                        _problem(plan.path, key, region, "a stored chunk", "none, as in the source")
                    )
                    continue
                if values is None:
                    shape = tuple(axis.stop - axis.start for axis in region)
                    values = leaves.fill(shape)
            except ZarrstackError as error:
                problems.append(error.at(node=plan.path, key=leaves.key(place)).problem)
                continue
            problems += expect.compare(found, values, plan.path, key, region)
    return tuple(problems)


def _object_at(layout: Layout, region: tuple[slice, ...]) -> tuple[int, ...]:
    """Place of the object in which a region begins."""
    return tuple(axis.start // length for axis, length in zip(region, layout.object_shape, strict=True))


def _batches(places: list[tuple[int, ...]], layout: Layout) -> list[list[tuple[int, ...]]]:
    items = int(np.prod(layout.object_shape, dtype=object))
    step = max(_BATCH_BYTES // max(items * (layout.data_type.itemsize or 16), 1), 1)
    return [places[start : start + step] for start in range(0, len(places), step)]


class Expectation:
    """What source values must be found as, given what the recipe asks for."""

    def __init__(
        self,
        source: DataType,
        target_name: str,
        target: np.dtype[Any],
        *,
        casting: Casting,
        objects: Literal["refuse", "json"],
    ) -> None:
        mine, theirs = VARIABLE.get(source.name), VARIABLE.get(target_name)
        to_text = theirs == "string" and mine != "string"
        self._texts = to_text and objects == "json"
        self._casting: Casting | None = casting
        if to_text or (mine is not None and mine == theirs) or kind(source.numpy) == kind(target):
            self._casting = None
        self._target = target

    def compare(
        self, found: Values | Exception, values: Values, path: str, key: str, region: tuple[slice, ...]
    ) -> list[Problem]:
        """What is wrong with what was found for source values; nothing, or one problem."""
        if isinstance(found, Exception):
            return [
                Problem(
                    kind="verify-unreadable",
                    message=f"zarr-python cannot read {region_text(region)}",
                    node=path,
                    key=key,
                    found=words(found),
                )
            ]
        if self._texts:
            return _compare_texts(found, values, path, key, region)
        if self._casting is not None:
            from ..casting import cast

            try:
                values = cast(values, self._target, self._casting)
            except ZarrstackError as error:
                return [error.at(node=path, key=key).problem]
        differs = mismatch(found, values)
        if differs is None:
            return []
        place = tuple(axis.start + offset for axis, offset in zip(region, differs.index, strict=False))
        where = f"at {list(place)}"
        if differs.count > 1:
            where = f"{differs.count} of them, first {where}"
        return [_problem(path, key, region, differs.found, differs.expected, where)]


def _compare_texts(
    found: Values, values: Values, path: str, key: str, region: tuple[slice, ...]
) -> list[Problem]:
    """`--objects json`: every value stands as its JSON text."""
    texts = found.astype(object).reshape(-1)
    wrong = [
        (text, value)
        for text, value in zip(texts, values.reshape(-1), strict=True)
        if not matches_json_text(text, value)
    ]
    if not wrong:
        return []
    text, value = wrong[0]
    where = f"in {len(wrong)} places"
    return [_problem(path, key, region, shown(text), f"JSON text of {shown(value)}", where)]


def _problem(
    path: str, key: str, region: tuple[slice, ...], found: str, expected: str, where: str = ""
) -> Problem:
    place = f" ({where})" if where else ""
    return Problem(
        kind="verify-values",
        message=f"values differ in {region_text(region)}{place}",
        node=path,
        key=key,
        found=found,
        expected=expected,
    )

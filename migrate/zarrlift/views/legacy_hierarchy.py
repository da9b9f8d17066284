"""A legacy archive in a view: its documents and the origin of each object's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from zarrstack.core.errors import UsageError, ZarrstackError
from zarrstack.core.paths import join

from ..core.codecs.base import OBJECT_LIMIT, memory
from ..core.json_document import document
from ..formats.describe import describe
from ..planning.chunk_advice import not_fetched
from ..planning.planner import make_plan
from ..planning.plans import ArrayPlan, Plan
from ..planning.zarr_json import consolidate
from ..recipe.options import Reading
from ..recipe.recipe import Recipe
from ..storage.local.files import ReadLimit
from ..transfer.counts import MoveCounts
from ..transfer.inner_chunks import inner_chunks
from ..transfer.objects import Change
from ..transfer.reframe import ObjectConversion
from ..transfer.relink import payload_check
from .hierarchy import PresentedHierarchy, StoredValue

if TYPE_CHECKING:
    from ..recipe.options import Format
    from ..storage.base import Storage

DOCUMENT: Final = "zarr.json"
_ANY: Final = ReadLimit(OBJECT_LIMIT)
"""Bound of files that are not part of a Zarr node."""


class ViewedArray:
    """An array and the conversion of its objects, compiled on first use."""

    def __init__(self, plan: ArrayPlan, storage: Storage) -> None:
        self.plan = plan
        self._source = inner_chunks(storage, plan.path, plan.source, allow_pickle=plan.move.allow_pickle)

    @cached_property
    def change(self) -> Change:
        """The conversion of each object, or its check if nothing is converted."""
        if self.as_it_lies:
            check = payload_check(self._source)
            return lambda _, data, __: check.check_whole(data)
        return ObjectConversion(self.plan.move, self._source, recheck=False)

    @property
    def bound(self) -> ReadLimit:
        """The maximum size of an object."""
        return self._source.bound

    @property
    def as_it_lies(self) -> bool:
        """Whether objects are presented unchanged."""
        return self.plan.route.name in ("stay", "relink")

    @cached_property
    def shortens(self) -> bool:
        """Whether objects may be presented without bytes behind the end that their header states."""
        source = self.plan.source
        return source.frame is None and source.chain.states_lengths

    def changed(self, index: int, key: str, data: bytes) -> bytes | None:
        """The object as a migration would store it; ChunkError and CastError with location."""
        try:
            result = self.change(index, data, MoveCounts(self.plan.path))
        except ZarrstackError as error:
            raise (not_fetched(data) or error).at(node=self.plan.path, key=key) from None
        return None if result is None else bytes(memory(result))


class StoredObject(StoredValue):
    """An object that a migration would store, or an extra file that it would copy."""

    def __init__(self, key: str, array: ViewedArray | None = None, number: int = 0) -> None:
        self.key = key
        self._array = array
        self._number = number

    @property
    def as_it_lies(self) -> bool:
        """Whether the object is presented unchanged."""
        return self._array is None or (self._array.as_it_lies and not self._array.shortens)

    @property
    def bound(self) -> ReadLimit:
        """The maximum size of the object."""
        return _ANY if self._array is None else self._array.bound

    def shown(self, data: bytes) -> bytes | None:
        """The presented value; ChunkError and CastError with location."""
        return data if self._array is None else self._array.changed(self._number, self.key, data)


@dataclass(slots=True, kw_only=True)
class ViewedArchive(PresentedHierarchy[ViewedArray]):
    """A legacy archive, described once: all documents and the origin of each object's bytes."""

    plan: Plan
    files: frozenset[str]
    """Keys of extra files that are copied along."""

    @classmethod
    def of(cls, storage: Storage, format: Format | None, reading: Reading, recipe: Recipe) -> Self:
        """Describe a storage; UsageError if there is no archive, StorageError."""
        archive = describe(storage, format=format, options=reading)
        plan, _ = make_plan(archive, storage, recipe, destination="a view", reading=reading, listing=False)
        for array in plan.arrays:
            if array.move.block_shape is not None:
                raise UsageError(
                    "a view presents existing chunks, one by one",
                    node=array.path,
                    found=f"a recipe with other objects ({array.route.reason})",
                    advice="Remove chunks and shards from the recipe, or migrate the archive.",
                )
        nodes = {node.path: node.document for node in plan.published}
        if plan.consolidate:
            nodes[""] = consolidate(nodes)
        return cls(
            storage=storage,
            store=storage.zarr_store(),
            names=frozenset({DOCUMENT}),
            plan=plan,
            documents={join(path, DOCUMENT): document(content) for path, content in nodes.items()},
            arrays={array.path: ViewedArray(array, storage) for array in plan.arrays},
            refusals={
                refusal.path: replace(problem, node=refusal.path)
                for refusal in plan.refusals
                for problem in reversed(refusal.problems)
                if problem.severity == "refusal"
            },
            files=frozenset(key for group in plan.groups for key in group.files),
            follow_links=reading.follow_links,
        )

    @property
    def fixed(self) -> Iterator[str]:
        """Documents and extra files."""
        yield from (*self.documents, *self.files)

    def _held(self, key: str, above: str) -> StoredObject | None:
        if key in self.files:
            return StoredObject(key)
        array = self.array_above(above)
        if array is None:
            return None
        target, source = array.plan.destination, array.plan.source
        rest = key.removeprefix(target.prefix(array.plan.path))
        place = target.keys.coordinates(rest, len(target.shape))
        index = None if place is None else target.objects.index(place)
        if place is None or index is None:
            return None
        return StoredObject(source.key(array.plan.path, place), array, index)

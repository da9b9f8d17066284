"""The content of a view: documents created in advance, and chunks read from the source on demand."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Self

from zarrstack.core.errors import Problem, StorageError, UnsupportedError, UsageError, ZarrstackError
from zarrstack.core.paths import join

from ..archive.shard_reader import chunk_reader
from ..core.chain.chain import with_several_streams
from ..core.codecs.base import OBJECT_LIMIT, memory
from ..core.format_table import DOCUMENT_NAMES
from ..core.json_document import document
from ..core.node_paths import nearest
from ..formats.describe import describe
from ..planning.chunk_checks import not_fetched
from ..planning.planner import make_plan
from ..storage.local.files import ReadLimit
from ..transfer.counts import MoveCounts
from ..transfer.reframe import Change, ObjectConversion
from ..transfer.relink import payload_check

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..planning.plans import ArrayPlan, Plan
    from ..recipe.options import Format, Reading
    from ..recipe.recipe import Recipe
    from ..storage.base import Storage

DOCUMENT: Final = "zarr.json"
_ANY: Final = ReadLimit(OBJECT_LIMIT)
"""Bound of files that are not part of a Zarr node."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value that comes from one object of the source."""

    key: str
    """The object's key."""
    bound: ReadLimit
    """The maximum size of the object."""
    shown: Callable[[bytes], bytes | None]
    """The presented value for stored bytes; ChunkError and CastError with location."""
    is_unchanged: bool
    """Whether the stored bytes are presented unchanged."""

    def read(self, storage: Storage) -> bytes | None:
        """The presented value, None if nothing is stored; StorageError, and the errors of `shown`."""
        data = storage.get(self.key, self.bound)
        return None if data is None else self.shown(data)


class ViewedArray:
    """An array and the conversion of its objects, compiled on first use."""

    def __init__(self, plan: ArrayPlan, storage: Storage) -> None:
        self.plan = plan
        source = replace(plan.source, chain=with_several_streams(plan.source.chain))
        self._source = chunk_reader(storage, plan.path, source, allow_pickle=plan.move.values.allow_pickle)

    @cached_property
    def _change(self) -> Change:
        """The conversion of each object, or its check if nothing is converted."""
        if self._is_unchanged:
            check = payload_check(self._source)
            return lambda _, data, __: check.check_whole(data)
        return ObjectConversion(self.plan.move, self._source, recheck=False)

    @property
    def _is_unchanged(self) -> bool:
        return self.plan.route.name in ("stay", "relink")

    @cached_property
    def _shortens(self) -> bool:
        """Whether objects may be presented without bytes behind the end that their header states."""
        source = self.plan.source
        return source.frame is None and source.chain.states_lengths

    def held(self, index: int, key: str) -> StoredValue:
        """The object with this key, as a migration would store it."""
        if self.plan.source.opaque:
            return StoredValue(key, _ANY, lambda data: data, is_unchanged=True)
        unchanged = self._is_unchanged and not self._shortens
        return StoredValue(key, self._source.bound, partial(self._changed, index, key), unchanged)

    def _changed(self, index: int, key: str, data: bytes) -> bytes | None:
        try:
            result = self._change(index, data, MoveCounts(self.plan.path))
        except ZarrstackError as error:
            raise (not_fetched(data) or error).at(node=self.plan.path, key=key) from None
        return None if result is None else bytes(memory(result))


@dataclass(slots=True, kw_only=True)
class ViewedArchive:
    """A legacy archive, described once: all documents and the origin of each object's bytes."""

    storage: Storage
    store: Store
    """The same source for asynchronous reads."""
    follow_links: bool
    """Whether links to targets outside the archive are followed."""
    plan: Plan
    documents: dict[str, bytes]
    arrays: dict[str, ViewedArray]
    """Arrays by path."""
    refusals: Mapping[str, Problem]
    """Reasons for omitted nodes, by path."""
    files: frozenset[str]
    """Keys of extra files that are copied along."""
    children: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    """Path of a node -> names directly below it, including its document, in order."""

    def __post_init__(self) -> None:
        for key in self.documents:
            below = key
            while below:
                above, _, name = below.rpartition("/")
                self.children.setdefault(above, {})[name] = None
                below = above

    @classmethod
    def of(cls, storage: Storage, format: Format | None, reading: Reading, recipe: Recipe) -> Self:
        """Describe a storage; UsageError if there is no archive, StorageError."""
        archive = describe(storage, format=format, options=reading)
        plan = make_plan(archive, storage, recipe, destination="a view", reading=reading, listing=False)
        for array in plan.arrays:
            if array.move.block_shape is not None:
                raise UsageError(
                    "a view presents existing chunks, one by one",
                    node=array.path,
                    found=f"a recipe with other objects ({array.route.reason})",
                    advice="Remove chunks and shards from the recipe, or migrate the archive.",
                )
        documents = {join(node.path, DOCUMENT): node.content for node in plan.published}
        if plan.consolidate:
            documents[DOCUMENT] = document(plan.document(""))
        return cls(
            storage=storage,
            store=storage.zarr_store(),
            follow_links=reading.follow_links,
            plan=plan,
            documents=documents,
            arrays={array.path: ViewedArray(array, storage) for array in plan.arrays},
            refusals={
                refusal.path: replace(problem, node=refusal.path)
                for refusal in plan.refusals
                for problem in reversed(refusal.problems)
                if problem.severity == "refusal"
            },
            files=frozenset(key for group in plan.groups for key in group.files),
        )

    @property
    def fixed(self) -> Iterator[str]:
        """Keys that are known without reading the source: documents and extra files."""
        yield from (*self.documents, *self.files)

    def array_above(self, path: str) -> ViewedArray | None:
        """The array at a path or above it."""
        return nearest(path, self.arrays)

    async def chunks(self, path: str) -> AsyncGenerator[str, None]:
        """The presented keys of an array's stored objects, as they are listed."""
        plan = self.arrays[path].plan
        layout, prefix = plan.source, plan.source.prefix(path)
        async for key in self.store.list_prefix(prefix):
            if layout.opaque:
                if key.removeprefix(prefix).partition("/")[0] not in DOCUMENT_NAMES:
                    yield key
                continue
            place = layout.keys.coordinates(key.removeprefix(prefix), len(layout.shape))
            if place is not None and layout.objects.index(place) is not None:
                yield plan.destination.key(path, place)

    def find(self, key: str) -> bytes | StoredValue | None:
        """A document, or the location of a key's value in the source.

        StorageError if it may not be read; UnsupportedError for a document of an omitted node.
        """
        content = self.documents.get(key)
        if content is not None:
            return content
        above, _, name = key.rpartition("/")
        if name == DOCUMENT:
            self.require_shown(above)
            return None
        held = self._held(key, above)
        if held is not None and not self.follow_links:
            self._check_link(held.key)
        return held

    def _held(self, key: str, above: str) -> StoredValue | None:
        """The location of the value of a key below the path `above` that is not a document."""
        if key in self.files:
            return StoredValue(key, _ANY, lambda data: data, is_unchanged=True)
        array = self.array_above(above)
        if array is None:
            return None
        target, source = array.plan.destination, array.plan.source
        if source.opaque:
            return array.held(0, key)
        rest = key.removeprefix(target.prefix(array.plan.path))
        place = target.keys.coordinates(rest, len(target.shape))
        index = None if place is None else target.objects.index(place)
        if place is None or index is None:
            return None
        return array.held(index, source.key(array.plan.path, place))

    def require_node(self, path: str) -> None:
        """Raise UsageError if the archive has no such node; the reason if the node is refused."""
        if join(path, DOCUMENT) not in self.documents:
            self.require_shown(path)
            raise UsageError(
                "no such node", node=path, found=", ".join(self.children.get("", ())) or "an empty archive"
            )

    def require_shown(self, path: str) -> None:
        """Raise the reason as UnsupportedError if a node is omitted."""
        problem = self.refusals.get(path)
        if problem is not None:
            raise UnsupportedError.of(problem)

    def _check_link(self, key: str) -> None:
        target = self.storage.link(key)
        if target is not None and self.storage.leaves_root(target):
            if not os.path.exists(target):
                self.storage.require_absent(key)
            raise StorageError(
                "a link points outside the archive", key=key, advice="Use follow_links if this is intended."
            )

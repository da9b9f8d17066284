"""Reads any legacy archive through zarr-python 3 without converting it.

`LegacyView` is a storage transformer. It describes the archive below it once. It then serves the `zarr.json`
documents that a migration would write and, under v3 chunk keys, the objects that a migration would store:
most of them unchanged, the others converted one by one on demand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, Unpack

import zarr
from zarr.abc.store import Store

from zarrstack.core.errors import UsageError, ZarrstackError
from zarrstack.core.paths import join

from ..core.codecs.base import OBJECT_LIMIT, memory
from ..core.json_document import document
from ..formats.describe import describe, opened
from ..planning.chunk_advice import not_fetched
from ..planning.planner import make_plan
from ..planning.plans import ArrayPlan, Plan
from ..planning.zarr_json import consolidate
from ..recipe.keywords import DescribingKeywords, SourceOptionsKeywords
from ..recipe.options import Reading
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit
from ..storage.local.files import ReadLimit
from ..storage.open_storage import Place, open_storage
from ..transfer.counts import MoveCounts
from ..transfer.inner_chunks import inner_chunks
from ..transfer.objects import Change
from ..transfer.reframe import ObjectConversion
from ..transfer.relink import payload_check
from .base import HierarchyView, stored_objects
from .hierarchy import PresentedHierarchy, StoredValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..planning.plans import Plan
    from ..recipe.options import Axes, Format
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
        if self.is_unchanged:
            check = payload_check(self._source)
            return lambda _, data, __: check.check_whole(data)
        return ObjectConversion(self.plan.move, self._source, recheck=False)

    @property
    def is_unchanged(self) -> bool:
        """Whether objects are presented unchanged."""
        return self.plan.route.name in ("stay", "relink")

    @cached_property
    def shortens(self) -> bool:
        """Whether objects may be presented without bytes behind the end that their header states."""
        source = self.plan.source
        return source.frame is None and source.chain.states_lengths

    def held(self, index: int, key: str) -> StoredValue:
        """The object with this key, as a migration would store it."""
        unchanged = self.is_unchanged and not self.shortens
        return StoredValue(key, self._source.bound, partial(self.changed, index, key), unchanged)

    def changed(self, index: int, key: str, data: bytes) -> bytes | None:
        """The object as a migration would store it; ChunkError and CastError with location."""
        try:
            result = self.change(index, data, MoveCounts(self.plan.path))
        except ZarrstackError as error:
            raise (not_fetched(data) or error).at(node=self.plan.path, key=key) from None
        return None if result is None else bytes(memory(result))


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

    def _held(self, key: str, above: str) -> StoredValue | None:
        if key in self.files:
            return StoredValue(key, _ANY, lambda data: data, is_unchanged=True)
        array = self.array_above(above)
        if array is None:
            return None
        target, source = array.plan.destination, array.plan.source
        rest = key.removeprefix(target.prefix(array.plan.path))
        place = target.keys.coordinates(rest, len(target.shape))
        index = None if place is None else target.objects.index(place)
        if place is None or index is None:
            return None
        return array.held(index, source.key(array.plan.path, place))


class _Describing(DescribingKeywords, SourceOptionsKeywords):
    """The arguments that `open` shares with `inspect`."""


class Opening(_Describing, total=False):
    """The arguments of `open` besides the place."""

    recipe: Recipe | None


@explicit
def open(  # noqa: A001 - what readers of archives expect it to be called
    source: Place, *, path: str = "", recipe: Recipe | None = None, **options: Unpack[_Describing]
) -> zarr.Group | zarr.Array[Any]:
    """Open a group or array of any archive with zarr-python 3, immediately and read-only.

    Nothing is converted or listed in advance. The values are those that `migrate` with the same `recipe`
    would write. `path` is the path of a node in the archive; the other arguments are those of `inspect`. A
    Zarr v3 archive is opened directly.

    Raises
    ------
    UsageError
        If there is no archive or no such node.
    UnsupportedError, MetadataError
        With the reason, for a node that a migration would refuse.
    StorageError
        If the archive cannot be read.
    ChunkError
        When a damaged chunk is read.

    Examples
    --------
    >>> ocean = zarrlift.open("ocean.zarr")
    >>> ocean["lat"][:3]
    array([-89., -87., -85.])
    """
    storage, reading, format = opened(source, options)  # noqa: A001 - as in the public functions
    view = view_of(storage, format=format, reading=reading, recipe=recipe)
    place = path.strip("/")
    view.require_node(place)
    return zarr.open(view, path=place, mode="r", zarr_format=3)


@explicit
def open_array(source: Place, *, path: str = "", **options: Unpack[Opening]) -> zarr.Array[Any]:
    """Open an array like `open`.

    Raises
    ------
    UsageError
        If the node is a group; otherwise the errors of `open`.

    Examples
    --------
    >>> zarrlift.open_array("ocean.zarr", path="lat").shape
    (90,)
    """
    from zarrstack.arrays import array_of

    return array_of(open(source, path=path, **options))


@explicit
def open_group(source: Place, *, path: str = "", **options: Unpack[Opening]) -> zarr.Group:
    """Open a group like `open`.

    Raises
    ------
    UsageError
        If the node is an array; otherwise the errors of `open`.

    Examples
    --------
    >>> sorted(zarrlift.open_group("ocean.zarr").array_keys())
    ['lat', 'lon', 'sst', 'time']
    """
    from zarrstack.arrays import group_of

    return group_of(open(source, path=path, **options))


def view_of(
    storage: Storage,
    *,
    format: Format | None = None,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    recipe: Recipe | None = None,
) -> LegacyView:
    """A view of a storage, described already; UsageError if there is no archive, StorageError."""
    options: dict[str, Any] = {**reading.to_json()}
    if format is not None:
        options["format"] = format
    if recipe is not None:
        options["recipe"] = recipe.to_json()
    view = LegacyView(storage.zarr_store(), **options)
    view.use(ViewedArchive.of(storage, format, reading, recipe or Recipe()))
    return view


class LegacyView(HierarchyView[ViewedArchive]):
    """A legacy archive as Zarr v3; read-only.

    Options: `format` (detected by default), `axes` ("reversed" or "kept"), `allow_fallback`, `follow_links`,
    `max_document_size` in bytes, and `recipe`, a `Recipe` as JSON. The archive is described on first access;
    later changes of its metadata are not followed.

    Examples
    --------
    >>> view = zarrlift.LegacyView(zarr.storage.LocalStore("ocean.zarr"))
    >>> zarr.open_array(view, path="lat", mode="r")[:3]
    array([-89., -87., -85.])
    """

    name = "legacy-view"
    to_write: ClassVar[str] = "A view of an archive cannot be written: migrate it first."

    def __init__(
        self,
        store: Store | None = None,
        *,
        format: Format | None = None,
        axes: Axes = "reversed",
        allow_fallback: bool = False,
        follow_links: bool = False,
        max_document_size: int = Reading.max_document_size,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(store)
        self._format = format
        self._reading = Reading(
            follow_links=follow_links,
            axes=axes,
            allow_fallback=allow_fallback,
            max_document_size=max_document_size,
        )
        self._recipe = Recipe() if recipe is None else Recipe.from_json(dict(recipe))

    def use(self, described: ViewedArchive) -> None:
        """Set a description made elsewhere, for the same storage."""
        self._described = described

    @property
    def plan(self) -> Plan:
        """The plan of a migration of the archive, without chunk information."""
        return self._hierarchy().plan

    def require_node(self, path: str) -> None:
        """Raise UsageError if the archive has no such node; the reason if the node is refused."""
        view = self._hierarchy()
        if join(path, DOCUMENT) not in view.documents:
            view.require_shown(path)
            raise UsageError(
                "no such node", node=path, found=", ".join(view.children.get("", ())) or "an empty archive"
            )

    def _describe(self) -> ViewedArchive:
        return ViewedArchive.of(open_storage(self._store), self._format, self._reading, self._recipe)

    async def _chunks(self, hierarchy: ViewedArchive, path: str) -> AsyncGenerator[str, None]:
        plan = hierarchy.arrays[path].plan
        async for place in stored_objects(hierarchy.store, path, plan.source):
            yield plan.destination.key(path, place)

"""Reads any legacy archive through zarr-python 3 without converting it.

`LegacyView` is a storage transformer. It describes the archive below it once. It then serves the `zarr.json`
documents that a migration would write and, under v3 chunk keys, the objects that a migration would store:
most of them unchanged, the others converted one by one on demand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import zarr
from zarr.abc.store import Store

from zarrstack.core.errors import UsageError
from zarrstack.core.paths import join

from ..formats.describe import opened
from ..recipe.keywords import DescribingKeywords, SourceOptionsKeywords
from ..recipe.options import Reading
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit
from ..storage.open_storage import Place, open_storage
from .base import HierarchyView, stored_objects
from .legacy_hierarchy import DOCUMENT, ViewedArchive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..planning.plans import Plan
    from ..recipe.options import Axes, Format
    from ..storage.base import Storage


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
        return self._shown().plan

    def require_node(self, path: str) -> None:
        """Raise UsageError if the archive has no such node; the reason if the node is refused."""
        view = self._shown()
        if join(path, DOCUMENT) not in view.documents:
            view.require_shown(path)
            raise UsageError(
                "no such node", node=path, found=", ".join(view.children.get("", ())) or "an empty archive"
            )

    def _describe(self) -> ViewedArchive:
        return ViewedArchive.of(open_storage(self._store), self._format, self._reading, self._recipe)

    async def _chunks(self, shown: ViewedArchive, path: str) -> AsyncGenerator[str, None]:
        plan = shown.arrays[path].plan
        async for place in stored_objects(shown.store, path, plan.source):
            yield plan.destination.key(path, place)

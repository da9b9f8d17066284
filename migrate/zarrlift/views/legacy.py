"""Reads any legacy archive through zarr-python 3 without converting it.

`LegacyView` is a storage transformer. It describes the archive below it once. It then serves the `zarr.json`
documents that a migration would write and, under v3 chunk keys, the objects that a migration would store:
most of them unchanged, the others converted one by one on demand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype

from zarrstack.base.byte_ranges import cut
from zarrstack.core.paths import prefix_of
from zarrstack.layers.readonly import ReadOnlyLayer

from ..formats.describe import open_source
from ..recipe.asked import RecipeForm, asked_recipe
from ..recipe.keywords import DescribingKeywords, SourceOptionsKeywords
from ..recipe.options import Reading
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit
from ..storage.open_storage import Place, open_storage
from .viewed_archive import StoredValue, ViewedArchive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..planning.plans import Plan
    from ..recipe.options import Axes, Format
    from ..storage.base import Storage


class _Describing(DescribingKeywords, SourceOptionsKeywords):
    """The arguments that `open` shares with `inspect`."""


class Opening(_Describing, total=False):
    """The arguments of `open` besides the place."""

    recipe: RecipeForm | None


@explicit
def open(  # noqa: A001 - what readers of archives expect it to be called
    source: Place, *, path: str = "", recipe: RecipeForm | None = None, **options: Unpack[_Describing]
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
    storage, reading, format = open_source(source, options)  # noqa: A001 - as in the public functions
    asked = None if recipe is None else asked_recipe(recipe, {})
    view = view_of(storage, format=format, reading=reading, recipe=asked)
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


class LegacyView(ReadOnlyLayer):
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
        self._archive: ViewedArchive | None = None
        self._lock = threading.Lock()
        self._format = format
        self._reading = Reading(
            follow_links=follow_links,
            axes=axes,
            allow_fallback=allow_fallback,
            max_document_size=max_document_size,
        )
        self._recipe = Recipe() if recipe is None else Recipe.from_json(dict(recipe))

    def use(self, archive: ViewedArchive) -> None:
        """Set a description made elsewhere, for the same storage."""
        self._archive = archive

    @property
    def plan(self) -> Plan:
        """The plan of a migration of the archive, without chunk information."""
        return self._described().plan

    def require_node(self, path: str) -> None:
        """Raise UsageError if the archive has no such node; the reason if the node is refused."""
        self._described().require_node(path)

    def _described(self) -> ViewedArchive:
        with self._lock:
            if self._archive is None:
                storage = open_storage(self._store)
                self._archive = ViewedArchive.of(storage, self._format, self._reading, self._recipe)
            return self._archive

    async def _ready(self) -> ViewedArchive:
        archive = self._archive
        return await asyncio.to_thread(self._described) if archive is None else archive

    # -- values ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """A document or a chunk as Zarr v3; None if it is missing. ChunkError, StorageError."""
        archive = await self._ready()
        value = archive.find(key)
        result: bytes | None
        if value is None or isinstance(value, bytes):
            result = value
        else:
            span = _span(byte_range, value.bound.most) if value.is_unchanged else None
            data = await _stored(archive.storage, value, span)
            if data is None:
                return None
            if span is not None:
                return prototype.buffer.from_bytes(data)
            result = await asyncio.to_thread(value.shown, data)
        return None if result is None else cut(prototype.buffer.from_bytes(result), byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Like `get`, without an event loop (zarr 3.3+)."""
        archive = self._described()
        value = archive.find(key)
        result = value if value is None or isinstance(value, bytes) else value.read(archive.storage)
        kind = (prototype or default_buffer_prototype()).buffer
        return None if result is None else cut(kind.from_bytes(result), byte_range)

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; decodes no chunk."""
        archive = await self._ready()
        value = archive.find(key)
        if value is None or isinstance(value, bytes):
            return value is not None
        return await archive.store.exists(value.key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; unchanged values are not read."""
        archive = await self._ready()
        value = archive.find(key)
        if value is None or isinstance(value, bytes) or not value.is_unchanged:
            return await super().getsize(key)
        return await archive.store.getsize(value.key)

    # -- names ----------------------------------------------------------------------------------

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys with this prefix: documents, then chunks as they are listed."""
        return self._list_prefix(prefix)

    async def _list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        archive = await self._ready()
        for key in archive.fixed:
            if key.startswith(prefix):
                yield key
        for path in archive.arrays:
            below = prefix_of(path)
            if below.startswith(prefix) or prefix.startswith(below):
                async for key in archive.chunks(path):
                    if key.startswith(prefix):
                        yield key

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a path; chunks are listed only if an array contains them."""
        return self._names(prefix.strip("/"))

    async def _names(self, path: str) -> AsyncGenerator[str, None]:
        archive = await self._ready()
        seen = archive.children.get(path, {})
        for name in seen:
            yield name
        if archive.array_above(path) is not None:
            async for name in self._list_dir(path):
                if name not in seen:
                    yield name


def _span(part: ByteRequest | None, most: int) -> tuple[int, int] | None:
    """(start, stop) within an object, for `StoreRequests.parts`; None if the whole object must be read.

    None for a request without a length, or with one above the object's bound `most`.
    """
    match part:
        case RangeByteRequest(start, stop) if start < stop <= start + most:
            return start, stop
        case SuffixByteRequest(size) if 0 < size <= most:
            return -size, 0
    return None


async def _stored(storage: Storage, value: StoredValue, span: tuple[int, int] | None) -> bytes | None:
    """A stored object or a part of it, limited to its bound; ChunkError, StorageError."""
    requests = storage.requests
    if span is None:
        if requests is None:
            return await asyncio.to_thread(storage.get, value.key, value.bound)
        return await asyncio.wrap_future(requests.get([value.key], value.bound, [None])[0])
    if requests is None:
        return await asyncio.to_thread(storage.get_part, value.key, span[0], span[1] - span[0])
    return await asyncio.wrap_future(requests.parts(value.key, [span], None)[0])

"""Any legacy archive, read through zarr-python 3 as it lies: a migration that is never written down.

`LegacyView` is a storage transformer. It describes the archive below it once, and from then on serves
the `zarr.json` documents that a migration would write, and under v3 chunk keys what a migration
would store there: most objects as they are, others changed one by one when they are asked for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from zarrstack.byte_ranges import cut
from zarrstack.core.errors import UsageError
from zarrstack.transformer import StorageTransformer

from .places import Place, open_storage
from .read_options import ReadOptions
from .recipe import Recipe
from .view_archive import ViewedArchive, ViewedArray, document_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    import zarr

    from .archive import Format
    from .plans import Plan
    from .read_options import Axes
    from .storage import Storage


def open(  # noqa: A001 - what readers of archives expect it to be called
    url: Place,
    *,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    format: Format | None = None,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    follow_links: bool = False,
    recipe: Recipe | None = None,
) -> zarr.Group | zarr.Array[Any]:
    """A group or array of any archive as zarr-python 3 shows it, at once and read-only.

    Nothing is converted or listed beforehand. Values are those that `migrate` with the same `recipe`
    would give. `path` is a node's in the archive; the other arguments are `inspect`'s. An archive that
    is Zarr v3 already is opened as it is.

    Raises UsageError where there is no archive, or no such node; UnsupportedError or MetadataError, with
    the reason, for a node that would be refused; StorageError. Reading raises ChunkError for a chunk
    that is damaged.
    """
    import zarr

    reading = ReadOptions.asked(follow_links=follow_links, axes=axes, allow_fallback=allow_fallback)
    storage = open_storage(url, storage_options=storage_options, follow_links=follow_links)
    view = view_of(storage, format=format, reading=reading, recipe=recipe)
    place = path.strip("/")
    view.require_node(place)
    return zarr.open(view, path=place, mode="r", zarr_format=3)


def view_of(
    storage: Storage,
    *,
    format: Format | None = None,
    reading: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    recipe: Recipe | None = None,
) -> LegacyView:
    """A view over a place, described already; UsageError where there is no archive, StorageError."""
    options: dict[str, Any] = {**reading.to_json()}
    if format is not None:
        options["format"] = format
    if recipe is not None:
        options["recipe"] = recipe.to_json()
    view = LegacyView(storage.zarr_store(), **options)
    view.use(ViewedArchive.of(storage, format, reading, recipe or Recipe()))
    return view


class LegacyView(StorageTransformer):
    """A legacy archive as Zarr v3; read-only.

    Options: `format` (found out unless it is given), `axes` ("reversed" or "kept"), `allow_fallback`,
    `follow_links`, and `recipe`, a `Recipe` as JSON. The archive is described when something is first
    asked for, and kept as it was then: a view does not follow changes of metadata.
    """

    name = "legacy-view"

    def __init__(
        self,
        store: Store | None = None,
        *,
        format: Format | None = None,
        axes: Axes = "reversed",
        allow_fallback: bool = False,
        follow_links: bool = False,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(store)
        self._format = format
        self._reading = ReadOptions.asked(follow_links=follow_links, axes=axes, allow_fallback=allow_fallback)
        self._recipe = Recipe() if recipe is None else Recipe.from_json(dict(recipe))
        self._described: ViewedArchive | None = None
        self._lock = threading.Lock()

    def use(self, described: ViewedArchive) -> None:
        """Take a description that was made elsewhere, from the same place."""
        self._described = described

    @property
    def plan(self) -> Plan:
        """What a migration would make of the archive; nothing in it is about chunks."""
        return self._view().plan

    def require_node(self, path: str) -> None:
        """UsageError where the archive has no such node; the reason where it would be refused."""
        view = self._view()
        if document_key(path) not in view.documents:
            view.refuse(path)
            raise UsageError(
                "no such node", node=path, found=", ".join(view.children.get("", ())) or "an empty archive"
            )

    # -- what the view is ----------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """True."""
        return True

    @property
    def supports_writes(self) -> bool:
        """False."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """False."""
        return False

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same view; UsageError when it is asked to become writable."""
        if not read_only:
            raise UsageError("a view of an archive cannot be written", advice="Migrate it first.")
        return self

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """A document, or an object as the migration would store it; None where there is none."""
        view = await self._ready()
        found = view.find(key)
        if found is None or isinstance(found, bytes):
            return None if found is None else cut(prototype.buffer.from_bytes(found), byte_range)
        part = byte_range if found.as_it_lies else None
        kind = default_buffer_prototype() if part is None else prototype
        data = await view.store.get(found.key, kind, part)
        if data is None:
            view.storage.require_absent(found.key)
        if data is None or part is not None:
            return data
        result = await asyncio.to_thread(found.shown, data.to_bytes())
        return None if result is None else cut(prototype.buffer.from_bytes(result), byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As `get`, without an event loop (zarr 3.3+)."""
        kind = (prototype or default_buffer_prototype()).buffer
        view = self._view()
        found = view.find(key)
        if found is None or isinstance(found, bytes):
            return None if found is None else cut(kind.from_bytes(found), byte_range)
        data = view.storage.get(found.key)
        result = None if data is None else found.shown(data)
        return None if result is None else cut(kind.from_bytes(result), byte_range)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._check_writable()

    def delete_sync(self, key: str) -> None:
        """Refused."""
        self._check_writable()

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; no chunk is decoded for it."""
        view = await self._ready()
        found = view.find(key)
        if found is None or isinstance(found, bytes):
            return found is not None
        return await view.store.exists(found.key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; an object that is served as it lies is not read for it."""
        view = await self._ready()
        found = view.find(key)
        if isinstance(found, tuple) and found.as_it_lies:
            return await view.store.getsize(found.key)
        return await super().getsize(key)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with this text: documents, then chunks as they are found."""
        return self._list_prefix(prefix)

    async def _list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        view = await self._ready()
        for key in (*view.documents, *view.files):
            if key.startswith(prefix):
                yield key
        for array in view.arrays.values():
            below = f"{array.plan.path}/" if array.plan.path else ""
            if below.startswith(prefix) or prefix.startswith(below):
                async for key in self._chunks(view, array):
                    if key.startswith(prefix):
                        yield key

    async def _chunks(self, view: ViewedArchive, array: ViewedArray) -> AsyncGenerator[str, None]:
        source, target = array.plan.source, array.plan.destination
        ndim, grid, prefix = len(source.shape), source.objects, source.prefix(array.plan.path)
        async for key in view.store.list_prefix(prefix):
            place = source.keys.coordinates(key.removeprefix(prefix), ndim)
            if place is not None and grid.index(place) is not None:
                yield target.key(array.plan.path, place)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path; chunks are listed only where an array has them."""
        return self._names(prefix.strip("/"))

    async def _names(self, path: str) -> AsyncGenerator[str, None]:
        view = await self._ready()
        seen = dict.fromkeys(view.children.get(path, ()))
        for name in seen:
            yield name
        if view.array_above(path) is not None:
            async for name in self._list_dir(path):
                if name not in seen:
                    yield name

    # -- the archive ----------------------------------------------------------------------------

    async def _ready(self) -> ViewedArchive:
        described = self._described
        return await asyncio.to_thread(self._view) if described is None else described

    def _view(self) -> ViewedArchive:
        with self._lock:
            described = self._described
            if described is None:
                storage = open_storage(self._store)
                described = ViewedArchive.of(storage, self._format, self._reading, self._recipe)
                self._described = described
            return described

"""A Zarr v3 hierarchy for readers that know Zarr v2 or N5 only: the reverse of `LegacyView`.

`ReverseView` is a storage transformer. It describes the hierarchy below it once, and from then on
serves the older format's documents, and under its chunk keys what a reader of it expects there.
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
from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.n5 import Axes
from zarrstack.transformer import StorageTransformer

from .formats import describe
from .places import Place, open_storage
from .read_options import AXES, ReadOptions
from .reversing import DOCUMENTS, SHOWN, Reversed, refusal_error
from .reversing_chunks import Showing, ShownArray
from .view import LegacyView, view_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zarrstack.core.keys import Separator

    from .archive import Format
    from .recipe import Recipe
    from .reversing_chunks import Shown
    from .storage import Storage


def present(
    url: Place,
    shown: Shown,
    *,
    separator: Separator = ".",
    axes: Axes | None = None,
    storage_options: Mapping[str, Any] | None = None,
    format: Format | None = None,
    allow_fallback: bool = False,
    follow_links: bool = False,
    recipe: Recipe | None = None,
) -> ReverseView:
    """A read-only store that shows any archive as Zarr v2 (`shown="zarr2"`) or N5 (`"n5"`), at once.

    For readers that do not know Zarr v3 yet. An archive in an older format, or one given a `recipe`, is
    first seen as Zarr v3, as `open` shows it. `separator` stands in v2's chunk keys; `axes` is how N5's
    axes and the array's relate, on either side. What cannot be shown is left out, and is listed, with
    the reason, in the store's `problems`.

    Raises UsageError where there is no archive, StorageError. Reading raises UnsupportedError for the
    documents of a node that is left out, ChunkError for a chunk that is damaged.
    """
    storage = open_storage(url, storage_options=storage_options, follow_links=follow_links)
    reading = ReadOptions.asked(follow_links=follow_links, axes=axes, allow_fallback=allow_fallback)
    return presented(storage, shown, separator=separator, format=format, reading=reading, recipe=recipe)


def presented(
    storage: Storage,
    shown: Shown,
    *,
    separator: Separator = ".",
    format: Format | None = None,
    reading: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    recipe: Recipe | None = None,
) -> ReverseView:
    """As `present`, over a storage, described already."""
    from .formats.detection import detect

    below: Place = storage
    if recipe is not None or detect(storage, format=format) != "zarr3":
        below = view_of(storage, format=format, reading=reading, recipe=recipe)
        storage = open_storage(below)
    store = below if isinstance(below, Store) else storage.zarr_store()
    view = ReverseView(
        store, format=shown, separator=separator, axes=reading.axes, follow_links=reading.follow_links
    )
    view.use(storage)
    return view


class ReverseView(StorageTransformer):
    """A Zarr v3 hierarchy as Zarr v2 or N5; read-only.

    Options: `format` ("zarr2" or "n5"), `separator` ("." or "/", in v2's chunk keys), `axes`
    ("reversed" or "kept", of N5) and `follow_links`. The hierarchy is described when something is
    first asked for, and kept as it was then.
    """

    name = "reverse-view"

    def __init__(
        self,
        store: Store | None = None,
        *,
        format: Shown = "zarr2",
        separator: Separator = ".",
        axes: Axes = "reversed",
        follow_links: bool = False,
    ) -> None:
        super().__init__(store)
        for value, allowed, what in (
            (format, tuple(SHOWN), "format"),
            (separator, (".", "/"), "separator"),
            (axes, AXES, "order of axes"),
        ):
            if value not in allowed:
                raise UsageError(f"unknown {what}", found=repr(value), expected=", ".join(allowed))
        self._showing = Showing(format=format, separator=separator, axes=axes)
        self._follow_links = follow_links
        self._storage: Storage | None = None
        self._async_store: Store | None = None
        self._reversed: Reversed | None = None
        self._lock = threading.Lock()

    def use(self, storage: Storage) -> None:
        """Describe the hierarchy now, out of a storage that leads to the same place as the store below."""
        self._storage = storage
        self._view()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is left out and why, what is to be said besides, and what the view below leaves out."""
        below = self.inner(LegacyView)
        return (*(() if below is None else below.plan.all_problems()), *self._view().problems)

    @property
    def shown_as(self) -> str:
        """The format's name for people."""
        return SHOWN[self._showing.format]

    @property
    def document_names(self) -> frozenset[str]:
        """What metadata documents are called."""
        return DOCUMENTS[self._showing.format]

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

    @property
    def supports_consolidated_metadata(self) -> bool:
        """True for Zarr v2."""
        return self._showing.format == "zarr2"

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same view; UsageError when it is asked to become writable."""
        if not read_only:
            raise UsageError("a view of a hierarchy cannot be written", advice="Write to the hierarchy.")
        return self

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """A document, or a chunk as the older format has it; None where there is none."""
        view = await self._ready()
        found = self._find(view, key)
        if found is None or isinstance(found, bytes):
            return None if found is None else cut(prototype.buffer.from_bytes(found), byte_range)
        array, place = found
        if array.shards is not None:
            result = await asyncio.to_thread(_out_of_shard, array, place)
            return None if result is None else cut(prototype.buffer.from_bytes(result), byte_range)
        key = array.source_key(place)
        if byte_range is not None and array.as_is and not array.header:
            return await self._below().get(key, prototype, byte_range)
        data = await self._below().get(key, default_buffer_prototype())
        if data is None:
            return None
        result = await asyncio.to_thread(array.payload, place, data.to_bytes())
        return cut(prototype.buffer.from_bytes(result), byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As `get`, without an event loop (zarr 3.3+)."""
        kind = (prototype or default_buffer_prototype()).buffer
        found = self._find(self._view(), key)
        if isinstance(found, tuple):
            array, place = found
            if array.shards is not None:
                found = _out_of_shard(array, place)
            else:
                assert self._storage is not None
                data = self._storage.get(array.source_key(place))
                found = None if data is None else array.payload(place, data)
        return None if found is None else cut(kind.from_bytes(found), byte_range)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._check_writable()

    def delete_sync(self, key: str) -> None:
        """Refused."""
        self._check_writable()

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; no chunk is decoded for it."""
        found = self._find(await self._ready(), key)
        if found is None or isinstance(found, bytes):
            return found is not None
        array, place = found
        if array.shards is not None:
            return await asyncio.to_thread(array.stored_size, place) is not None
        return await self._below().exists(array.source_key(place))

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; a payload that is shown as it lies is not read for it."""
        found = self._find(await self._ready(), key)
        if not isinstance(found, tuple) or not found[0].as_is:
            return await super().getsize(key)
        array, place = found
        if array.shards is None:
            return len(array.header) + await self._below().getsize(array.source_key(place))
        size = await asyncio.to_thread(array.stored_size, place)
        if size is None:
            raise FileNotFoundError(key)
        return len(array.header) + size

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with this text: documents, then chunks as they are found."""
        return self._list_prefix(prefix)

    async def _list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        view = await self._ready()
        for key in view.documents:
            if key.startswith(prefix):
                yield key
        for array in view.arrays.values():
            below = f"{array.path}/" if array.path else ""
            if below.startswith(prefix) or prefix.startswith(below):
                async for key in self._chunks(array):
                    if key.startswith(prefix):
                        yield key

    async def _chunks(self, array: ShownArray) -> AsyncGenerator[str, None]:
        layout, prefix = array.layout, array.layout.prefix(array.path)
        async for key in self._below().list_prefix(prefix):
            place = layout.keys.coordinates(key.removeprefix(prefix), len(layout.shape))
            if place is None or layout.objects.index(place) is None:
                continue
            if array.shards is None:
                yield array.key(place)
                continue
            for leaf in await asyncio.to_thread(lambda at: list(array.leaves_in(at)), place):
                yield array.key(leaf)

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

    # -- the hierarchy ---------------------------------------------------------------------------

    async def _ready(self) -> Reversed:
        found = self._reversed
        return await asyncio.to_thread(self._view) if found is None else found

    def _view(self) -> Reversed:
        with self._lock:
            if self._reversed is None:
                if self._storage is None:
                    self._storage = open_storage(self._store, follow_links=self._follow_links)
                    self._async_store = self._storage.zarr_store()
                archive = describe(
                    self._storage, format="zarr3", options=ReadOptions(follow_links=self._follow_links)
                )
                self._reversed = Reversed.of(archive, self._storage, self._showing)
            return self._reversed

    def _below(self) -> Store:
        """The store for asynchronous reading: bound to no event loop but its own."""
        return self._store if self._async_store is None else self._async_store

    def _find(self, view: Reversed, key: str) -> bytes | tuple[ShownArray, tuple[int, ...]] | None:
        """A document, or an array with the place of a chunk; UnsupportedError for a node that is left out."""
        known = view.documents.get(key)
        if known is not None:
            return known
        above, _, name = key.rpartition("/")
        if name in self.document_names:
            problem = view.refusal(above)
            if problem is not None:
                raise refusal_error(problem)
            return None
        array = view.array_above(above)
        place = None if array is None else array.place(key)
        return None if array is None or place is None else (array, place)


def _out_of_shard(array: ShownArray, place: tuple[int, ...]) -> bytes | None:
    data = array.stored(place)
    return None if data is None else array.payload(place, data)

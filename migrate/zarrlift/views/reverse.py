"""Presents a Zarr v3 hierarchy to readers that support only Zarr v2 or N5: the reverse of `LegacyView`.

`ReverseView` is a storage transformer. It describes the hierarchy below it once. It then serves the documents
of the older format, and under its chunk keys the values that its readers expect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, ClassVar, Unpack

from zarr.abc.store import Store

from zarrstack.core.chunk_keys_v3 import Separator
from zarrstack.core.errors import Problem, UsageError

from ..formats.describe import describe, opened
from ..recipe.keywords import DescribingKeywords, SourceOptionsKeywords
from ..recipe.options import Axes, Format, Reading
from ..recipe.recipe import Recipe
from ..recipe.signatures import explicit
from ..storage.local.files import WRITTEN, ReadLimit
from ..storage.open_storage import Place, open_storage
from .base import HierarchyView, stored_objects
from .legacy import LegacyView, view_of
from .reverse_arrays import Presentation, PresentedFormat
from .reverse_hierarchy import DOCUMENTS, SHOWN, ReverseHierarchy

if TYPE_CHECKING:
    from ..storage.base import Storage


class _Describing(DescribingKeywords, SourceOptionsKeywords):
    """The arguments that `present` shares with `inspect`."""


@explicit
def present(
    source: Place,
    as_format: PresentedFormat,
    *,
    separator: Separator = ".",
    recipe: Recipe | None = None,
    **options: Unpack[_Describing],
) -> ReverseView:
    """A read-only store that presents any archive as Zarr v2 or N5 immediately.

    For readers that do not support Zarr v3 yet. `as_format` is "zarr2" or "n5". An archive in an older
    format, or one with a `recipe`, is first presented as Zarr v3, as by `open`. `separator` is used in v2's
    chunk keys; `axes` relates N5's axes to the array's, in either direction. The other arguments are those of
    `inspect`. Nodes that cannot be presented are omitted and listed, with the reason, in the store's
    `problems`.

    Raises
    ------
    UsageError
        If there is no archive.
    StorageError
        If it cannot be read.
    UnsupportedError
        When the documents of an omitted node are read.
    ChunkError
        When a damaged chunk is read.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> store = zarrlift.present("new.zarr", "zarr2")
    >>> zarr.open_group(store, mode="r", zarr_format=2)["lat"][:3]
    array([-89., -87., -85.])
    """
    storage, reading, format = opened(source, options)  # noqa: A001 - as in the public functions
    return presented(storage, as_format, separator=separator, format=format, reading=reading, recipe=recipe)


def presented(
    storage: Storage,
    shown: PresentedFormat,
    *,
    separator: Separator = ".",
    format: Format | None = None,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    recipe: Recipe | None = None,
) -> ReverseView:
    """Like `present`, for a storage, described already."""
    from ..formats.detect import detect

    below: Place = storage
    most = reading.max_document_size
    storage.document_bound = ReadLimit(reading.max_document_size, "document")
    if recipe is not None or detect(storage, format=format) != "zarr3":
        below = view_of(storage, format=format, reading=reading, recipe=recipe)
        storage = open_storage(below)
        most = max(most, WRITTEN.most)  # of documents that the view derived from size-limited ones
    store = below if isinstance(below, Store) else storage.zarr_store()
    view = ReverseView(
        store,
        format=shown,
        separator=separator,
        axes=reading.axes or "reversed",
        follow_links=reading.follow_links,
        max_document_size=most,
    )
    view.use(storage)
    return view


class ReverseView(HierarchyView[ReverseHierarchy]):
    """A Zarr v3 hierarchy as Zarr v2 or N5; read-only.

    Options: `format` ("zarr2" or "n5"), `separator` ("." or "/", in v2's chunk keys), `axes` ("reversed" or
    "kept", for N5), `follow_links`, and `max_document_size` in bytes. The hierarchy is described on first
    access; later changes of its metadata are not followed.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> [problem.node for problem in zarrlift.present("new.zarr", "n5").problems]
    ['sst']
    """

    name = "reverse-view"
    to_write: ClassVar[str] = "A view of a hierarchy cannot be written: write to the hierarchy."

    def __init__(
        self,
        store: Store | None = None,
        *,
        format: PresentedFormat = "zarr2",
        separator: Separator = ".",
        axes: Axes = "reversed",
        follow_links: bool = False,
        max_document_size: int = Reading.max_document_size,
    ) -> None:
        super().__init__(store)
        for value, allowed, what in (
            (format, tuple(SHOWN), "format"),
            (separator, (".", "/"), "separator"),
        ):
            if value not in allowed:
                raise UsageError(f"unknown {what}", found=repr(value), expected=", ".join(allowed))
        self._showing = Presentation(format=format, separator=separator, axes=axes)
        self._reading = Reading(follow_links=follow_links, axes=axes, max_document_size=max_document_size)
        self._storage: Storage | None = None

    def use(self, storage: Storage) -> None:
        """Describe the hierarchy now, from a storage at the same location as the store below."""
        self._storage = storage
        self._hierarchy()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Omitted nodes with reasons, other notes, and the omissions of the view below."""
        below = self.inner(LegacyView)
        return (*(() if below is None else below.plan.all_problems()), *self._hierarchy().problems)

    @property
    def shown_as(self) -> str:
        """Name of the format for people."""
        return SHOWN[self._showing.format]

    @property
    def document_names(self) -> frozenset[str]:
        """Names of metadata documents."""
        return DOCUMENTS[self._showing.format]

    @property
    def supports_consolidated_metadata(self) -> bool:
        """True for Zarr v2."""
        return self._showing.format == "zarr2"

    def _describe(self) -> ReverseHierarchy:
        storage, store = self._storage, self._store
        if storage is None:
            storage = open_storage(store, follow_links=self._reading.follow_links)
            store = storage.zarr_store()  # bound to no event loop except its own
        archive = describe(storage, format="zarr3", options=self._reading)
        return ReverseHierarchy.of(
            archive, storage, store, self._showing, follow_links=self._reading.follow_links
        )

    async def _chunks(self, hierarchy: ReverseHierarchy, path: str) -> AsyncGenerator[str, None]:
        array = hierarchy.arrays[path]
        async for place in stored_objects(hierarchy.store, path, array.layout):
            if array.shards is None:
                yield array.key(place)
                continue
            for inner_chunk in await asyncio.to_thread(lambda at: list(array.inner_chunks_in(at)), place):
                yield array.key(inner_chunk)

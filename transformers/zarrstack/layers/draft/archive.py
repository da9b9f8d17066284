"""The archive below a `Draft` layer: its dialect, its arrays, and the location of each key."""

from __future__ import annotations

from typing import Literal

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, cpu
from zarr.core.buffer.core import default_buffer_prototype

from ...base.transformer import StorageTransformer
from ...core.draft_v3.nodes import ENTRY
from ...core.errors import ChunkError, UsageError
from ...core.json_text import excerpt
from .documents import DIALECTS, DraftDocuments, entry_bytes, entry_of
from .keys import DraftArchive, axes_of, is_sharded


class ArchiveState:
    """State shared by copies of a layer: the archive below, once its entry point has been read."""

    archive: DraftArchive | None = None


class ArchiveLayer(StorageTransformer):
    """Options of `Draft`, and the mapping of keys to their locations."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        dialect: Literal["text", "zarr-python"] = "text",
        allow_fallback: bool = False,
    ) -> None:
        super().__init__(store)
        if dialect not in DIALECTS:
            raise UsageError(
                "layer 'draft': unknown dialect", found=excerpt(dialect), expected=" or ".join(DIALECTS)
            )
        if not isinstance(allow_fallback, bool):
            raise UsageError(
                "layer 'draft': allow_fallback must be true or false", found=excerpt(allow_fallback)
            )
        self._new = DIALECTS[dialect]
        self._allow_fallback = allow_fallback
        self._state = ArchiveState()

    # -- the archive ----------------------------------------------------------------------------

    async def _archive(self) -> DraftArchive:
        """The archive described by its entry point, or by the options if it has none yet."""
        if self._state.archive is not None:
            return self._state.archive
        return self._entered(await self._store.get(ENTRY, default_buffer_prototype()))

    def _entered(self, entry: Buffer | None) -> DraftArchive:
        if entry is None:
            return DraftArchive(self._new)
        dialect = entry_of(entry.to_bytes()).dialect
        if self._state.archive is None or self._state.archive.dialect != dialect:
            self._state.archive = DraftArchive(dialect)
        return self._state.archive

    async def _made(self) -> DraftArchive:
        """Create the entry point if missing, and return the archive.

        The entry point is read again, because another process may have recreated the archive.
        """
        entry = await self._store.get(ENTRY, default_buffer_prototype())
        if entry is None:
            self._state.archive = None
            entry = buffer_of(entry_bytes(self._new))
            await self._store.set(ENTRY, entry)
        return self._entered(entry)

    def _documents(self, archive: DraftArchive) -> DraftDocuments:
        return DraftDocuments(archive, self._allow_fallback)

    # -- keys of values --------------------------------------------------------------------------

    async def _places(self, key: str) -> tuple[str, ...]:
        """Locations of a value, the preferred one first; () if it has none."""
        known = self._state.archive
        if known is not None and (place := known.only_place(key)) is not None:
            return (place,)
        archive = await self._archive()
        if (path := archive.asks(key)) is not None:
            await self._learn(archive, path)
        return archive.places(key)

    async def _learn(self, archive: DraftArchive, path: str) -> None:
        content = await self._store.get(archive.dialect.array_key(path), default_buffer_prototype())
        self._remember(archive, path, content)

    def _remember(self, archive: DraftArchive, path: str, content: Buffer | None) -> None:
        axes = None if content is None else axes_of(content.to_bytes())
        if axes is None:
            archive.arrays.pop(path, None)
        else:
            archive.arrays[path] = axes

    async def _home(self, key: str) -> str:
        """Location for a new value; UsageError if there is none."""
        places = await self._places(key)
        found = [place for place in places[1:] if await self._store.exists(place)]
        if found and not await self._store.exists(places[0]):
            return found[0]  # zarrita's name for the chunk of a 0-d array, which remains the only one
        if not places or (await self._archive()).homeless(key):
            raise UsageError(
                "layer 'draft': this key cannot be stored",
                key=key,
                advice="If it is a chunk, write its array first: a single index after a point requires it.",
            )
        return places[0]

    # -- empty shards ---------------------------------------------------------------------------

    async def _check_empty(self, key: str) -> None:
        """Raise ChunkError for an empty shard: zarr-python 3.1.6 would read fill values from it."""
        archive = await self._archive()
        if (path := archive.array_of(key)) is not None:
            place = archive.dialect.array_key(path)
            document = await self._store.get(place, default_buffer_prototype())
            if document is not None and is_sharded(document.to_bytes()):
                raise ChunkError(
                    "a shard is shorter than its index",
                    node=path,
                    key=key,
                    found="0 bytes",
                    expected="an index at its end",
                )


def buffer_of(content: bytes) -> Buffer:
    """Wrap bytes in a buffer of zarr-python."""
    return cpu.Buffer.from_bytes(content)

"""A source of objects as a read-only zarr store, and as a storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from zarr.abc.store import ByteRequest, Store

from zarrstack.base.byte_ranges import slice_of

from .source import Source

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype

    from .remote.backend import Backend
    from .remote.zarr_store import StoreStorage


def source_storage(source: Source, path: str = "", *, url: str, secrets: Sequence[str] = ()) -> StoreStorage:
    """The storage of a directory of a source; `url` names it in messages, without the secrets."""
    from .remote.zarr_store import StoreStorage

    return StoreStorage(SourceStore(source), path, url=url, secrets=secrets)


class SourceStore(Store):
    """A source as zarr reads and lists it."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, source: Source) -> None:
        super().__init__(read_only=True)
        self.source = source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceStore) and self.source.identity == other.source.identity

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.source.shown

    def as_backend(self) -> Backend:
        """The source itself, which is more than a store."""
        return self.source

    def with_read_only(self, read_only: bool = False) -> SourceStore:
        """The same; an error if it is to be written."""
        if not read_only:
            raise self.source.refusal("")
        return self

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        data = await self.source.content(key, slice_of(byte_range))
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges]))

    async def exists(self, key: str) -> bool:
        return await self.source.has(key)

    async def getsize(self, key: str) -> int:
        size = await self.source.size(key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def set(self, key: str, value: Buffer) -> None:
        raise self.source.refusal(key)

    async def delete(self, key: str) -> None:
        raise self.source.refusal(key)

    def list(self) -> AsyncIterator[str]:
        return self.source.keys("")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        return self.source.keys(prefix)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await self.source.children(prefix.strip("/")):
            yield name

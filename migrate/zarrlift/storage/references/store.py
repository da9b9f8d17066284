"""A zarr store made of references."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from ..local.files import ReadLimit
from .backend import ReferenceBackend, read_only

_ANY_SIZE = ReadLimit(1 << 62)


class ReferenceStore(Store):
    """Objects made of references; read-only. Its calls run in the loop of the storages."""

    supports_deletes = False
    supports_writes = False
    supports_listing = True

    def __init__(self, backend: ReferenceBackend) -> None:
        super().__init__(read_only=True)
        self.backend = backend
        backend.store = self

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """What a key leads to, or a part of it."""
        data = await (
            self.backend.read(key, _ANY_SIZE)
            if byte_range is None
            else self.backend.read_part(key, byte_range)
        )
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several, one after the other."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is such a key; whether its target exists is seen when it is read."""
        return await self.backend.has(key)

    async def getsize(self, key: str) -> int:
        """Size in bytes; FileNotFoundError."""
        size = await self.backend.size(key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def set(self, key: str, value: Buffer) -> None:
        """UsageError: references are read-only."""
        raise read_only()

    async def delete(self, key: str) -> None:
        """UsageError: references are read-only."""
        raise read_only()

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys with a prefix."""
        async for key in self.backend.keys(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below a prefix."""
        for name in await self.backend.children(prefix.strip("/")):
            yield name

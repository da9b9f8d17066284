import hashlib
from collections.abc import AsyncIterator

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest
from zarr.buffer import default_buffer_prototype

from zarrstack import StorageTransformer

VALUES = ".values/"
"""The folder of values by their hash; a key contains the hash of its value."""


class Dedup(StorageTransformer):
    """Stores equal values once; `clear` removes values, a removed key leaves its value."""

    name = "dedup"

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        link = await self._store.get(key, default_buffer_prototype())
        if link is None:
            return None
        return await self._store.get(VALUES + link.to_bytes().decode(), prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        name = hashlib.sha256(value.to_bytes()).hexdigest()
        await self._store.set_if_not_exists(VALUES + name, value)
        await self._store.set(key, type(value).from_bytes(name.encode()))

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        async for key in self._store.list_prefix(prefix):
            if not key.startswith(VALUES):
                yield key

    async def clear(self) -> None:
        self._check_writable()
        await self._store.clear()

"""Layers for tests of the contract: one that changes values, one that counts, and examples of all."""

from __future__ import annotations

from collections import Counter

from zarrstack.base.transformer import StorageTransformer


class Mask(StorageTransformer):
    """Stores every byte exclusive-or a mask: whoever passes it by reads nonsense."""

    name = "mask"
    in_metadata = True

    def __init__(self, store=None, *, mask=85):
        super().__init__(store)
        self._table = bytes(value ^ mask for value in range(256))

    async def get(self, key, prototype, byte_range=None):
        value = await self._store.get(key, prototype, byte_range)
        return None if value is None else prototype.buffer.from_bytes(value.to_bytes().translate(self._table))

    async def set(self, key, value):
        await self._store.set(key, type(value).from_bytes(value.to_bytes().translate(self._table)))


class Count(StorageTransformer):
    """Counts the primitives, and nothing else, by operation and key."""

    name = "count"

    def __init__(self, store=None):
        super().__init__(store)
        self.seen = Counter()

    async def get(self, key, prototype, byte_range=None):
        self.seen["get", key] += 1
        return await super().get(key, prototype, byte_range)

    async def set(self, key, value):
        self.seen["set", key] += 1
        await super().set(key, value)

    async def delete(self, key):
        self.seen["delete", key] += 1
        await super().delete(key)


class CountSync(Count):
    """Counts the same under the synchronous names."""

    name = "count-sync"
    awaits_only_below = True


class Top(StorageTransformer):
    """Says that it cannot be above `mask`."""

    name = "top"

    def check_below(self, layer):
        return "it needs the values as they are" if layer.name == "mask" else None

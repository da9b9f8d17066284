"""A store compared with a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis.strategies import DataObject
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype

from .operations import KEYS, expected, operations, perform


def compare(
    store: Store, draw: DataObject, keys: Sequence[str] = KEYS, *, leaves_folders: bool = False
) -> None:
    """Run random operations on an empty store and on a dictionary; AssertionError if results differ.

    `draw` comes from `hypothesis.strategies.data()`; the other arguments are as in `LayerTests`.
    """
    sequence = draw.draw(operations(keys), label="operations")

    async def run() -> None:
        model: dict[str, bytes] = {}
        for operation in sequence:
            wanted = expected(model, operation)
            actual = await perform(store, operation)
            if leaves_folders and operation[0] == "list_dir":
                empty = [name for name in actual if await store.is_empty(f"{operation[1]}/{name}")]
                actual = [name for name in actual if name in wanted or name not in empty]
            assert actual == wanted, operation

    asyncio.run(run())


def dump(store: Store) -> dict[str, bytes]:
    """Every key and value of a store."""

    async def read() -> dict[str, bytes]:
        content = {}
        for key in sorted([key async for key in store.list()]):
            value = await store.get(key, default_buffer_prototype())
            assert value is not None, key
            content[key] = value.to_bytes()
        return content

    return asyncio.run(read())

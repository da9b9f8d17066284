"""Listings over a sharded array: chunk keys derived from shard keys and indexes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from zarr.abc.store import Store

from ...base.chunks import ChunkNames
from ...core.paths import prefix_of
from .shard import Place

MAX_AT_ONCE: Final = 32
"""Indexes read concurrently."""


async def list_below(
    store: Store,
    prefix: str,
    names: ChunkNames,
    keys_in: Callable[[str, Place], Awaitable[list[str]]],
) -> AsyncIterator[str]:
    """Every key above that starts with `prefix`; `keys_in` returns the chunk keys of a shard."""
    region = names.region
    inside = prefix.startswith(region)
    batch: list[tuple[str, Place]] = []
    size = 1  # checking for any key reads one index only
    async for key in store.list_prefix(names.folder if inside else prefix):
        if (shard := names.coordinates(key)) is not None:
            batch.append((key, shard))
        elif key.startswith(prefix):
            yield key
        if len(batch) >= size:
            for chunk_key in await _expand(batch, keys_in):
                if chunk_key.startswith(prefix):
                    yield chunk_key
            batch, size = [], min(2 * size, MAX_AT_ONCE)
    for chunk_key in await _expand(batch, keys_in):
        if chunk_key.startswith(prefix):
            yield chunk_key


async def _expand(
    batch: list[tuple[str, Place]], keys_in: Callable[[str, Place], Awaitable[list[str]]]
) -> list[str]:
    groups = await asyncio.gather(*(keys_in(key, shard) for key, shard in batch))
    return [key for group in groups for key in group]


async def list_names(
    store: Store,
    prefix: str,
    names: ChunkNames,
    in_keys: Callable[[str], AsyncIterator[str]],
    is_empty: Callable[[str], Awaitable[bool]],
) -> AsyncIterator[str]:
    """The distinct names directly below a path above; folders only if they contain a key.

    `in_keys` returns those in the keys above, and `is_empty` whether there are none.
    """
    folder = prefix_of(prefix.strip("/"))
    inside = folder.startswith(names.region)
    if not inside and not names.region.startswith(folder):
        async for name in store.list_dir(prefix):
            yield name
        return
    # The name that leads to the chunks, unless it is part of the chunk keys.
    on_the_way, slash, _ = names.region[len(folder) :].partition("/")
    if inside or not slash:
        async for name in in_keys(folder):
            yield name
        return
    async for name in store.list_dir(prefix):
        path = folder + name
        if name != on_the_way or not await is_empty(path) or await store.exists(path):
            yield name

"""Lists a store in several ranges of keys at once.

A listing is a chain of requests, each of which needs the end of the one before: 1,000 keys in 50 ms or more.
Ranges need keys in order, as S3 gives them
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html); this is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from operator import ge
from typing import Any, Final, TypeAlias

from ..base import ListedPage

Pages: TypeAlias = AsyncGenerator[ListedPage, None]

_ALONE: Final = 20_000
"""Keys listed before the rest is divided: most arrays have fewer."""
_RANGES: Final = 32
_AT_ONCE: Final = 8


class UnorderedListingError(Exception):
    """A store does not list keys in order, or not from a given key on."""


def lists_ranges(store: Any) -> bool:
    """Whether a store of obstore starts a listing at a key, and gives keys in order.

    S3's directory buckets, whose names end with "--x-s3", give no order; for Azure, obstore lists all keys.
    """
    kind = type(store).__name__
    return kind == "GCSStore" or (
        kind == "S3Store" and not str(store.config.get("bucket")).endswith("--x-s3")
    )


async def pages_in_ranges(pages_after: Callable[[str], Pages], keys: Callable[[], Sequence[str]]) -> Pages:
    """All pages of a listing, in any order; UnorderedListingError if the store cannot list ranges.

    `pages_after` lists the keys that follow one ("" for all); `keys` gives some that may exist, whose order
    shows where to divide.
    """
    last, listed = "", 0
    async with aclosing(_ordered(pages_after(""), last)) as pages:
        async for page in pages:
            yield page
            last = page.keys[-1]
            listed += len(page.keys)
            if listed >= _ALONE:
                break
        else:
            return
    rest = sorted(key for key in keys() if key > last)
    bounds = sorted({rest[len(rest) * part // _RANGES] for part in range(1, _RANGES)}) if rest else []
    results: asyncio.Queue[ListedPage | Exception | None] = asyncio.Queue(_AT_ONCE)
    free = asyncio.Semaphore(_AT_ONCE)

    async def read(start: str, end: str | None) -> None:
        try:
            async with free, aclosing(_ordered(pages_after(start), start)) as pages:
                async for page in pages:
                    if end is not None and page.keys[-1] > end:
                        await results.put(page.only(key <= end for key in page.keys))
                        break
                    await results.put(page)
            await results.put(None)
        except Exception as error:  # noqa: BLE001 - raised by the receiver
            await results.put(error)

    ranges = list(zip([last, *bounds], [*bounds, None], strict=True))
    tasks = [asyncio.ensure_future(read(start, end)) for start, end in ranges]
    try:
        reading = len(ranges)
        while reading:
            item = await results.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                reading -= 1
            elif item.keys:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ordered(pages: Pages, last: str) -> Pages:
    """The same pages; UnorderedListingError unless all keys ascend, from `last` on."""
    async with aclosing(pages):
        async for page in pages:
            if not page.keys:
                continue
            if page.keys[0] <= last or any(map(ge, page.keys, page.keys[1:])):
                raise UnorderedListingError
            last = page.keys[-1]
            yield page

"""The abstract store interface of the 2022 draft, for any store of zarr-python 3.

Text: zarr-v3-core-draft-2022-05, "Abstract store interface". Most operations are methods of every zarr store:

    get           store.get(key, prototype)           erase         store.delete(key)
    set           store.set(key, value)               list          store.list()
    erase_prefix  store.delete_dir(prefix)            list_prefix   store.list_prefix(prefix)

The others are functions here, implemented with the fallbacks that the text recommends and with the same
guarantees: an operation that reads, changes and rewrites a value loses concurrent writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store
from zarr.core.buffer import Buffer, cpu
from zarr.core.buffer.core import default_buffer_prototype

from ...core.errors import UsageError


async def get_partial_values(
    store: Store, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
) -> list[bytes | None]:
    """Read parts of values, each (start, length) in bytes; a length of None reads to the end.

    Results are in the requested order, None for a missing key. Bytes past the end of a value are omitted.
    """
    asked = [(key, _request(key, *part)) for key, part in key_ranges]
    # Separate reads: LocalStore's `get_partial_values` fails for a missing key (3.1.6, 3.4.2).
    prototype = default_buffer_prototype()
    values = await asyncio.gather(*(store.get(key, prototype, part) for key, part in asked))
    return [None if value is None else value.to_bytes() for value in values]


def _request(key: str, start: int, length: int | None) -> ByteRequest | None:
    if start < 0 or (length is not None and length < 0):
        raise UsageError(
            "a range must have a start and a length of at least 0", key=key, found=f"{(start, length)}"
        )
    if length is None:
        return OffsetByteRequest(start) if start else None
    return RangeByteRequest(start, start + length)


async def set_partial_values(store: Store, key_start_values: Iterable[tuple[str, int, bytes]]) -> None:
    """Overwrite parts of values from byte `start` on; each key is read and written once.

    A missing key counts as empty. UsageError, before anything is written, if parts of one key overlap, or if
    a part starts past the end: the text does not define the bytes in between.
    """
    parts: dict[str, list[tuple[int, bytes]]] = {}
    for key, start, value in key_start_values:
        parts.setdefault(key, []).append((start, bytes(value)))
    changed = await asyncio.gather(*(_patched(store, key, sorted(some)) for key, some in parts.items()))
    await asyncio.gather(*(store.set(key, value) for key, value in zip(parts, changed, strict=True)))


async def _patched(store: Store, key: str, parts: list[tuple[int, bytes]]) -> Buffer:
    old = await store.get(key, default_buffer_prototype())
    content = bytearray(b"" if old is None else old.to_bytes())
    free = 0
    for start, value in parts:
        if start < free:
            raise UsageError("parts of a value overlap, or begin before it", key=key, found=f"byte {start}")
        if start > len(content):
            raise UsageError(
                "a part begins beyond the end of its value",
                key=key,
                found=f"byte {start}",
                expected=f"at most {len(content)}",
            )
        free = start + len(value)
        content[start:free] = value
    return cpu.Buffer.from_bytes(bytes(content))


async def erase_values(store: Store, keys: Iterable[str]) -> None:
    """Erase keys one by one; missing ones are not an error."""
    await asyncio.gather(*(store.delete(key) for key in set(keys)))


async def list_dir(store: Store, prefix: str) -> tuple[set[str], set[str]]:
    """Return the keys and the prefixes directly below a prefix: `a/b` and `a/d/` below `a/`.

    UsageError for a prefix without a trailing slash; "" stands for the whole store. Uses `list_prefix`,
    because zarr's `list_dir` does not distinguish keys from prefixes.
    """
    if prefix and not prefix.endswith("/"):
        raise UsageError("a prefix must end with a slash", found=prefix, expected=f"{prefix}/")
    keys: set[str] = set()
    prefixes: set[str] = set()
    async for key in store.list_prefix(prefix):
        name, slash, _ = key[len(prefix) :].partition("/")
        (prefixes if slash else keys).add(f"{prefix}{name}{slash}")
    return keys, prefixes

"""The arrays of a store and their numbers of axes, from its metadata; for rules about chunk keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import islice
from typing import Final

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype

from ...base.chunks import DOCUMENTS
from ...core.errors import MetadataError
from ...core.json_text import excerpt

AT_ONCE: Final = 32
"""Documents read concurrently."""


async def documents_of_arrays(
    store: Store, above: Callable[[str], str | None] = lambda key: key
) -> dict[str, int]:
    """Return the documents of all arrays in a store (Zarr v2 and v3) with their numbers of axes.

    `above` maps a stored key to its key above, or to None; the result has the keys above. MetadataError for
    an unreadable document, because its array's chunks could not be mapped.
    """
    keys = {}
    async for key in store.list_prefix(""):
        name = above(key)
        if name is not None and array_of(name) is not None:
            keys[key] = name
    ndims: dict[str, int] = {}
    rest = iter(keys)
    while some := list(islice(rest, AT_ONCE)):
        values = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in some))
        for key, value in zip(some, values, strict=True):
            ndim = None if value is None else _axes(key, keys[key], value.to_bytes())
            if ndim is not None:
                ndims[keys[key]] = ndim
    return ndims


def array_of(key: str) -> str | None:
    """Path of the node if this key is a document that may be an array's; None for other keys."""
    folder, _, name = key.rpartition("/")
    return folder if name in DOCUMENTS else None


def _axes(key: str, name: str, text: bytes) -> int | None:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MetadataError("layer 'rekey': a document is not JSON", key=key, found=str(error)) from None
    if not isinstance(document, dict):
        raise MetadataError(
            "layer 'rekey': a document is not a JSON object", key=key, found=excerpt(document)
        )
    if name.endswith("zarr.json") and document.get("node_type") != "array":
        return None
    shape = document.get("shape")
    if not isinstance(shape, list):
        raise MetadataError("layer 'rekey': an array has no shape", key=key, found=excerpt(shape))
    return len(shape)

"""The arrays of a store and their numbers of axes, as its metadata say: for rules about chunk keys."""

from __future__ import annotations

import asyncio
import json

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype

from .core.errors import MetadataError
from .core.jsons import excerpt
from .rekey_chunks import META_ROOT

AT_ONCE = 32


async def documents_of_arrays(store: Store) -> dict[str, int]:
    """Keys of the documents of all arrays in a store, of Zarr v2, v3 and the draft, with their axes.

    MetadataError for a document that cannot be read: its array's chunks would not be found.
    """
    keys = [key async for key in store.list_prefix("") if array_of(key) is not None]
    found: dict[str, int] = {}
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        values = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in some))
        for key, value in zip(some, values, strict=True):
            if value is None:
                continue
            ndim = _axes(key, value.to_bytes())
            if ndim is not None:
                found[key] = ndim
    return found


async def arrays_in(store: Store) -> dict[str, int]:
    """The number of axes of each array in a store, by its path. MetadataError as above."""
    documents = await documents_of_arrays(store)
    return {path: ndim for key, ndim in documents.items() if (path := array_of(key)) is not None}


def array_of(key: str) -> str | None:
    """The path of the node that may be an array if this is its document; None for other keys."""
    folder, _, name = key.rpartition("/")
    if key == META_ROOT + ".array.json":
        return ""
    if key.startswith(META_ROOT + "/") and name.endswith(".array.json"):
        return key.removeprefix(META_ROOT + "/").removesuffix(".array.json")
    return folder if name in {"zarr.json", ".zarray"} else None


def _axes(key: str, text: bytes) -> int | None:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MetadataError("layer 'rekey': a document is no JSON", key=key, found=str(error)) from None
    if not isinstance(document, dict):
        raise MetadataError("layer 'rekey': a document is no JSON object", key=key, found=excerpt(document))
    if key.endswith("zarr.json") and document.get("node_type") != "array":
        return None
    shape = document.get("shape")
    if not isinstance(shape, list):
        raise MetadataError("layer 'rekey': an array has a shape", key=key, found=excerpt(shape))
    return len(shape)

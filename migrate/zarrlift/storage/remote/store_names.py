"""Names of zarr stores in messages, plans and jobs."""

from __future__ import annotations

import secrets
import weakref
from typing import Any


def url_of(store: Any) -> str:
    """The name of a store given as an object; it is a URL only if the store can be opened again."""
    if type(store).__name__ == "FsspecStore":
        protocol = store.fs.protocol if isinstance(store.fs.protocol, str) else store.fs.protocol[0]
        path = str(store.path)
        return path if "://" in path else f"{protocol}://{path.lstrip('/') if protocol != 'file' else path}"
    return f"{type(store).__name__}:{_token(store)}"


_tokens: dict[int, tuple[weakref.ref[Any], str]] = {}


def _token(store: Any) -> str:
    """A unique identifier for a store that exists only in this process.

    Jobs outlive stores, and `id` is reused: a later store could be mistaken for an earlier job's finished
    destination.
    """
    entry = _tokens.get(id(store))
    if entry is None or entry[0]() is not store:
        entry = _tokens[id(store)] = (weakref.ref(store), secrets.token_hex(4))
    return entry[1]

"""Names of cached sources, which keep several sources apart in one disk tier."""

from __future__ import annotations

import hashlib
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, LoggingStore, ZipStore

from ...base.descend import descend
from ...base.locations import location_of
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...core.json_text import canonical


def source_of(store: Store) -> str:
    """Return a name that every process derives for these bytes, and for no others.

    It contains the location and every layer with its configuration, because a layer may change the bytes.
    UsageError if no such name exists: a MemoryStore's address, for example, may be reused.
    """
    return "\n".join(name for each in descend(store) if (name := _name(each)) is not None)


def source_digest(source: str) -> str:
    """Digest of a source name, 32 hexadecimal digits."""
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _name(store: Any) -> str | None:
    """Name of one store of a stack; None for a wrapper that does not change bytes."""
    if isinstance(store, StorageTransformer):
        return canonical(store.to_json())
    # Exact types: a subclass may interpret its location differently, unless it sets `reads_as`.
    kind = getattr(type(store), "reads_as", type(store))
    if kind is LoggingStore:
        return None
    if kind in (LocalStore, ZipStore) or (kind is FsspecStore and "memory" not in _protocols(store)):
        return repr(location_of(store))
    raise UsageError(
        "layer 'cache': a disk tier needs a name for the store below, and none can be derived from this one",
        found=repr(store),
        advice="Pass a name: Cache(store, disk=..., source='name').",
    )


def _protocols(store: FsspecStore) -> tuple[str, ...]:
    protocol = getattr(store.fs, "sync_fs", store.fs).protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)

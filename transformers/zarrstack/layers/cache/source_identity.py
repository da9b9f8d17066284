"""Names of cached sources, which keep several sources apart in one disk tier."""

from __future__ import annotations

import hashlib
import os

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, LoggingStore, ZipStore

from ...base.descend import descend
from ...base.locations import without_secrets
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...core.json_text import canonical


def source_of(store: Store) -> str:
    """Return a name that every process derives for these bytes, and for no others.

    It contains the location and every layer with its configuration, because a layer may change the bytes.
    UsageError if no such name exists: a MemoryStore's address, for example, may be reused.
    """
    names = [name for each in descend(store) if (name := _name(each)) is not None]
    return "\n".join(names)


def source_digest(source: str) -> str:
    """Digest of a source name, 32 hexadecimal digits."""
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _name(store: Store) -> str | None:
    """Name of one store of a stack; None for a wrapper that does not change bytes."""
    if isinstance(store, StorageTransformer):
        return canonical(store.to_json())
    # Exact types: a subclass may interpret its location differently, unless it sets `reads_as`.
    kind = getattr(type(store), "reads_as", type(store))
    if kind is LoggingStore:
        return None
    if kind is LocalStore:
        assert isinstance(store, LocalStore)
        return "file://" + os.path.realpath(store.root)
    if kind is ZipStore:
        assert isinstance(store, ZipStore)
        return "zip://" + os.path.realpath(store.path)
    if kind is FsspecStore:
        assert isinstance(store, FsspecStore)
        return _fsspec_name(store)
    raise _nameless(store)


def _fsspec_name(store: FsspecStore) -> str:
    system = getattr(store.fs, "sync_fs", store.fs)
    protocol = system.protocol
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    if "memory" in protocols:
        raise _nameless(store)
    # The options tell endpoints apart; with a new token, the values are the same.
    options = hashlib.blake2b(without_secrets(system.storage_options).encode(), digest_size=16)
    return f"{protocols[0]}://{store.path} {type(system).__name__} {options.hexdigest()}"


def _nameless(store: Store) -> UsageError:
    return UsageError(
        "layer 'cache': a disk tier needs a name for the store below, and none can be derived from this one",
        found=repr(store),
        advice="Pass a name: Cache(store, disk=..., source='name').",
    )

"""Storage transformers on either side of a migration (`--source-through retry,log:...`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zarrstack.core.errors import UsageError

from .base import Storage
from .local.storage import LocalStorage
from .redact import redact

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from zarrstack.base.transformer import StorageTransformer

    from .remote.store_storage import StoreStorage


def without_layers(storage: Storage) -> Storage:
    """The storage below all `zarrstack` layers over a storage's store, where writes end up."""
    if isinstance(storage, LocalStorage):
        return storage
    from .remote.store_storage import StoreStorage

    if not isinstance(storage, StoreStorage):
        return storage
    from zarr.storage import LocalStore

    from zarrstack.base.transformer import StorageTransformer

    from .remote.storage_as_store import StorageAsStore
    from .remote.store_at import storage_of

    store = storage.backing
    while isinstance(store, StorageTransformer):
        store = store.below
    if store is storage.backing:
        return storage
    if isinstance(store, StorageAsStore) and not storage.base:
        return store.storage
    return (
        LocalStorage(store.root / storage.base)
        if type(store) is LocalStore
        else storage_of(store, storage.base)
    )


def refuse_buffers(store: Store) -> None:
    """Refuse a destination that returns before a value is stored: a job records what it has written."""
    from zarrstack.base.descend import descend
    from zarrstack.base.layer import Layer

    for layer in descend(store):
        if isinstance(layer, Layer) and layer.buffers:
            raise UsageError(
                f"the layer {layer.name!r} keeps values in memory, where a job that is killed loses them",
                found=layer.describe(),
                expected="a destination that stores each value at once",
                advice="Leave this layer out; a job writes each object once anyway.",
            )


def with_layers(storage: Storage, text: str | None, *, written: bool = False) -> Storage:
    """The storage through the layers named in `text`, ordered from the migration down to the store.

    The text has the form of `zarrstack.parse_stack`. A local directory that is not to be
    `written` is accessed directly if no layer needs the bytes (`readonly` refuses writes). Raises UsageError
    for unknown layers, options and orders, for layers with secret options, and for one that writes nothing,
    or later, to a place that is to be written.
    """
    if text is None:
        return storage

    from zarrstack.base.stack import parse_stack
    from zarrstack.layers.readonly import ReadOnly

    if redact(text) != text:
        # The job stores the text.
        raise UsageError(
            "a URL of a layer has a user, a password or a query, which a job file must not contain",
            advice="Use Python: pass zarrlift.migrate a store that contains the layers.",
        )
    layers = parse_stack(text)
    for layer in layers:
        if layer.secrets & layer.options.keys():
            # The job stores the text, and keys of an encrypted place must not be stored next to it.
            raise UsageError(
                f"the layer {layer.name!r} has secret options, which a job file must not contain",
                advice="Use Python: pass zarrlift.migrate a store that contains the layers.",
            )
    if not written and isinstance(storage, LocalStorage) and all(type(layer) is ReadOnly for layer in layers):
        return storage
    result = through(storage, layers)
    if written:
        for layer in reversed(layers):
            if layer.read_only or not layer.supports_writes:
                raise UsageError(
                    f"the layer {layer.name!r} does not support writes",
                    found=text,
                    expected="layers that support writes",
                    advice="Remove it, or use it for the source.",
                )
        refuse_buffers(result.backing)
    return result


def through(storage: Storage, layers: Sequence[StorageTransformer]) -> StoreStorage:
    """The storage through these layers, ordered from the migration down to the store."""
    from zarrstack.base.stack import stack

    from .local.layered_store import LayeredLocalStore
    from .remote.store_storage import StoreStorage

    # `zarr_store()` of a missing directory is an empty store, which cannot be written to.
    local = storage if isinstance(storage, LocalStorage) else None
    store = storage.zarr_store() if local is None else LayeredLocalStore.of(local)
    result = StoreStorage(stack(store, *layers), url=storage.url)
    result.layered = local or storage.layered
    if all(layer.transparent for layer in layers):
        result.beneath = storage
    result.document_limit = storage.document_limit
    result.can_list = storage.can_list
    result.in_process = storage.in_process
    return result

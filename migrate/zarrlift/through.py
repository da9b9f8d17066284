"""A stack of storage transformers under either side of a migration (`--source-through retry,log:...`)."""

from __future__ import annotations

from zarrstack.core.errors import UsageError

from .storage import LocalStorage, Storage


def through(storage: Storage, text: str | None) -> Storage:
    """The storage seen through the layers that `text` names, from the migration down to the store.

    The text is what `zarrstack.registry.parse_stack` takes. A local directory stays on the
    fast path where no layer has to see the bytes (`readonly` refuses writes, and a source is
    not written to). Raises UsageError for unknown layers, options and orders.
    """
    if text is None:
        return storage
    from zarr.storage import LocalStore

    from zarrstack.readonly import ReadOnly
    from zarrstack.registry import parse_stack
    from zarrstack.transformer import stack

    from .storage_zarr import StoreStorage

    layers = parse_stack(text)
    if isinstance(storage, LocalStorage) and all(type(layer) is ReadOnly for layer in layers):
        return storage
    # `zarr_store()` of a directory that is not there yet is an empty store, which nothing may be written to.
    store = LocalStore(storage.root) if isinstance(storage, LocalStorage) else storage.zarr_store()
    result = StoreStorage(stack(store, *layers), url=storage.url)
    result.can_list = storage.can_list
    result.in_process = storage.in_process
    return result


def lasting(text: str | None) -> str | None:
    """The text as a job may keep it; UsageError for layers whose options are secret.

    What opens an encrypted place must not lie beside it.
    """
    if text is None:
        return None
    from zarrstack.registry import parse_stack

    for layer in parse_stack(text):
        if layer.secrets & layer.options.keys():
            raise UsageError(
                f"the layer {layer.name!r} has secret options, which a job file may not hold",
                advice="Use Python: hand zarrlift.migrate a store with the stack over it.",
            )
    return text

"""Storage transformers on either side of a migration (`--source-through retry,log:...`)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSON

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


MAIN_OPTIONS: Final = {
    "cache": "disk",
    "log": "events",
    "retry": "attempts",
    "throttle": "bytes_per_second",
    "write-back": "memory_bytes",
}
"""The option of a layer that a value without a name sets: `log:a.jsonl` is `Log(events="a.jsonl")`."""


def parse_layers(text: str) -> list[StorageTransformer]:
    """Parse a text into layers, from the migration down to the store.

    The text has `name`, `name:value` and `name:option=value:option=value`, separated by commas. Values are
    parsed as JSON if possible (5, true, null), otherwise they are text. Options that text cannot express are
    given by a list in JSON, as in `storage_transformers`. UsageError for an unknown layer, an invalid option,
    or text that is neither.
    """
    from zarrstack.base.stack import layers_from_json

    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise UsageError(
                "this stack is not valid JSON", found=str(error), expected="a list of layers"
            ) from error
    else:
        entries = [_entry(part.strip(), text) for part in text.split(",")]
    return layers_from_json(entries)


def _entry(part: str, text: str) -> JSON:
    """One layer of the text as an entry of `storage_transformers`."""
    from zarrstack.base.registry import find

    name, _, rest = part.partition(":")
    if not name:
        raise UsageError(
            "a layer has no name", found=repr(text), expected="retry,throttle:50MB/s,log:events.jsonl"
        )
    options: dict[str, Any] = {}
    for each in re.split(r":(?=[A-Za-z_]\w*=)", rest) if rest else ():
        option, equals, value = each.partition("=")
        if not equals or not option.isidentifier():
            option, value = MAIN_OPTIONS.get(name, ""), each
        if not option:
            kind = find(name)
            raise UsageError(
                f"layer {name!r} takes no value without the name of an option",
                found=None if kind.secrets else each,
                expected=":".join(f"{known}=..." for known in kind.option_names()) or "no options",
            )
        try:
            options[option] = json.loads(value)
        except ValueError:
            options[option] = value
    return {"name": name, "configuration": options}


def with_layers(storage: Storage, text: str | None, *, written: bool = False) -> Storage:
    """The storage through the layers named in `text`, ordered from the migration down to the store.

    The text has the form of `parse_layers`. A local directory that is not to be
    `written` is accessed directly if no layer needs the bytes (`readonly` refuses writes). Raises UsageError
    for unknown layers, options and orders, for layers with secret options, and for one that writes nothing,
    or later, to a place that is to be written.
    """
    if text is None:
        return storage

    from zarrstack.layers.readonly import ReadOnly

    if redact(text) != text:
        # The job stores the text.
        raise UsageError(
            "a URL of a layer has a user, a password or a query, which a job file must not contain",
            advice="Use Python: pass zarrlift.migrate a store that contains the layers.",
        )
    layers = parse_layers(text)
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

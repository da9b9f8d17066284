"""Stacks as JSON and as text.

A stack as JSON is the list in an array's `storage_transformers`, from the array down to the store; as text it
is a command-line argument such as `retry,throttle:50MB/s,log:events.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from zarr.abc.store import Store

from ..core.errors import UsageError
from ..core.json_text import JSON, JSONObject
from .descend import descend
from .description import split_entry
from .registry import find
from .transformer import StorageTransformer


def layers_from_json(entries: Iterable[JSON]) -> list[StorageTransformer]:
    """Create the layers of a `storage_transformers` list, for `stack(store, *layers)`.

    Each entry is `{"name", "configuration"}`, or the name alone.
    """
    parts = (split_entry(entry) for entry in entries)
    return [find(name).from_json({"name": name, "configuration": options}) for name, options in parts]


def stack_to_json(store: Store) -> list[JSONObject]:
    """The layers of a stack as in `storage_transformers`, from the array down, without the store below.

    `store` is the stack.

    Raises
    ------
    UsageError
        For an option that has no JSON form, such as a callback.

    Examples
    --------
    >>> zarrstack.stack_to_json(zarrstack.stack(MemoryStore(), zarrstack.Checksum()))
    [{'name': 'zarrstack.checksum', 'configuration': {}}]
    """
    stores = descend(store, through=StorageTransformer)
    return [layer.to_json() for layer in stores if isinstance(layer, StorageTransformer)]


def parse_stack(text: str) -> list[StorageTransformer]:
    """Parse a command-line text into layers, from the array down, for `stack(store, *layers)`.

    `text` has `name`, `name:value` and `name:option=value:option=value`, separated by commas; or, for options
    that text cannot express, it is JSON: a list as in `storage_transformers`.

    Raises
    ------
    UsageError
        For an unknown layer, an invalid option, or text that is neither.

    Examples
    --------
    >>> zarrstack.parse_stack("retry:5,cache:memory_bytes=1000")
    [Retry(attempts=5), Cache(memory_bytes=1000)]
    """
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise UsageError(
                "this stack is not valid JSON", found=str(error), expected="a list of layers"
            ) from error
        return layers_from_json(entries)
    layers = []
    for part in text.split(","):
        name, _, options = part.strip().partition(":")
        if not name:
            raise UsageError(
                "a layer has no name", found=repr(text), expected="retry,throttle:50MB/s,log:events.jsonl"
            )
        layers.append(find(name).from_text(options))
    return layers

"""Stacks: `stack()`, which puts layers over a store, and their layers as JSON.

As JSON, a stack is the list in an array's `storage_transformers`, from the array down to the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar, overload

from zarr.abc.store import Store
from zarr.storage import LocalStore, StoreLike, StorePath

from ..core.errors import UsageError
from ..core.json_text import JSON, JSONObject
from ..system.zarr_internals import make_store, sync
from .descend import UNBOUND, descend
from .description import split_entry
from .registry import find
from .transformer import StorageTransformer

Top = TypeVar("Top", bound=StorageTransformer)


@overload
def stack(store: StoreLike, *, storage_options: Mapping[str, Any] | None = None) -> Store: ...


@overload
def stack(
    store: StoreLike,
    top: Top,
    /,
    *layers: StorageTransformer,
    storage_options: Mapping[str, Any] | None = None,
) -> Top: ...


def stack(
    store: StoreLike, *layers: StorageTransformer, storage_options: Mapping[str, Any] | None = None
) -> Store:
    """Put `layers` over a store, given from the array down, and return the topmost.

    `store` is anything that zarr accepts as one: a store, path, URL (with `storage_options`) or dictionary.

    `stack(store, Log(), Cache())` logs the array's requests; the cache answers those it can, and only the
    others reach `store`. The layers are bound to their stores, not copied, so `log.summary()` continues to
    work.

    Raises
    ------
    UsageError
        With the reason, for an order that a layer refuses, and for a layer that has a store
        already. After any error no layer is bound.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.ReadOnly(), zarrstack.Cache())
    >>> [type(layer).__name__ for layer in (store, store.below)]
    ['ReadOnly', 'Cache']
    """
    bottom = store_of(store, storage_options)
    for place, layer in enumerate(layers):
        if not isinstance(layer, StorageTransformer):
            raise UsageError(
                "a stack consists of layers", found=repr(layer), expected="stack(store, Layer(), ...)"
            )
        if not hasattr(layer, "_store"):
            advice = "Call super().__init__(store) in its __init__."
            raise UsageError(f"layer {layer.name!r} is not initialised", advice=advice)
        if layer.below is not UNBOUND or any(layer is other for other in layers[:place]):
            raise UsageError(
                f"layer {layer.name!r} has a store already",
                found=repr(layer),
                advice="Create a separate layer for each position.",
            )
        below = [each for each in descend(bottom) if isinstance(each, StorageTransformer)]
        for other in (*layers[place + 1 :], *below):
            if (reason := layer.check_below(other)) is not None:
                raise UsageError(f"layer {layer.name!r} cannot be above {other.name!r}: {reason}")
    for layer in reversed(layers):
        layer._store = bottom  # noqa: SLF001
        bottom = layer
    return bottom


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
    >>> zarrstack.stack_to_json(zarrstack.stack(MemoryStore(), zarrstack.ReadOnly()))
    [{'name': 'zarrstack.readonly', 'configuration': {}}]
    """
    stores = descend(store, through=StorageTransformer)
    return [layer.to_json() for layer in stores if isinstance(layer, StorageTransformer)]


def store_of(store: StoreLike, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store; `storage_options` apply to a URL. UsageError if invalid, or a path within a store.

    A path is not accessed before the store is used: zarr would create a directory there.
    """
    if isinstance(store, StorePath) and not store.path:
        store = store.store
    if isinstance(store, Store) and storage_options is None:
        return store
    if isinstance(store, str | os.PathLike) and storage_options is None and _is_plain_path(os.fspath(store)):
        return LocalStore(os.fspath(store))
    if store not in (None, "") and not isinstance(store, StorePath):
        with naming_packages(store):
            try:
                return sync(make_store(store, storage_options=as_dict(storage_options)))
            except (TypeError, ValueError) as error:
                raise _no_store(store, str(error)) from error
    raise _no_store(store, None)


def as_dict(storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options as zarr takes them."""
    return None if storage_options is None else dict(storage_options)


def _is_plain_path(text: str) -> bool:
    return bool(text) and "://" not in text and "::" not in text


_PACKAGES: Final = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
}
"""URL scheme -> what fsspec needs besides itself."""


@contextmanager
def naming_packages(store: object) -> Iterator[None]:
    """Raise UsageError with the package of a URL that is not installed, in place of an ImportError."""
    try:
        yield
    except ImportError as error:
        if not isinstance(store, str):
            raise
        scheme = store.rpartition("://")[0].rpartition("::")[2]
        message = f"{scheme}:// needs a package that is not installed"
        command = f"pip install fsspec {_PACKAGES.get(scheme, '')}".strip()
        raise UsageError(message, found=str(error), advice=f"Install it: {command}.") from error


def _no_store(store: object, why: str | None) -> UsageError:
    return UsageError(
        "a stack needs a store below it",
        found=repr(store) if why is None else f"{store!r} ({why})",
        expected="a zarr Store, such as LocalStore, a path, a URL or a dictionary",
    )

"""`stack()`, which puts layers over a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from zarr.abc.store import Store
from zarr.storage import StoreLike

from ..core.errors import UsageError
from .descend import UNBOUND, descend
from .store_like import store_of
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
    try:
        for layer in reversed(layers):
            bottom = layer.bind(bottom)
    except BaseException:
        for layer in layers:
            layer._store = UNBOUND  # noqa: SLF001
        raise
    return bottom

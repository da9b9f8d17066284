"""The stores below a layer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any, Final, cast

from zarr.abc.store import Store
from zarr.storage import WrapperStore

from ..core.errors import UsageError
from .sync_calls import Synchronous


class _Unbound:
    """The store of a layer that has none yet; any use raises a UsageError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(
            "this layer has no store yet",
            advice="Pass one: stack(store, layer), or as the layer's first argument.",
        )

    def __reduce__(self) -> str:
        return "UNBOUND"

    def __repr__(self) -> str:
        return "no store"


UNBOUND: Final = cast("Store", _Unbound())
"""The store of a layer without one."""


def descend(store: Store, *, through: type[Store] = WrapperStore) -> Iterator[Store]:
    """A store and those below it, from the array down; only stores of type `through` are descended into."""
    if isinstance(store, Synchronous):
        store = store.store
    yield store
    while isinstance(store, through):
        store = store._store  # type: ignore[attr-defined]  # noqa: SLF001
        if store is UNBOUND:
            return
        yield store


def remove_below(store: Store, path: str) -> Awaitable[None]:
    """Remove every key below a path.

    `delete_dir("")` of a LocalStore removes its root, after which it cannot be cleared.
    """
    return store.delete_dir(path) if path.strip("/") else store.clear()


def serves_sync(store: Store) -> bool:
    """Whether a store can currently read, write and delete without an event loop.

    The rule of zarr 3.4.2's private `_store_supports_sync_io`, which 3.1.6 does not have.
    """
    methods = ("get_sync", "set_sync", "delete_sync")
    has_all = all(callable(getattr(store, method, None)) for method in methods)
    return has_all and bool(getattr(store, "_supports_sync_io", True))

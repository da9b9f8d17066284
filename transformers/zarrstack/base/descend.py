"""What lies under a layer: nothing yet, or stores one over the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from zarr.abc.store import Store
from zarr.storage import WrapperStore

from ..core.errors import UsageError


class _Unbound:
    """Stands where a layer has no store yet; whatever is asked of it says so."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(
            "this layer has no store yet",
            advice="Give it one: stack(store, layer), or the layer's first argument.",
        )

    def __reduce__(self) -> str:
        return "UNBOUND"

    def __repr__(self) -> str:
        return "no store"


UNBOUND: Final = cast("Store", _Unbound())
"""The store of a layer that has none yet."""


def descend(store: Store, *, through: type[Store] = WrapperStore) -> Iterator[Store]:
    """The store and the stores under it, from the array down; only stores of type `through` are opened."""
    yield store
    while isinstance(store, through):
        store = store._store  # type: ignore[attr-defined]  # noqa: SLF001
        if store is UNBOUND:
            return
        yield store


def serves_sync(store: Store) -> bool:
    """Whether a store reads, writes and deletes without an event loop right now.

    The rule of zarr 3.4.2's private `_store_supports_sync_io`, which 3.1.6 does not have.
    """
    methods = ("get_sync", "set_sync", "delete_sync")
    has_all = all(callable(getattr(store, method, None)) for method in methods)
    return has_all and bool(getattr(store, "_supports_sync_io", True))

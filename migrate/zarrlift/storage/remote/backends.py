"""Selects the library below a store by the store's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .backend import HTTP

if TYPE_CHECKING:
    from collections.abc import Callable

    from zarr.abc.store import Store

    from .backend import Backend


def native(store: Store) -> Backend | None:
    """The library below a store; None for a store that is not a plain wrapper, such as a stack of layers."""
    from zarr.storage import FsspecStore

    if type(store) is FsspecStore:
        from .backend_fsspec import FsspecBackend, protocols

        if protocols(store) & HTTP:
            from .backend_http import HttpBackend

            return HttpBackend(store)
        return FsspecBackend(store)
    if is_obstore(store):
        from .backend_obstore import ObstoreBackend

        return ObstoreBackend(store)
    # A store of ours brings its own. Asked of its type: layers forward attributes of the store below.
    bring: Callable[[Store], Backend] | None = getattr(type(store), "as_backend", None)
    return None if bring is None else bring(store)


def is_obstore(store: Any) -> bool:
    """Whether a store is zarr's obstore wrapper; does not import obstore, which is optional."""
    kind = type(store)
    return kind.__name__ == "ObjectStore" and kind.__module__.startswith("zarr.storage")

"""The library below a store, by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .backend import HTTP, Native

if TYPE_CHECKING:
    from zarr.abc.store import Store


def native(store: Store) -> Native | None:
    """The library below a store; None for stores that are more than a wrapper, such as stacks of layers."""
    from zarr.storage import FsspecStore

    if type(store) is FsspecStore:
        from .backend_fsspec import Fsspec, protocols

        if protocols(store) & HTTP:
            from .backend_http import Http

            return Http(store)
        return Fsspec(store)
    if is_obstore(store):
        from .backend_obstore import Obstore

        return Obstore(store)
    return None


def is_obstore(store: Any) -> bool:
    """Whether it is zarr's store over obstore; told without importing obstore, which may not be there."""
    kind = type(store)
    return kind.__name__ == "ObjectStore" and kind.__module__.startswith("zarr.storage")

"""Stores from any `zarr.storage.StoreLike`: a path, a URL, a dictionary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, StorePath
from zarr.storage._common import make_store

from ..core.errors import UsageError

if TYPE_CHECKING:
    from zarr.storage import StoreLike


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
        try:
            return sync(make_store(store, storage_options=as_dict(storage_options)))
        except (TypeError, ValueError, ImportError) as error:
            raise _no_store(store, str(error)) from error
    raise _no_store(store, None)


def as_dict(storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options as zarr takes them."""
    return None if storage_options is None else dict(storage_options)


def _is_plain_path(text: str) -> bool:
    return bool(text) and "://" not in text and "::" not in text


def _no_store(store: object, why: str | None) -> UsageError:
    return UsageError(
        "a stack needs a store below it",
        found=repr(store) if why is None else f"{store!r} ({why})",
        expected="a zarr Store, such as LocalStore, a path, a URL or a dictionary",
    )

"""Which objects a store writes to, so that stores which share them find each other within this process."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from zarr.abc.store import Store
from zarr.storage import LoggingStore, WrapperStore, ZipStore

from .descend import UNBOUND, descend
from .transformer import StorageTransformer


class Location(NamedTuple):
    """A location; the full name of an object is `base` and its key."""

    place: Hashable
    """Equal for stores that share objects, and possibly for others: for locks."""
    base: str
    exact: Hashable
    """Equal only for stores that share objects and translate keys and values alike: for values."""


_twins: Final[dict[int, Location]] = {}
"""Locations of copies of stores of unknown kinds, by the copy's `id`, as long as it lives."""


def location_of(store: Store) -> Location:
    """The location of a store, through all layers.

    A local folder is identified by its real path, a MemoryStore by its dictionary, a file system by its
    options. Of any other kind, only the same object and its copies are known to be equal.
    """
    translations: list[Hashable] = []
    for each in descend(store):
        if isinstance(each, StorageTransformer):
            if not each.transparent:
                translations.append((type(each), repr(sorted(each.options.items()))))
        elif not isinstance(each, LoggingStore):
            own = _own_location(each)
            if isinstance(each, WrapperStore):  # it may translate keys and values
                *_, last = descend(each)
                below = _own_location(last)
                own = Location(below.place, below.base, own.exact)
            return Location(own.place, own.base, (own.exact, *translations))
    raise AssertionError(store)


def _own_location(store: Any) -> Location:
    if (twin := _twins.get(id(store))) is not None:
        return twin
    place: Hashable
    if (objects := getattr(store, "_store_dict", None)) is not None:
        place = ("memory", id(objects))
        return Location(place, _folder(getattr(store, "path", "")), place)
    if (root := getattr(store, "root", None)) is not None:
        return Location("folder", _folder(Path(os.path.realpath(root)).as_posix()), "folder")
    if (system := getattr(store, "fs", None)) is not None:
        system = getattr(system, "sync_fs", system)
        kind = ("file system", type(system))
        options = without_secrets(getattr(system, "storage_options", {}))
        return Location(kind, _folder(store.path), (*kind, options))
    if isinstance(store, ZipStore):
        place = ("zip", os.path.realpath(store.path))
        return Location(place, "", place)
    # ObjectStore shows its location in its repr (zarr 3.1.6, 3.4.2).
    place = (type(store).__qualname__, repr(store))
    inner = getattr(store, "store", store)
    return Location(place, "", ("store", id(inner)))


_SECRET: Final = re.compile(
    r"(^|[_-])(key|keys|secret|token|pass|password|passwd|passphrase|credentials?|auth|authorization|sas|"
    r"cookies?|signature|session)([_-]|$)",
    re.IGNORECASE,
)
"""Names of options that say who asks, not what is there."""
_SECRET_PARTS: Final = re.compile(
    r"(?<=://)[^/@\s]*@|(AccountKey|SharedAccessSignature)=[^;']*", re.IGNORECASE
)
"""The same within a text: a user in a URL, a key in a connection string."""


def without_secrets(options: Mapping[str, Any]) -> str:
    """The options of a file system as a text that stays the same with other credentials."""
    shown = {
        name: without_secrets(value) if isinstance(value, Mapping) else _SECRET_PARTS.sub("", repr(value))
        for name, value in options.items()
        if not _SECRET.search(str(name))
    }
    return repr(sorted(shown.items()))


def _folder(path: Any) -> str:
    text = str(path).rstrip("/")
    return f"{text}/" if text else ""


def same_location(copy: Store, store: Store) -> None:
    """Record that a copy, such as a read-only one, has the objects of the store that it was made from."""
    for one, other in zip(descend(copy), descend(store), strict=False):
        if isinstance(one, StorageTransformer | LoggingStore):
            continue
        if one is not other:
            location = _own_location(other)
            if _own_location(one).exact != location.exact:
                _twins[id(one)] = location
                weakref.finalize(one, _twins.pop, id(one), None)
        if not isinstance(one, WrapperStore):
            return


class Located(StorageTransformer):
    """Base of layers that share something with others over the same objects."""

    @cached_property
    def _where(self) -> Location:
        return location_of(self._store)

    def _with_store(self, store: Store) -> Self:
        if self._store is not UNBOUND:
            _ = self._where  # a copy has that of the original
            same_location(store, self._store)
        return super()._with_store(store)

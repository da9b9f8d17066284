"""An error in place of a hang: stores of obstore in a process forked after its parent used obstore.

obstore has one runtime per process, which its first request starts. The runtime's threads do not run in a
forked child, where every request waits for them for ever, through a store that the child makes too (obstore
0.12.1). Stores are replaced when a process forks, so that no request takes longer.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

from zarr.abc.store import Store
from zarr.storage import ObjectStore, WrapperStore

from ..core.errors import StorageError
from ..system import fork_safety
from .description import LayerOptions

_REQUESTS: Final = (
    *("_ensure_open", "get", "get_partial_values", "get_ranges", "_get_many", "exists", "getsize"),
    *("set", "_set_many", "set_if_not_exists", "delete", "delete_dir", "clear"),
    *("list", "list_prefix", "list_dir", "is_empty", "getsize_prefix"),
)
_holders: Final[WeakValueDictionary[tuple[int, str], Any]] = WeakValueDictionary()
"""Objects with a store of obstore in an attribute, by `id` and attribute: layers cannot be hashed."""


class ForkedStore(WrapperStore[Store]):
    """Refuses every request to the store of obstore below, which can still be passed to another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._store,)

    def __str__(self) -> str:
        return str(self._store)

    def __repr__(self) -> str:
        return repr(self._store)


def _itself(store: Store) -> Store:
    return store


def _refuse(store: ForkedStore, *_: Any, **__: Any) -> NoReturn:
    raise StorageError(
        f"{store} cannot be used in this process, which was forked after obstore was used",
        advice="Start workers by spawn or forkserver, or fork before the first request.",
    )


for _name in _REQUESTS:
    setattr(ForkedStore, _name, _refuse)


def guard(holder: Any, attribute: str = "_store") -> None:
    """Replace the store in this attribute where it would wait for ever: now, or in a child forked later."""
    store = getattr(holder, attribute)
    bottom = store
    while isinstance(bottom, WrapperStore) and not isinstance(bottom, LayerOptions | ForkedStore):
        bottom = bottom._store  # noqa: SLF001
    if isinstance(bottom, ObjectStore):
        _holders[id(holder), attribute] = holder
        if fork_safety.lost_threads():
            setattr(holder, attribute, ForkedStore(store))


class _Guard:
    def after_fork(self) -> None:
        """Replace the stores, in a child in which they cannot work."""
        if fork_safety.lost_threads():
            for (_, attribute), holder in tuple(_holders.items()):
                setattr(holder, attribute, ForkedStore(getattr(holder, attribute)))


_GUARD: Final = _Guard()
fork_safety.reset_after_fork(_GUARD)

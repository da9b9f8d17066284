"""A layer as an object: its store, its description with the stores below, and its copies."""

from __future__ import annotations

from functools import partial
from typing import Any, Self, TypeVar

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.storage import WrapperStore

from .descend import UNBOUND, descend
from .description import LayerOptions

LayerType = TypeVar("LayerType", bound=Store)


class Layer(LayerOptions, WrapperStore[Store]):
    """A store on top of another; `StorageTransformer` adds the data methods."""

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(UNBOUND if store is None else store)

    @property
    def below(self) -> Store:
        """The store below this layer."""
        return self._store

    def inner(self, kind: type[LayerType]) -> LayerType | None:
        """The first store of this type from this layer down, including this one; None if there is none."""
        return next((store for store in descend(self) if isinstance(store, kind)), None)

    def figures(self) -> Any:
        """Statistics since the layer was created, as a frozen dataclass; None if it counts nothing."""
        return None

    def _ask_below(self, question: str) -> Any:
        """A method of the store below, if there each key names the same value; None otherwise."""
        return getattr(self._store, question, None) if getattr(self, "transparent", False) else None

    def cache_of(self, key: str) -> Any:
        """The state of the cache that serves a key, with the same bytes as this layer; None without one."""
        return None if (below := self._ask_below("cache_of")) is None else below(key)

    def stored_in(self, key: str) -> tuple[str, int] | None:
        """The object that has a key's value among others: its key below, and how many values it has.

        None, the default of layers that are not `transparent`, if each value is an object, or to say nothing.
        """
        return None if (below := self._ask_below("stored_in")) is None else below(key)

    async def check_set(self, key: str, value: Buffer) -> None:
        """Raise the error of a `set` that this layer would refuse; asked by layers that keep values."""
        if (below := self._ask_below("check_set")) is not None:
            await below(key, value)

    @property
    def buffers(self) -> bool:
        """Whether `set` may return before the value is stored, so that layers above must not rely on it."""
        return False

    async def flush(self) -> None:
        """Store what this layer and those below hold in memory; returns when it is stored."""
        if (layer := self._next()) is not None:
            await layer.flush()

    def flush_sync(self) -> None:
        """Synchronous `flush`; UsageError in an event loop that has to do the work: await `flush` there."""
        if (layer := self._next()) is not None:
            layer.flush_sync()

    def _next(self) -> Layer | None:
        return next((each for each in descend(self._store) if isinstance(each, Layer)), None)

    def __repr__(self) -> str:
        if self._store is UNBOUND:
            return self.describe()
        stores = tuple(descend(self, through=Layer))
        above = [store.describe() for store in stores if isinstance(store, Layer)]
        return f"stack({', '.join([repr(stores[-1]), *above])})"

    def __str__(self) -> str:
        return f"{self.name} > {self._store}"

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, Layer)
            and type(self) is type(value)
            and self.options == value.options
            and self._store == value._store
        )

    __hash__ = None  # type: ignore[assignment]

    # -- copies ------------------------------------------------------------------------------

    def _with_store(self, store: Store) -> Self:
        """This layer over another view of the same data, such as a read-only copy.

        Everything but the store below is shared, including statistics, caches and limits.
        """
        layer = object.__new__(type(self))
        layer.__dict__.update(self.__dict__)
        layer._store = store
        return layer

    def __enter__(self) -> Self:
        below = self._store.__enter__()
        return self if below is self._store else self._with_store(below)

    def __exit__(self, *error: object) -> None:
        self.close()  # WrapperStore closes only the store below

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks, statistics and other state are recreated on unpickling.
        return (partial(type(self), **self.options), (None if self._store is UNBOUND else self._store,))

    # -- delegated to the store below ------------------------------------------------------------

    def _check_writable(self, operation: str = "", key: str | None = None) -> None:
        # WrapperStore checks only the store below, ignoring a layer that is itself read-only.
        Store._check_writable(self)  # noqa: SLF001

    @property
    def supports_consolidated_metadata(self) -> bool:
        """As the store below; WrapperStore does not forward this."""
        return self._store.supports_consolidated_metadata

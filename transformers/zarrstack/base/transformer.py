"""The contract every layer keeps, and `stack()`, which puts layers over a store.

A layer is a store that stands over another store. Write one by subclassing
`StorageTransformer` and overriding what it changes:

    class Shout(StorageTransformer):
        name = "shout"

        def __init__(self, store=None, *, mark="!"):
            super().__init__(store)
            self.mark = mark.encode()

        async def get(self, key, prototype, byte_range=None): ...
        async def set(self, key, value): ...

Which methods mean what:

- `get`, `set`, `delete` and `list_prefix` are the primitives. As inherited they hand the call
  to the store below.
- Every other data method is expressed through the layer's own primitives: a layer that
  overrides only `get` and `set` is never passed by. Override one of them to do it better, for
  instance to ask the store below for a size instead of reading the value.
- The synchronous methods of zarr 3.3+ are absent (None). A layer that wants to serve the
  fused codec pipeline writes `get_sync`, `set_sync` and `delete_sync`, all three; they are
  offered while the store below can serve them too. A subclass that overrides `get`, `set` or
  `delete` without its synchronous twin loses all three.

zarr's own `WrapperStore` forwards `_get_many`, `_set_many`, `get_partial_values` and
`set_if_not_exists` (3.1.6), `get_sync`, `set_sync`, `delete_sync` and `get_ranges` (3.4.2) past
a layer's `get` and `set`. tests/zarrstack/base/test_every_method_is_decided.py walks the installed
zarr and fails on a method that this module does not decide.

Options: the keyword arguments of the constructor are kept as `options`. Copies, equality,
`repr`, pickling and JSON follow from them, so a layer need not write any of these. A layer
that is made without a store waits for `stack()` to give it one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype
from zarr.storage import StoreLike, WrapperStore

from ..core.errors import UsageError
from ..core.json_text import JSONObject
from .descend import UNBOUND, descend, serves_sync
from .description import Described
from .store_like import store_of

Values: TypeAlias = list[Buffer | None]
LayerType = TypeVar("LayerType", bound=Store)

SYNC_TWINS: Final[Mapping[str, str]] = {"get": "get_sync", "set": "set_sync", "delete": "delete_sync"}


class StorageTransformer(Described, WrapperStore[Store]):
    """A layer over a store; see the module for which methods to override.

    Subclasses set `name`, and take the store below first (None: not yet known) and options by
    keyword only.
    """

    transparent: ClassVar[bool] = False
    """Whether each key that the layer lists names the same object as below, with the same bytes."""
    in_metadata: ClassVar[bool] = False
    """Whether an array's metadata may name this layer. Anybody may have written that metadata: say
    True only if no configuration makes the layer touch anything but the store below."""

    # Not inherited from WrapperStore, whose versions forward past `get`, `set` and `delete`.
    # None is how a class says that it does not have an optional method: `isinstance(layer,
    # SupportsGetSync)` is then False on every version.
    get_sync: ClassVar[Any] = None
    set_sync: ClassVar[Any] = None
    delete_sync: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any(method in vars(cls) and twin not in vars(cls) for method, twin in SYNC_TWINS.items()):
            for twin in SYNC_TWINS.values():
                setattr(cls, twin, None)

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(UNBOUND if store is None else store)

    # -- what the layer is -------------------------------------------------------------------

    @property
    def below(self) -> Store:
        """The store under this layer."""
        return self._store

    def check_below(self, layer: StorageTransformer) -> str | None:
        """Why `layer` may not lie under this one, at any depth; None when it may."""
        return None

    @classmethod
    def for_array(cls, configuration: JSONObject, path: str, document: JSONObject) -> Self:
        """The layer, without a store, that the metadata of one array names.

        `path` is the array's in the store ("" for the root), `document` its `zarr.json`. Keys that
        the layer sees are whole: `path/c/0/0`. UsageError where configuration and array do not fit.
        """
        return cls.from_json({"name": cls.name, "configuration": configuration})

    def check_change(self, old: JSONObject, new: JSONObject) -> str | None:
        """Why this layer cannot follow its array from one `zarr.json` to another; None when it can.

        Asked before the new document is written. zarr-python deletes the chunks outside a smaller
        shape before that, so a layer should be able to follow every smaller shape.
        """
        return None

    def inner(self, kind: type[LayerType]) -> LayerType | None:
        """The first store of this type from here down, this one included; None if there is none."""
        return next((store for store in descend(self) if isinstance(store, kind)), None)

    def __repr__(self) -> str:
        if self._store is UNBOUND:
            return self.describe()
        stores = tuple(descend(self, through=StorageTransformer))
        above = [store.describe() for store in stores if isinstance(store, StorageTransformer)]
        return f"stack({', '.join([repr(stores[-1]), *above])})"

    def __str__(self) -> str:
        return f"{self.name} > {self._store}"

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, StorageTransformer)
            and type(self) is type(value)
            and self.options == value.options
            and self._store == value._store
        )

    __hash__ = None  # type: ignore[assignment]

    # -- copies ------------------------------------------------------------------------------

    def bind(self, store: Store) -> Self:
        """This layer, given its store; UsageError when it has one already."""
        if self._store is not UNBOUND:
            raise UsageError(
                f"layer {self.name!r} has a store already",
                found=repr(self),
                advice="Make a layer of its own for each stack.",
            )
        self._store = store
        return self

    def _with_store(self, store: Store) -> Self:
        """This layer over another view of the same data, such as a read-only copy.

        Everything but the store below is shared: statistics, caches and limits count for both.
        """
        layer = object.__new__(type(self))
        layer.__dict__.update(self.__dict__)
        layer._store = store
        return layer

    def __enter__(self) -> Self:
        below = self._store.__enter__()
        return self if below is self._store else self._with_store(below)

    def __reduce__(self) -> tuple[Any, ...]:
        # State such as locks and statistics is made anew where the layer arrives.
        return (_rebuild, (type(self), None if self._store is UNBOUND else self._store, dict(self.options)))

    @classmethod
    async def open(cls, store_cls: Any, *args: Any, **kwargs: Any) -> Self:
        """An open layer over `store_cls(*args, **kwargs)`, or, given a store, over it with options."""
        if isinstance(store_cls, Store):
            layer = cls(store_cls, **kwargs)
            await layer._ensure_open()
            return layer
        return await super().open(store_cls, *args, **kwargs)

    # -- what the store below decides ----------------------------------------------------------

    def _check_writable(self) -> None:
        # WrapperStore asks the store below, past a layer that is read-only itself.
        Store._check_writable(self)  # noqa: SLF001

    @property
    def supports_consolidated_metadata(self) -> bool:
        """As the store below; WrapperStore forgets to ask it."""
        return self._store.supports_consolidated_metadata

    @property
    def _supports_sync_io(self) -> bool:
        """Whether the layer wrote the synchronous methods, and the store below can serve them."""
        written = all(getattr(type(self), twin) is not None for twin in SYNC_TWINS.values())
        return written and serves_sync(self._store)

    # -- the primitives -----------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value or a range of it; None when the key is missing."""
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value."""
        self._check_writable()
        await self._store.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing one is no error."""
        self._check_writable()
        await self._store.delete(key)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with this text."""
        return self._store.list_prefix(prefix)

    # -- everything else, through the primitives ------------------------------------------------

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> Values:
        """Values or ranges in the order asked for, each by `get`."""
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        """Key and value of each request, by `get`."""
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def get_ranges(
        self,
        key: str,
        byte_ranges: Sequence[ByteRequest | None],
        *,
        prototype: BufferPrototype,
        **limits: Any,
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Batches of (place in `byte_ranges`, bytes), by `get`; neighbours are read as one (zarr 3.3+).

        An exception group with FileNotFoundError when the key is missing.
        """
        given = {name: value for name, value in limits.items() if value is not None}
        merged = getattr(Store, "get_ranges", None)
        if merged is not None:
            async for batch in merged(self, key, byte_ranges, prototype=prototype, **given):
                yield batch
            return
        values = await self.get_partial_values(prototype, [(key, part) for part in byte_ranges])
        if any(value is None for value in values):
            raise BaseExceptionGroup("reading ranges failed", [FileNotFoundError(key)])
        yield tuple(enumerate(values))

    def get_ranges_sync(
        self,
        key: str,
        byte_ranges: Sequence[ByteRequest | None],
        *,
        prototype: BufferPrototype,
        **limits: Any,
    ) -> Sequence[tuple[int, Buffer | None]]:
        """As `get_ranges`, by the layer's `get_sync`; TypeError where the layer has none."""
        merged = getattr(Store, "get_ranges_sync", None)
        if merged is None or not self._supports_sync_io:
            raise TypeError(f"layer {self.name!r} cannot read synchronously here")
        batches: Sequence[tuple[int, Buffer | None]] = merged(
            self, key, byte_ranges, prototype=prototype, **limits
        )
        return batches

    async def exists(self, key: str) -> bool:
        """Whether the key has a value, by `get` of the whole value: a range of nothing is an error."""
        return await self.get(key, default_buffer_prototype()) is not None

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes, by `get`; FileNotFoundError when it is missing."""
        value = await self.get(key, default_buffer_prototype())
        if value is None:
            raise FileNotFoundError(key)
        return len(value)

    async def getsize_prefix(self, prefix: str) -> int:
        """Length in bytes of all values below a path, by `list_prefix` and `getsize`."""
        keys = [key async for key in self.list_prefix(_folder(prefix))]
        return sum(await asyncio.gather(*(self.getsize(key) for key in keys)))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value where there is none, by `exists` and `set`: two writers may both find none."""
        self._check_writable()
        if not await self.exists(key):
            await self.set(key, value)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Write several values, by `set`."""
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    def list(self) -> AsyncIterator[str]:
        """Every key; by `list_prefix` where the layer has its own."""
        return self.list_prefix("") if self._lists_itself else self._store.list()

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path, each once; by `list_prefix` where the layer has its own."""
        return self._list_dir(prefix) if self._lists_itself else self._store.list_dir(prefix)

    async def _list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        folder = _folder(prefix.rstrip("/"))
        seen = set()
        async for key in self.list_prefix(folder):
            name = key.removeprefix(folder).split("/", 1)[0]
            if name and name not in seen:
                seen.add(name)
                yield name

    @property
    def _lists_itself(self) -> bool:
        return type(self).list_prefix is not StorageTransformer.list_prefix

    async def is_empty(self, prefix: str) -> bool:
        """Whether no key lies below a path, by `list_prefix`."""
        async for _ in self.list_prefix(_folder(prefix)):
            return False
        return True

    async def clear(self) -> None:
        """Remove everything, by `delete_dir`."""
        self._check_writable()
        await self.delete_dir("")

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path, by `list_prefix` and `delete`.

        A local store keeps the empty folders, and zarr would take them for broken nodes. Where
        listings are those of the store below, and nothing is left in them, the store below is asked
        to remove the folder as well.
        """
        self._check_writable()
        folder = _folder(prefix)
        keys = [key async for key in self.list_prefix(folder)]
        await asyncio.gather(*(self.delete(key) for key in keys))
        if self._lists_itself or not await self._store.is_empty(prefix):
            return
        if folder == "":
            await self._store.clear()  # `delete_dir("")` of a LocalStore removes its root
        else:
            await self._store.delete_dir(prefix)


def stack(
    store: StoreLike, *layers: StorageTransformer, storage_options: dict[str, Any] | None = None
) -> Store:
    """The store with layers over it, given from the array down to the store.

    `store` is whatever zarr takes for one: a store, path, URL (with `storage_options`) or dictionary.

    `stack(store, Log(), Cache())` logs what the array asks for; the cache answers what it can, and
    only the rest reaches `store`. The layers are those objects themselves, bound to their stores,
    so that `log.summary()` keeps working. UsageError, with the reason, for an order that a layer
    says is wrong, and for a layer that has a store already. After any error no layer is bound.
    """
    bottom = store_of(store, storage_options)
    for place, layer in enumerate(layers):
        if not isinstance(layer, StorageTransformer):
            raise UsageError(
                "a stack is made of layers", found=repr(layer), expected="stack(store, Layer(), ...)"
            )
        if not hasattr(layer, "_store"):
            advice = "Call super().__init__(store) in its __init__."
            raise UsageError(f"layer {layer.name!r} is not initialised", advice=advice)
        if layer.below is not UNBOUND or any(layer is other for other in layers[:place]):
            raise UsageError(
                f"layer {layer.name!r} has a store already",
                found=repr(layer),
                advice="Make a layer of its own for each place.",
            )
        below = [each for each in descend(bottom) if isinstance(each, StorageTransformer)]
        for other in (*layers[place + 1 :], *below):
            if (reason := layer.check_below(other)) is not None:
                raise UsageError(f"layer {layer.name!r} cannot stand over {other.name!r}: {reason}")
    try:
        for layer in reversed(layers):
            bottom = layer.bind(bottom)
    except BaseException:
        for layer in layers:
            layer._store = UNBOUND  # noqa: SLF001
        raise
    return bottom


def _folder(prefix: str) -> str:
    return prefix if prefix in {"", "/"} or prefix.endswith("/") else prefix + "/"


def _rebuild(kind: type[StorageTransformer], store: Store | None, options: dict[str, Any]) -> Any:
    return kind(store, **options)

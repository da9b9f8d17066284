"""The contract of layers.

A layer is a store on top of another store: a subclass of `StorageTransformer` that overrides the methods that
it changes. The page "Write your own" (docs/transformers/write-your-own.md) shows one.

`get`, `set`, `delete` and `list_prefix` are the primitives: by default they forward the call to the store
below. All other data methods use the layer's primitives, so a layer that overrides only `get` and `set` is
never bypassed. Override them for efficiency.

zarr's `WrapperStore` forwards `_get_many`, `_set_many`, `get_partial_values` and `set_if_not_exists` (3.1.6),
`get_sync`, `set_sync`, `delete_sync` and `get_ranges` (3.4.2) past a layer's `get` and `set`.
tests/zarrstack/base/test_questions.py fails on a method of the installed zarr that is not handled here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, ClassVar, Self, TypeAlias

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import WrapperStore

from ..core.json_text import JSONObject
from ..core.paths import prefix_of
from . import sync_calls
from .descend import remove_below, serves_sync
from .description import LayerOptions
from .layer import Layer

Values: TypeAlias = list[Buffer | None]


class StorageTransformer(Layer):
    """A layer over a store.

    Subclasses set `name`; their constructors take the store below first (None: not yet known) and options by
    keyword only. These are recorded as `options`, from which copies, equality, `repr`, pickling and JSON are
    derived.

    Examples
    --------
    >>> class Quiet(zarrstack.StorageTransformer):
    ...     name = "quiet"
    >>> zarrstack.stack(MemoryStore(), Quiet()).name
    'quiet'
    """

    transparent: ClassVar[bool] = False
    """Whether each key that the layer lists names the same object as below, with the same bytes. A subclass
    that overrides `get`, `set` or `around` declares it again."""
    in_metadata: ClassVar[bool] = False
    """Whether an array's metadata may name this layer. Metadata is untrusted: set True only if no
    configuration makes the layer access anything but the store below."""

    awaits_only_below: ClassVar[bool] = False
    """Whether `get`, `set` and `delete` await only the store below, so that synchronous methods can run them,
    on a copy of the layer as `with_read_only` makes it."""

    # Not inherited from WrapperStore, whose versions bypass `get`, `set` and `delete`. None marks an optional
    # method as absent: `isinstance(layer, SupportsGetSync)` is then False on every version.
    get_sync: ClassVar[Any] = None
    set_sync: ClassVar[Any] = None
    delete_sync: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse names that zarr and zarrstack use themselves, in other packages."""
        super().__init_subclass__(**kwargs)
        reserved = sorted(set(vars(cls)) & _internals())
        if reserved and not cls.__module__.startswith("zarrstack."):
            raise TypeError(
                f"the class {cls.__name__} defines {reserved[0]}, which zarr or zarrstack calls for its own "
                "purposes. Choose another name."
            )
        sync_calls.set_twins(cls)
        own = vars(cls)
        if "transparent" not in own and not own.keys().isdisjoint({"get", "set", "around"}):
            cls.transparent = False  # what a parent declares is true of the parent's methods

    def check_below(self, layer: StorageTransformer) -> str | None:
        """Why `layer` may not be below this one, at any depth; None if it may."""
        return None

    @classmethod
    def for_array(cls, configuration: JSONObject, path: str, document: JSONObject) -> Self:
        """Create the layer, without a store, that the metadata of one array names.

        `path` is the array's path in the store ("" for the root), `document` its `zarr.json`. The layer sees
        full keys: `path/c/0/0`. UsageError if the configuration does not suit the array.
        """
        return cls.from_json({"name": cls.name, "configuration": configuration})

    def check_change(self, old: JSONObject, new: JSONObject) -> str | None:
        """Why this layer cannot follow its array from one `zarr.json` to another; None if it can.

        Called before the new document is written. zarr-python deletes the chunks outside a smaller shape
        before that, so a layer should support every smaller shape.
        """
        return None

    @property
    def _blocks(self) -> bool:
        """Whether this is a copy that runs a synchronous method, and waits by blocking its thread."""
        return isinstance(self._store, sync_calls.Synchronous)

    @property
    def _supports_sync_io(self) -> bool:
        """Whether the layer has the synchronous methods, and the store below supports them."""
        twins = (type(self).get_sync, type(self).set_sync, type(self).delete_sync)
        return None not in twins and serves_sync(self._store)

    # -- the primitives -----------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it; None if the key is missing."""
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value."""
        self._check_writable("set", key)
        await self._store.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing key is not an error."""
        self._check_writable("delete", key)
        await self._store.delete(key)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key with this prefix."""
        return self._store.list_prefix(prefix)

    # -- everything else, through the primitives ------------------------------------------------

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> Values:
        """Values or ranges in the requested order, with `get`."""
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    _get_many = Store._get_many  # noqa: SLF001 - not WrapperStore's, which bypasses `get`
    _set_many = Store._set_many  # noqa: SLF001
    is_empty = Store.is_empty
    get_ranges: ClassVar[Any] = getattr(Store, "get_ranges", None)  # zarr 3.3+
    get_ranges_sync: ClassVar[Any] = getattr(Store, "get_ranges_sync", None)

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; asks the store below, unless the layer overrides `get` and listings.

        Then it reads the whole value: an empty range is an error.
        """
        if type(self).get is StorageTransformer.get or not self._lists_itself:
            return await self._store.exists(key)
        return await self.get(key, default_buffer_prototype()) is not None

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; reads it if the layer overrides `get` and is not `transparent`.

        FileNotFoundError if the key is missing.
        """
        if type(self).get is StorageTransformer.get or self.transparent:
            return await self._store.getsize(key)
        value = await self.get(key, default_buffer_prototype())
        if value is None:
            raise FileNotFoundError(key)
        return len(value)

    async def getsize_prefix(self, prefix: str) -> int:
        """Total length in bytes of all values below a path, with `list_prefix` and `getsize`."""
        keys = [key async for key in self.list_prefix(prefix_of(prefix))]
        return sum(await asyncio.gather(*(self.getsize(key) for key in keys)))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing, with `exists` and `set`; not atomic."""
        self._check_writable("set_if_not_exists", key)
        if not await self.exists(key):
            await self.set(key, value)

    def list(self) -> AsyncIterator[str]:
        """Every key; with `list_prefix` if the layer overrides it."""
        return self.list_prefix("") if self._lists_itself else self._store.list()

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The distinct names directly below a path; with `list_prefix` if the layer overrides it."""
        return self._list_dir(prefix) if self._lists_itself else self._store.list_dir(prefix)

    async def _list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        folder = prefix_of(prefix.rstrip("/"))
        seen = set()
        async for key in self.list_prefix(folder):
            name = key.removeprefix(folder).split("/", 1)[0]
            if name and name not in seen:
                seen.add(name)
                yield name

    @property
    def _lists_itself(self) -> bool:
        return type(self).list_prefix is not StorageTransformer.list_prefix

    async def clear(self) -> None:
        """Remove everything, with `delete_dir`."""
        self._check_writable("clear", "")
        await self.delete_dir("")

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path, with `list_prefix` and `delete`.

        A local store keeps empty folders, which zarr would take for broken nodes. If the layer does not
        override listings and the folder is empty, the store below also removes the folder.
        """
        self._check_writable("delete_dir", prefix)
        folder = prefix_of(prefix)
        keys = [key async for key in self.list_prefix(folder)]
        await asyncio.gather(*(self.delete(key) for key in keys))
        if not self._lists_itself and await self._store.is_empty(prefix):
            await remove_below(self._store, prefix)


def _internals() -> set[str]:
    """Private names of a layer's base classes that are not hooks for its authors."""
    bases = (Store, WrapperStore, LayerOptions, Layer, globals().get("StorageTransformer", Layer))
    names = {name for base in bases for name in vars(base) if name.startswith("_") and name[:2] != "__"}
    return names - {"_get_many", "_set_many", "_with_store", "_supports_sync_io", "_abc_impl"}

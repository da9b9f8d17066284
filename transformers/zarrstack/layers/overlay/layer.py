"""`Overlay`: writes to a second store, and reads from both."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import FsspecStore, LocalStore, MemoryStore

from ...base.descend import descend
from ...base.forked import guard
from ...base.option_checks import invalid_option
from ...base.transformer import StorageTransformer
from ...core.json_text import JSONObject
from ...core.paths import ancestors, local_path, prefix_of
from . import whiteouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes recorded by an overlay."""

    written: tuple[str, ...]
    """Keys that were written."""
    deleted: tuple[str, ...]
    """Keys that were deleted; some may have been rewritten."""
    deleted_folders: tuple[str, ...]
    """Folders deleted with their contents; "" is the root."""


class Overlay(StorageTransformer, overrides=["_open", "_ensure_open", "_is_open"]):
    """Shows the store below with changes that are kept in a second store; the store below never changes.

    `writes` is the store for the changes, or its path or URL; "memory:" keeps them as long as the layer
    exists. Deletions are recorded there under `.overlay/`. Several processes may share one location for the
    changes.

    Examples
    --------
    >>> below = {}
    >>> store = zarrstack.stack(MemoryStore(below), zarrstack.Overlay(writes="memory:"))
    >>> array = zarr.create_array(store, name="a", shape=(4,), dtype="i4")
    >>> below
    {}
    """

    name = "overlay"
    short: ClassVar[str] = "writes"

    def __init__(self, store: Store | None = None, *, writes: Store | str | os.PathLike[str]) -> None:
        super().__init__(store)
        self._writes = self._opened(writes)
        if any(each.buffers for each in descend(self._writes) if isinstance(each, StorageTransformer)):
            # A deletion is forgotten when a new value is written: a crash would show the value below again.
            raise invalid_option(self, "writes", writes, "a store that returns when a value is stored")
        self._upper = self._writes
        guard(self, "_upper")
        self._options = {"writes": self._writes}

    def _opened(self, target: Any) -> Store:
        if isinstance(target, Store):
            return target
        text = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
        if not text:
            raise invalid_option(self, "writes", target, 'a store, a path, a URL or "memory:"')
        if text in {"memory:", "memory://"}:
            return MemoryStore()
        if "://" in text and not text.startswith("file://"):
            return FsspecStore.from_url(text)
        return LocalStore(local_path(text.removeprefix("file://")))

    @property
    def writes(self) -> Store:
        """The store for the changes."""
        return self._upper

    @property
    def configuration(self) -> JSONObject:
        """The options; `writes` is a path if possible."""
        writes = self._writes
        if type(writes) is LocalStore:
            return {"writes": str(writes.root)}
        return {"writes": writes}  # no JSON form: `to_json` raises an error

    async def changes(self) -> Changes:
        """Keys written and deleted, sorted."""
        hidden = await whiteouts.load(await self._above())
        return Changes(
            written=tuple(sorted([key async for key in self._written("")])),
            deleted=tuple(sorted(hidden.keys)),
            deleted_folders=tuple(sorted(hidden.folders)),
        )

    # -- two stores as one ------------------------------------------------------------------------

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Overlay) and super().__eq__(value) and self._upper == value._upper

    __hash__ = None  # type: ignore[assignment]

    @property
    def read_only(self) -> bool:
        """Whether the store for the changes is read-only; the one below is never written to."""
        return self._upper.read_only

    @property
    def supports_writes(self) -> bool:
        return self._upper.supports_writes

    @property
    def supports_deletes(self) -> bool:
        return self._upper.supports_deletes

    @property
    def supports_listing(self) -> bool:
        return self._upper.supports_listing and self._store.supports_listing

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same two stores; the mode applies to the store for the changes."""
        return self._with_upper(self._upper.with_read_only(read_only))

    def _with_upper(self, upper: Store) -> Self:
        layer = self._with_store(self._store)
        layer._upper = upper  # noqa: SLF001
        guard(layer, "_upper")
        return layer

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments = super().__reduce__()
        return (_rebuild, (make, arguments, self._upper))

    @property
    def _is_open(self) -> bool:
        return self._upper._is_open  # noqa: SLF001 - zarr's protocol

    @_is_open.setter
    def _is_open(self, value: bool) -> None:
        raise NotImplementedError("a layer is opened by `_open`")

    async def _open(self) -> None:
        await self._store._ensure_open()  # noqa: SLF001
        await self._above(opening=True)

    async def _ensure_open(self) -> None:
        await self._store._ensure_open()  # noqa: SLF001
        await self._above()

    async def _above(self, *, opening: bool = False) -> Store:
        """The store for the changes, opened; an empty one if it is read-only and does not exist yet.

        LocalStore creates its folder when opened for writing, and fails when opened for reading (zarr 3.1.6,
        3.4.2).
        """
        upper = self._upper
        try:
            await (upper._open() if opening else upper._ensure_open())  # noqa: SLF001
        except FileNotFoundError:
            if upper.read_only:
                return MemoryStore(read_only=True)
            raise
        return upper

    def close(self) -> None:
        self._upper.close()
        self._store.close()

    def __enter__(self) -> Self:
        upper = self._upper.__enter__()
        return super().__enter__()._with_upper(upper)  # noqa: SLF001

    # -- reading ------------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the written value, or the one below unless it was deleted."""
        if whiteouts.is_own(key):
            return None
        above = await self._above()
        value = await above.get(key, prototype, byte_range)
        if value is None and not await whiteouts.of(above, key):
            value = await self._store.get(key, prototype, byte_range)
        return value

    async def exists(self, key: str) -> bool:
        """Whether the key was written, or exists below and was not deleted."""
        if whiteouts.is_own(key):
            return False
        return await (await self._above()).exists(key) or await self._shines_through(key)

    async def getsize(self, key: str) -> int:
        if not whiteouts.is_own(key):
            above = await self._above()
            if await above.exists(key):
                return await above.getsize(key)
            if await self._shines_through(key):
                return await self._store.getsize(key)
        raise FileNotFoundError(key)

    async def _shines_through(self, key: str) -> bool:
        return await self._store.exists(key) and not await whiteouts.of(await self._above(), key)

    # -- listing --------------------------------------------------------------------------------------

    async def list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        # Stores treat a prefix that is not a folder differently: list folders only.
        folder = prefix[: prefix.rfind("/") + 1]
        hidden = await whiteouts.load(await self._above(), folder)
        seen = set()
        async for key in self._written(folder):
            seen.add(key)
            if key.startswith(prefix):
                yield key
        async for key in self._store.list_prefix(folder):
            if (
                key not in seen
                and key.startswith(prefix)
                and not whiteouts.is_own(key)
                and not hidden.hides(key)
            ):
                yield key

    async def _written(self, folder: str) -> AsyncGenerator[str, None]:
        async for key in (await self._above()).list_prefix(folder):
            if not whiteouts.is_own(key):
                yield key

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        path = prefix.strip("/")
        start = prefix_of(path)
        seen = set()
        async for name in (await self._above()).list_dir(path):
            if not whiteouts.is_own(start + name):
                seen.add(name)
                yield name
        below = [name async for name in self._store.list_dir(path) if name not in seen]
        below = [name for name in below if not whiteouts.is_own(start + name)]
        if not below:
            return
        hidden = await whiteouts.load(await self._above(), start)
        for name in below:
            if not hidden.touches(start + name) or await self._is_seen(start + name, hidden):
                yield name

    async def _is_seen(self, path: str, hidden: whiteouts.Whiteouts) -> bool:
        """Whether a name of the store below leads to a key that was not deleted."""
        if not hidden.hides(path) and await self._store.exists(path):
            return True
        if path in hidden.folders or any(folder in hidden.folders for folder in ancestors(path)):
            return False
        async for key in self._store.list_prefix(path + "/"):
            if not hidden.hides(key):
                return True
        return False

    # -- writing: second store only -----------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        whiteouts.check_key(key)
        await self._upper.set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if neither store has one, as atomically as the second store."""
        self._check_writable()
        whiteouts.check_key(key)
        if not await self._shines_through(key):
            await self._upper.set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        """Remove a written value, and record the key as deleted if it exists below."""
        self._check_writable()
        if whiteouts.is_own(key):
            return
        # The marker first: if killed in between, the written value remains visible, not the one below.
        if await self._shines_through(key):
            whiteouts.check_key(key)
            await whiteouts.hide(self._upper, whiteouts.KEYS, key)
        if await self._upper.exists(key):  # LocalStore would remove a folder of that name
            await self._upper.delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove the values written below a path, and record the folder as deleted."""
        self._check_writable()
        path = prefix.strip("/")
        if path == "":
            await self.clear()
            return
        if whiteouts.is_own(path):
            return
        if not await self._store.is_empty(path):
            whiteouts.check_key(path)
            await whiteouts.hide(self._upper, whiteouts.FOLDERS, path)
        await self._upper.delete_dir(path)

    async def clear(self) -> None:
        """Remove all written values, and record everything below as deleted."""
        self._check_writable()
        if await self._store.is_empty(""):
            await self._upper.clear()
            return
        await whiteouts.hide(self._upper, whiteouts.FOLDERS, "")
        for key in [key async for key in self._written("")]:
            await self._upper.delete(key)
        for name in [name async for name in self._upper.list_dir("")]:
            if name != whiteouts.RESERVED:
                await self._upper.delete_dir(name)


def _rebuild(make: Any, arguments: Mapping[str, Any], upper: Store) -> Overlay:
    layer: Overlay = make(*arguments)
    return layer._with_upper(upper)  # noqa: SLF001

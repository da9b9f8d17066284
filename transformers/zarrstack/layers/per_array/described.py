"""Arrays as their documents describe them: their layers and what these hold, and why one cannot be opened."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from zarr.abc.store import Store
from zarr.core.config import config
from zarr.core.metadata.v3 import ArrayV3Metadata

from ...base.array_documents import (
    DOCUMENT,
    arrays_in,
    consolidated_members,
    entries_of,
    key_of,
    put_together,
    without_transformers,
)
from ...base.description import split_entry
from ...base.registry import find
from ...base.stack import stack
from ...base.transformer import StorageTransformer
from ...core.errors import MetadataError, UnsupportedError, UsageError, ZarrstackError
from ...core.json_text import JSON, JSONObject, excerpt
from ...core.paths import folder_prefix, join
from ..sharding.buffer import ShardBuffer
from ..sharding.buffered import BufferedArray, Buffering


@dataclass(frozen=True, kw_only=True)
class DescribedArray:
    """An array as described by its stored document."""

    document: JSONObject
    entries: list[JSON]
    layers: tuple[StorageTransformer, ...] = ()
    store: Store
    """The array's stack over the store below; the store below itself for an array without transformers."""
    unknown: tuple[str, ...] = ()
    """Unknown transformers, skipped on reading because of `must_understand: false`."""
    error: ZarrstackError | None = None
    """Why the array cannot be read."""

    def has_same_layers(self, other: DescribedArray) -> bool:
        """Whether both have equal layers, and can share one stack."""
        mine, theirs = ([(type(each), each.options) for each in array.layers] for array in (self, other))
        return mine == theirs and self.error is None and other.error is None

    @cached_property
    def refusal(self) -> Exception | None:
        """Why neither zarrstack nor zarr-python can open the array; None if both can."""
        if self.error is not None:
            return self.error
        document = dict(self.document)
        without_transformers(document)
        try:
            ArrayV3Metadata.from_dict(document)
        except Warning:  # raised as an error, about an array that can be opened
            return None
        except Exception as error:  # noqa: BLE001 - whatever zarr raises for a document that it cannot use
            return error
        return None

    def check(self, *, writes: bool) -> None:
        """Raise the error of an array that cannot be read, or be written."""
        if self.error is not None:
            raise self.error
        if writes and self.unknown:
            raise UnsupportedError(
                f"the array is stored through unknown transformers: {', '.join(self.unknown)}",
                advice="It can be read without them, but not written. Install the package with them.",
            )


def describe(below: Store, path: str, document: JSONObject, buffer: ShardBuffer | None) -> DescribedArray:
    """Return a document's array with its layers; invalid ones are reported in its `error`.

    Layers that can hold chunks in memory do so in `buffer`, unless a layer above them refuses that.
    """
    entries: list[JSON] = []
    layers, unknown = [], []
    try:
        entries = entries_of(document, path)
        if entries:
            _check_members(document)
        for entry in entries:
            name, configuration = split_entry(entry)
            try:
                kind = find(name)
            except UsageError as error:
                if isinstance(entry, dict) and entry.get("must_understand") is False:
                    unknown.append(name)
                    continue
                raise UnsupportedError(
                    f"the array is stored through {name!r}, which cannot be used here",
                    found=error.problem.message,
                    expected=error.problem.expected,
                    advice=error.problem.advice,
                ) from error
            if not kind.in_metadata:
                raise UnsupportedError(
                    f"storage transformer {name!r} may not be named by metadata",
                    advice=(
                        "It could access data outside the store: add it to the stack yourself. A layer that "
                        "never does so may set `in_metadata = True` in its class."
                    ),
                )
            layers.append(kind.for_array(configuration, path, document))
        store = stack(below, *layers)
        buffer_in(layers, buffer)
    except ZarrstackError as error:
        if isinstance(error, UsageError):
            error = MetadataError.of(error.problem)
        error = error.at(node=path, key=key_of(path))
        return DescribedArray(document=document, entries=entries, store=below, error=error)
    return DescribedArray(
        document=document, entries=entries, layers=tuple(layers), store=store, unknown=tuple(unknown)
    )


def _check_members(document: JSONObject) -> None:
    """Raise MetadataError unless a document has the members that layers read, in their general form."""
    forms: dict[str, tuple[type | tuple[type, ...], str]] = {
        "shape": (list, "a list of lengths"),
        "chunk_key_encoding": ((dict, str), "an object or a name"),
    }
    for name, (form, expected) in forms.items():
        if not isinstance(document.get(name), form):
            raise MetadataError(
                f"the array's document has no valid {name}",
                found=excerpt(document.get(name)),
                expected=expected,
            )


def buffer_in(layers: Sequence[StorageTransformer], buffer: ShardBuffer | None) -> None:
    """Let layers hold chunks in a buffer, unless a layer above them refuses that."""
    for number, layer in enumerate(layers):
        if isinstance(layer, BufferedArray) and buffer is not None:
            layer.use_buffer(buffer)
            if any(above.check_below(layer) is not None for above in layers[:number]):
                layer.use_buffer(None)


class Members:
    """The members of groups, without arrays that cannot be opened, so that their siblings can be listed.

    zarr-python opens each name that a store lists in a group; one that raises an error makes `members()` and
    `tree()` of the group fail, and every program that lists it, such as xarray (3.1.6 and 3.4.2). `find`
    returns the array at a path, None if there is none.
    """

    def __init__(self, find: Callable[[str], Awaitable[DescribedArray | None]]) -> None:
        self._find = find
        self._reported: set[str] = set()

    async def openable(self, folder: str, names: AsyncIterator[str]) -> list[str]:
        """The names in a folder, without those of arrays that cannot be opened."""
        all_names = [name async for name in names]
        turn = asyncio.Semaphore(config.get("async.concurrency") or len(all_names) or 1)

        async def is_openable(name: str) -> bool:
            async with turn:
                return name == DOCUMENT or not await self._is_refused(join(folder, name))

        marks = await asyncio.gather(*map(is_openable, all_names))
        return [name for name, keep in zip(all_names, marks, strict=True) if keep]

    async def leave_out(self, document: JSONObject, path: str) -> bool:
        """Remove such arrays from a group's consolidated metadata; return whether there were any."""
        paths = [where for where, _ in arrays_in(document, path) if where != path]
        refused = {where for where in paths if await self._is_refused(where)}
        for where, members in consolidated_members(document, path):
            for name in [name for name in members if join(where, name) in refused]:
                del members[name]
        return bool(refused)

    async def keep(
        self, document: JSONObject, path: str, stored: Callable[[str], Awaitable[JSONObject | None]]
    ) -> bool:
        """Put such arrays back into consolidated metadata that is written without them."""
        blocks = dict(consolidated_members(document, path))
        before = await stored(path) if path in blocks else None
        if before is None:
            return False
        put_together(before)
        written = {where for where, _ in arrays_in(document, path)}
        changed = False
        for where, member in arrays_in(before, path):
            if where not in written and await self._is_refused(where):
                blocks[path][where[len(path) :].lstrip("/")] = member
                changed = True
        return changed

    async def _is_refused(self, path: str) -> bool:
        array = await self._find(path)
        refusal = None if array is None else array.refusal
        if refusal is None:
            return False
        if path not in self._reported:
            self._reported.add(path)
            warnings.warn(
                f"the array {path!r} cannot be opened and is left out of its group: {refusal}",
                UserWarning,
                stacklevel=2,
            )
        return True


class BufferedArrays(Buffering):
    """The arrays that have been accessed so far, and their buffer."""

    _arrays: dict[str, DescribedArray]

    def buffer_writes(self, memory_bytes: int) -> None:
        """Let the sharding layers of all arrays keep chunks in memory until their shards are whole.

        They share one budget. `flush`, `flush_sync`, `close` and `end_buffer` store what waits.
        """
        self._own_buffer = ShardBuffer(memory_bytes)
        for array in list(self._arrays.values()):
            buffer_in(array.layers, self._own_buffer)

    def end_buffer(self) -> None:
        """Store what waits; afterwards a chunk is stored when `set` returns."""
        if self._own_buffer is not None:
            self.flush_sync()
            self._own_buffer.active = False
            self._own_buffer = None

    def _buffered(self, path: str = "") -> list[BufferedArray]:
        """The layers, from the array down, that may hold chunks of the arrays at and below a path."""
        folder = folder_prefix(path)
        arrays = [array for each, array in list(self._arrays.items()) if f"{each}/".startswith(folder)]
        return [layer for array in arrays for layer in array.layers if isinstance(layer, BufferedArray)]

    async def store_waiting(self, path: str = "", *, seen: bool = True) -> None:
        """Store all chunks that wait of the arrays at and below a path."""
        for layer in self._buffered(path):
            await layer.store_waiting(seen=seen)

    def _tops(self) -> list[StorageTransformer]:
        """The topmost layer of each array, which passes a flush on to those below it."""
        return [array.layers[0] for array in list(self._arrays.values()) if array.layers]

    async def flush(self) -> None:
        for layer in self._tops():
            await layer.flush()
        await super().flush()

    def flush_sync(self) -> None:
        for layer in self._tops():
            layer.flush_sync()
        super().flush_sync()

"""Presents the chunks of a Zarr v3 array under older keys: unchanged or re-encoded one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.paths import prefix_of

from ..core.codecs.base import memory
from ..core.codecs.zstd import is_sized_frame
from ..core.grid.chunk_keys import Axes, N5Keys, reverse_axes
from ..core.n5.blocks import BlockHeader
from ..planning.routes import Move, route_between
from ..transfer.inner_chunks import inner_chunks
from ..transfer.recode import InnerChunkConversion
from ..transfer.shard_reader import ShardReader
from ..transfer.stored_chunks import InnerChunk, MissingObject
from .hierarchy import InShard, StoredValue

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..core.chain.chain import Chain
    from ..storage.base import Storage

PresentedFormat: TypeAlias = Literal["zarr2", "n5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """The format in which a hierarchy is presented."""

    format: PresentedFormat
    separator: Separator = "."
    """Separator in v2's chunk keys; N5 has only "/"."""
    axes: Axes = "reversed"
    """Relation of N5's axes to the array's: shape reversed or the same."""

    def keys(self) -> KeyEncoding | N5Keys:
        """The chunk key encoding."""
        return KeyEncoding("v2", self.separator) if self.format == "zarr2" else N5Keys(self.axes)


class PresentedArray:
    """An array and the conversion of its chunks, compiled on first use."""

    def __init__(
        self, storage: Storage, path: str, layout: Layout, chain: Chain, showing: Presentation
    ) -> None:
        self.path = path
        self.layout = layout
        inner_chunk = replace(layout, frame=None)
        target = replace(inner_chunk, chain=chain)
        route = route_between(inner_chunk, target, same_place=False)
        self._zstd = chain.codecs[-1].name == "zstd"
        self.same_codecs = not route.decodes
        """Whether payloads keep their codecs; zstd frames without a size are made again."""
        self.as_is = self.same_codecs and not self._zstd and not chain.states_lengths
        """Whether every payload is presented unchanged."""
        self._move = Move(
            path=path,
            source=inner_chunk,
            destination=target,
            route=route if route.decodes else replace(route, name="reframe"),
        )
        self._keys = showing.keys()
        self.header = b""
        """Bytes that precede each payload."""
        if showing.format == "n5":
            # Every block has the full size of its cell, including edge blocks, as zarr-python's N5Store and
            # tensorstore write them: v3 chunks are full and need not be decoded for the header.
            self.header = BlockHeader.of(reverse_axes(layout.chunk_shape, showing.axes)).to_bytes()
        self.source = inner_chunks(storage, path, layout)
        self.shards = self.source if isinstance(self.source, ShardReader) else None
        """Reader of the shards that contain the chunks; None if each chunk is an object."""

    @property
    def _prefix(self) -> str:
        return prefix_of(self.path)

    def place(self, key: str) -> tuple[int, ...] | None:
        """Grid position of the inner chunk with this presented key; None if the key names no inner chunk."""
        if not key.startswith(self._prefix):
            return None
        place = self._keys.coordinates(key.removeprefix(self._prefix), len(self.layout.shape))
        return place if place is not None and self.layout.grid.index(place) is not None else None

    def held(self, key: str) -> StoredValue | None:
        """The stored inner chunk with this presented key; None if the key names no inner chunk."""
        place = self.place(key)
        if place is None:
            return None
        whole = self.shards is None
        part = None if whole else InShard(partial(self.stored, place), partial(self.stored_size, place))
        shown = partial(self.payload, place)
        return StoredValue(self.source_key(place), self.source.bound, shown, self.as_is, self.header, part)

    def key(self, place: tuple[int, ...]) -> str:
        """The key under which an inner chunk is presented."""
        return self._prefix + self._keys.key(place)

    def source_key(self, place: tuple[int, ...]) -> str:
        """The key of the object that contains an inner chunk."""
        return self.source.key(self._object(place))

    def payload(self, place: tuple[int, ...], data: Any) -> bytes:
        """The presented payload for an inner chunk's stored payload; ChunkError with location."""
        index = self._index(place)
        try:
            result = self._inner_chunk(InnerChunk(index, data, len(data)))
            if result is not None and self._zstd and not is_sized_frame(result):
                # Older readers cannot decompress these frames, which streaming encoders such as tensorstore's
                # write.
                last = len(self._move.destination.chain.codecs) - 1
                writer = self._inner_chunk.writer
                result = writer.apply(writer.undo(result, last), last)
        except ZarrstackError as error:
            error = self.source.with_position(error, index)
            raise error.at(node=self.path, key=self.source_key(place)) from None
        assert result is not None
        return self.header + bytes(memory(result))

    def stored(self, place: tuple[int, ...]) -> bytes | None:
        """An inner chunk's payload from its shard, unchanged; None if missing. ChunkError, StorageError."""
        try:
            for chunk in self.source.stored(self._object(place), np.array([self._index(place)])):
                return bytes(chunk.payload)
        except MissingObject:
            return None
        except ZarrstackError as error:
            raise error.at(node=self.path, key=self.source_key(place)) from None
        return None

    def stored_size(self, place: tuple[int, ...]) -> int | None:
        """Length of the result of `stored`, from the shard's index alone."""
        assert self.shards is not None
        try:
            index = self.shards.index(self._object(place))
        except ZarrstackError as error:
            raise error.at(node=self.path, key=self.source_key(place)) from None
        payload = None if index is None else index.get(self.shards.frame.inner(place))
        return None if payload is None else payload.stop - payload.start

    def inner_chunks_in(self, place: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The inner chunks within the array that belong to the shard at `place` (in the grid of shards)."""
        assert self.shards is not None
        number = self.layout.objects.index(place)
        if number is not None:
            with contextlib.suppress(MissingObject):
                places = self.layout.grid.coordinates_of(self.shards.present(number))
                yield from map(tuple, places.tolist())

    @cached_property
    def _inner_chunk(self) -> InnerChunkConversion:
        return InnerChunkConversion(self._move, self.source, recheck=False)

    def _index(self, place: tuple[int, ...]) -> int:
        """The linear index of an inner chunk."""
        index = self.layout.grid.index(place)
        assert index is not None
        return index

    def _object(self, place: tuple[int, ...]) -> int:
        """The linear index of the object that contains an inner chunk."""
        layout = self.layout
        lengths = zip(place, layout.chunk_shape, layout.object_shape, strict=True)
        number = layout.objects.index(tuple(at * inner // whole for at, inner, whole in lengths))
        assert number is not None
        return number

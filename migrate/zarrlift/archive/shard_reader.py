"""Reads the inner chunks of an array whose objects are shards, and selects the reader of any array.

Of a shard, only the index and the wanted inner chunks are read, adjacent ones together, so shards may be
larger than memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zarrstack.core.errors import ChunkError, ZarrstackError
from zarrstack.core.shard_index import ShardIndex

from ..core.codecs.base import memory
from ..core.grid.frames import N5Blocks, Shards
from ..errors import SourceChangedError
from ..storage.base import READ_AHEAD, Storage
from .chunk_reader import (
    BlockReader,
    ChunkReader,
    E,
    InnerChunk,
    MissingObject,
    ReadCounts,
    most_in_inner_chunk,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..storage.base import ObjectPart
    from ..storage.versions import ListedVersions, Version
    from .chunk_columns import Indexes
    from .nodes import Layout

_SPAN: Final = 4 << 20
"""Bytes of a shard read at once, unless one inner chunk is larger."""
_GAP: Final = 64 << 10
"""Maximum gap in bytes between two inner chunks of a shard that are read together."""
_KEPT: Final = 8
_KEPT_AHEAD: Final = 64
_KEPT_PAIRS: Final = 1 << 18
"""Limits of the cache of shard indexes, of files and of a store, and of the pairs in them (adjacent blocks
read from the same shards).
"""
_INDEXES: Final = 8
"""Number of indexes requested together."""


def chunk_reader(storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> ChunkReader:
    """The reader of the array at `path`, by the frame of its layout."""
    match layout.frame:
        case N5Blocks():
            kind: type[ChunkReader] = BlockReader
        case Shards():
            kind = ShardReader
        case None:
            kind = ChunkReader
    return kind(storage, path, layout, allow_pickle=allow_pickle)


class _ReadIndex(NamedTuple):
    """The index of a shard, and the version of the shard, as it was listed or else as it was read."""

    shard_index: ShardIndex
    version: Version | None


class ShardReader(ChunkReader):
    """The inner chunks of an array whose objects are shards; thread-safe."""

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> None:
        super().__init__(storage, path, layout, allow_pickle=allow_pickle)
        assert isinstance(layout.frame, Shards)
        self.frame = layout.frame
        self._inner_chunks = layout.grid
        self._most = most_in_inner_chunk(layout)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[int, _ReadIndex | None] = OrderedDict()

    def split(self, number: int, data: bytes) -> Iterable[InnerChunk]:
        """The inner chunks in the content of a shard, in stored order; ChunkError."""
        view = memory(data)
        numbers, offsets, lengths = _in_order(*self._ranges_in(number, self.frame.index_of(view)))
        for inner_chunk, offset, length in zip(numbers, offsets, lengths, strict=True):
            yield InnerChunk(inner_chunk, view[offset : offset + length], length)

    def read(
        self,
        numbers: Indexes,
        counts: ReadCounts,
        *,
        wanted: Indexes | None = None,
        versions: ListedVersions | None = None,
        opened: set[int] | None = None,
        lost: set[int] | None = None,
    ) -> Iterator[tuple[str, InnerChunk]]:
        """As for other objects; only the index and the wanted inner chunks of each shard are read."""
        for number in self.in_turn(numbers.tolist(), versions):
            key = self.key(number)
            try:
                for chunk in self.encoded(number, wanted, versions):
                    yield key, chunk
            except MissingObject:
                counts.missing(key)
            except (ZarrstackError, MemoryError) as error:
                counts.failed(error, key)
            else:
                counts.chunks += opened is None or number not in opened
                if opened is not None:
                    opened.add(number)
                continue
            if lost is not None:
                lost.add(number)

    def encoded(
        self, number: int, wanted: Indexes | None = None, versions: ListedVersions | None = None
    ) -> Iterator[InnerChunk]:
        """As for other objects, of the inner chunks within the array; the others are not read.

        They are read from the version of the shard whose index was read.
        """
        numbers, offsets, lengths, version = self.ranges(number, versions)
        if wanted is not None:
            keep = np.isin(numbers, wanted, assume_unique=True)
            numbers, offsets, lengths = numbers[keep], offsets[keep], lengths[keep]
        try:
            yield from self._spans(self.key(number), version, *_in_order(numbers, offsets, lengths))
        except SourceChangedError:
            with self._lock:
                self._indexes.pop(number, None)
            raise

    def with_position(self, error: E, number: int) -> E:
        """An error of an inner chunk, with its position in the shard."""
        return inside_shard(error, self.inner(number))

    def in_turn(self, numbers: Sequence[int], versions: ListedVersions | None) -> Iterator[int]:
        """Yield the numbers of shards; several indexes are requested together if requests have latency."""
        requests = self.storage.requests
        if requests is None:
            yield from numbers
            return
        form, counts = self.frame.index, self.frame.chunks_per_shard
        size = form.size(counts)
        step = min(_INDEXES, self._max_kept())
        for at in range(0, len(numbers), step):
            part = numbers[at : at + step]
            with self._lock:
                new = [number for number in part if number not in self._indexes]
            keys = [self.key(number) for number in new]
            listed = [None if versions is None else versions.of_index(number) for number in new]
            ends = requests.ends(keys, 0 if form.location == "start" else -size, size, listed)
            for number, end, version in zip(new, ends, listed, strict=True):
                # A failed read is repeated, and reported, when it is the shard's turn.
                with contextlib.suppress(ZarrstackError):
                    self._keep(number, self._parse(end.result(), version))
            yield from part

    def inner(self, inner_chunk: int) -> tuple[int, ...]:
        """The position of an inner chunk in its shard."""
        return self.frame.inner(self._inner_chunks.coordinates(inner_chunk))

    def _index(self, number: int, versions: ListedVersions | None) -> _ReadIndex | None:
        """A shard's index; None if the shard does not exist. ChunkError, StorageError."""
        with self._lock:
            if number in self._indexes:
                self._indexes.move_to_end(number)
                return self._indexes[number]
        index = self._read_index(number, None if versions is None else versions.of_index(number))
        self._keep(number, index)
        return index

    def _keep(self, number: int, index: _ReadIndex | None) -> None:
        with self._lock:
            self._indexes[number] = index
            while len(self._indexes) > self._max_kept():
                self._indexes.popitem(last=False)

    def _max_kept(self) -> int:
        most = _KEPT if self.storage.requests is None else _KEPT_AHEAD
        return min(max(_KEPT_PAIRS // max(self.frame.inner_chunks, 1), 1), most)

    def _read_index(self, number: int, version: Version | None) -> _ReadIndex | None:
        form = self.frame.index
        size = form.size(self.frame.chunks_per_shard)
        start = 0 if form.location == "start" else -size
        return self._parse(self.storage.get_end(self.key(number), start, size, version=version), version)

    def _parse(self, end: ObjectPart | None, listed: Version | None) -> _ReadIndex | None:
        if end is None:
            return None
        form, counts = self.frame.index, self.frame.chunks_per_shard
        form.place(counts, end.size)  # checks the space for the index
        index = ShardIndex.from_bytes(end.data, counts, form)
        index.check(end.size, form)
        longest = int(index.lengths[index.present].max(initial=0))
        if longest > self._most:
            raise ChunkError(
                "an inner chunk of a shard is larger than a chunk of this array can be",
                found=f"{longest} bytes",
                expected=f"at most {self._most} bytes",
            )
        return _ReadIndex(index, listed or end.version)

    def present(self, number: int, versions: ListedVersions | None = None) -> Indexes:
        """Linear indexes of the inner chunks in a shard, ascending; raises as `encoded` does."""
        return np.sort(self.ranges(number, versions)[0])

    def ranges(
        self, number: int, versions: ListedVersions | None
    ) -> tuple[Indexes, Indexes, Indexes, Version | None]:
        """Linear index, offset and length of each inner chunk in a shard, and the version of the shard.

        Raises as `encoded` does.
        """
        read = self._index(number, versions)
        if read is None:
            raise MissingObject
        numbers, offsets, lengths = self._ranges_in(number, read.shard_index)
        inside = numbers >= 0
        return numbers[inside], offsets[inside], lengths[inside], read.version

    def _ranges_in(self, number: int, index: ShardIndex) -> tuple[Indexes, Indexes, Indexes]:
        """Linear index (-1 beyond the array), offset and length of a shard's inner chunks, in its order."""
        counts = self.frame.chunks_per_shard
        stored = np.flatnonzero(index.present)
        places = np.array([self._objects.coordinates(number)], dtype=np.int64) * np.array(counts, np.int64)
        if counts:
            places = places + np.stack(np.unravel_index(stored, counts), axis=1)
        offsets, lengths = index.offsets.ravel()[stored], index.lengths.ravel()[stored]
        numbers = self._inner_chunks.indices_of(places[: len(stored)])
        return numbers, offsets.astype(np.int64), lengths.astype(np.int64)

    def _spans(
        self,
        key: str,
        version: Version | None,
        numbers: list[int],
        offsets: list[int],
        lengths: list[int],
    ) -> Iterator[InnerChunk]:
        """Read adjacent inner chunks together; in a store, with read-ahead."""
        requests = self.storage.requests
        spans = list(spans_of(offsets, lengths))
        if requests is None:
            for span in spans:
                data = self.storage.get_part(key, span.start, span.stop - span.start, version=version)
                yield from span.cut(data or b"", numbers, offsets, lengths)
            return
        from ..storage.remote.async_requests import read_ahead  # files do not need asyncio

        def ask(part: Sequence[Span]) -> list[Future[bytes | None]]:
            return requests.parts(key, [(span.start, span.stop) for span in part], version)

        coming = read_ahead(spans, lambda span: span.stop - span.start, ask, most=READ_AHEAD)
        with contextlib.closing(coming):
            for span, future in zip(spans, coming, strict=True):
                yield from span.cut(future.result() or b"", numbers, offsets, lengths)


def _in_order(numbers: Indexes, offsets: Indexes, lengths: Indexes) -> tuple[list[int], list[int], list[int]]:
    order = np.argsort(offsets, kind="stable")
    return numbers[order].tolist(), offsets[order].tolist(), lengths[order].tolist()


class Span(NamedTuple):
    """Inner chunks of a shard that are read together, by their positions in its order."""

    first: int
    end: int
    start: int
    stop: int
    """Range of bytes in the shard."""

    def cut(
        self, data: bytes, numbers: list[int], offsets: list[int], lengths: list[int]
    ) -> Iterator[InnerChunk]:
        """Yield each of them."""
        view = memory(data)
        for place in range(self.first, self.end):
            low = offsets[place] - self.start
            part = view[low : low + lengths[place]]
            if len(part) < lengths[place]:
                raise ChunkError("a shard changed while it was read", found=f"{len(data)} bytes")
            yield InnerChunk(numbers[place], part, lengths[place])


def spans_of(offsets: list[int], lengths: list[int]) -> Iterator[Span]:
    """Combine inner chunks, ascending by offset, that are close together.

    Apart from a few small gaps, at most as many unwanted bytes are read as wanted ones: if bandwidth is
    scarce, a saved request does not outweigh twice the bytes.
    """
    at = 0
    while at < len(offsets):
        start, stop, end = offsets[at], offsets[at] + lengths[at], at + 1
        waste, wanted = 0, lengths[at]
        while end < len(offsets):
            between = max(offsets[end] - stop, 0)
            if between > _GAP or offsets[end] + lengths[end] - start > _SPAN:
                break
            if between and waste + between > max(wanted + lengths[end], _GAP):
                break
            waste += between
            wanted += lengths[end]
            stop = max(stop, offsets[end] + lengths[end])
            end += 1
        yield Span(at, end, start, stop)
        at = end


def inside_shard(error: E, inner: tuple[int, ...]) -> E:
    """An error of one inner chunk, with its position in the shard; MemoryError as it is."""
    if not isinstance(error, ZarrstackError):
        return error
    return type(error).of(error.problem, before=f"inner chunk {inner} of a shard: ")

"""Leaves of a source array, out of whatever objects they lie in, one after another.

Objects that are one leaf each are read whole. Of a shard only the index and the leaves that are wanted
are read, neighbours together, so that a shard larger than memory is no trouble.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.codecs.base import memory
from zarrstack.core.errors import ChunkError, ZarrstackError
from zarrstack.core.frames import Shards
from zarrstack.core.shard import ShardIndex

from .storage import LocalStorage, Storage

if TYPE_CHECKING:
    from .archive import Layout
    from .counting import Counts
    from .inventory import Indexes

_BATCH: Final = 64
_BATCH_BYTES: Final = 16 << 20
"""Objects of a remote store that are fetched together, at most, and what they may hold decoded."""
_SPAN: Final = 4 << 20
"""Bytes of a shard that are read at once, unless one leaf is larger."""
_GAP: Final = 64 << 10
"""Bytes between two leaves of a shard that are read along rather than skipped."""
_KEPT: Final = 8
_KEPT_PAIRS: Final = 1 << 18
"""Shard indexes that are kept (blocks beside each other take from the same shards), and the pairs in them."""


def read_objects(
    storage: Storage, keys: Sequence[str], counts: Counts, *, each: int = 0
) -> Iterator[bytes | None]:
    """Objects in order, remote ones some at a time; None for one that is absent.

    `each` is what an object holds, in bytes, as far as that is known. One that cannot be read is told
    to `counts`, and is None too.
    """
    step = 1 if isinstance(storage, LocalStorage) else min(max(_BATCH_BYTES // max(each, 1), 1), _BATCH)
    for start in range(0, len(keys), step):
        part = keys[start : start + step]
        try:
            yield from storage.get_many(part)
        except ZarrstackError:
            # One unreadable object must not hide the others.
            yield from (_get(storage, key, counts) for key in part)


def _get(storage: Storage, key: str, counts: Counts) -> bytes | None:
    try:
        return storage.get(key)
    except ZarrstackError as error:
        counts.failed(error, key)
        return None


def object_keys(layout: Layout, path: str, indexes: Indexes) -> list[str]:
    """The keys of objects by their linear indexes."""
    prefix = layout.prefix(path)
    return [prefix + name for name in layout.keys.keys(layout.objects.coordinates_of(indexes))]


class MissingShard(Exception):  # noqa: N818 - in a store that cannot list this is no error
    """There is no such shard."""


class ShardReader:
    """Reads leaves out of the shards of one array; safe to share between threads."""

    def __init__(self, storage: Storage, path: str, layout: Layout) -> None:
        assert isinstance(layout.frame, Shards)
        self.storage = storage
        self.layout = layout
        self.frame = layout.frame
        self._path = path
        self._leaves = layout.grid
        self._objects = layout.objects
        self._lock = threading.Lock()
        self._indexes: OrderedDict[int, ShardIndex | None] = OrderedDict()

    def key(self, number: int) -> str:
        """The key of a shard."""
        return self.layout.key(self._path, self._objects.coordinates(number))

    def inner(self, leaf: int) -> tuple[int, ...]:
        """The place of a leaf in its shard."""
        places = self._leaves.coordinates(leaf)
        return tuple(a % b for a, b in zip(places, self.frame.chunks_per_shard, strict=True))

    def index(self, number: int) -> ShardIndex | None:
        """A shard's index; None if there is no such shard. ChunkError, StorageError."""
        with self._lock:
            if number in self._indexes:
                self._indexes.move_to_end(number)
                return self._indexes[number]
        found = self._read_index(number)
        with self._lock:
            self._indexes[number] = found
            most = min(max(_KEPT_PAIRS // max(self.frame.leaves, 1), 1), _KEPT)
            while len(self._indexes) > most:
                self._indexes.popitem(last=False)
        return found

    def _read_index(self, number: int) -> ShardIndex | None:
        form, counts = self.frame.index, self.frame.chunks_per_shard
        size = form.size(counts)
        start = 0 if form.location == "start" else -size
        key = self.key(number)
        length = self.storage.size(key)
        if length is None:
            return None
        form.place(counts, length)  # room for the index
        data = self.storage.get_part(key, start, size)
        if data is None:
            return None
        index = ShardIndex.from_bytes(data, counts, form)
        index.check(length, form)
        return index

    def leaves(
        self, number: int, wanted: npt.NDArray[np.int64] | None = None
    ) -> Iterator[tuple[int, memoryview]]:
        """(linear index of a leaf, its payload), as they lie in the shard; those that are not there left out.

        `wanted` are linear indexes of leaves, ascending; None takes all. Leaves beyond the array's end,
        where no value is, are passed over. MissingShard, ChunkError, StorageError.
        """
        index = self.index(number)
        if index is None:
            raise MissingShard
        first = np.array(self._objects.coordinates(number), dtype=np.int64) * np.array(
            self.frame.chunks_per_shard, dtype=np.int64
        )
        there = np.flatnonzero(index.present)
        inner = (
            np.stack(np.unravel_index(there, index.offsets.shape), axis=1) if index.offsets.shape else None
        )
        places = first[None, :] if inner is None else inner.astype(np.int64) + first
        numbers = self._leaves.indices_of(places[: len(there)])
        keep = numbers >= 0
        if wanted is not None:
            keep &= np.isin(numbers, wanted, assume_unique=True)
        numbers, there = numbers[keep], there[keep]
        offsets = index.offsets.ravel()[there]
        lengths = index.lengths.ravel()[there]
        order = np.argsort(offsets, kind="stable")
        yield from self._spans(
            self.key(number), numbers[order].tolist(), offsets[order].tolist(), lengths[order].tolist()
        )

    def _spans(
        self, key: str, numbers: list[int], offsets: list[int], lengths: list[int]
    ) -> Iterator[tuple[int, memoryview]]:
        """Neighbouring leaves in one read each."""
        at = 0
        while at < len(numbers):
            start, stop, end = offsets[at], offsets[at] + lengths[at], at + 1
            while (
                end < len(numbers)
                and offsets[end] - stop <= _GAP
                and offsets[end] + lengths[end] - start <= _SPAN
            ):
                stop = max(stop, offsets[end] + lengths[end])
                end += 1
            data = memory(self.storage.get_part(key, start, stop - start) or b"")
            for place in range(at, end):
                low = offsets[place] - start
                part = data[low : low + lengths[place]]
                if len(part) < lengths[place]:
                    raise ChunkError("a shard changed while it was read", found=f"{len(data)} bytes")
                yield numbers[place], part
            at = end


def among(candidates: Indexes, present: Indexes) -> Indexes:
    """The candidates that are present; both ascending."""
    place = np.searchsorted(present, candidates)
    place[place == len(present)] = 0
    return candidates[present[place] == candidates] if len(present) else candidates[:0]

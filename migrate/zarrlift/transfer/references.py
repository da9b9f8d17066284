"""References to the payloads of an array's chunks: an object of the source and a range of its bytes for each.

The keys of objects follow from the layout, as for every move. A payload is a whole object, what follows the
header of an N5 block, or an inner chunk of a shard; without bytes behind the end that its own header states.
Only headers and the indexes of shards are read, headers of payloads if the first one shows such bytes.
A block that does not fill its cell has no payload that Zarr v3 could read: it is padded as on the route
`reframe`, and yielded as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import ChunkError, ZarrstackError

from ..archive.chunk_columns import Indexes
from ..core.codecs.base import memory
from ..core.codecs.blosc import HEADER_BYTES, trailing_bytes
from ..core.grid.chunk_keys import reverse_axes
from ..core.grid.frames import N5Blocks, Shards
from ..core.n5.blocks import BlockHeader, head_bytes, require_end
from ..storage.listed_versions import ListedVersions, holding
from .inner_chunks import inner_chunks
from .recode import InnerChunkConversion
from .shard_reader import ShardReader
from .stored_chunks import MissingObject

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory
    from ..planning.plans import ArrayPlan
    from ..storage.base import Storage
    from .counts import MoveCounts

BATCH: Final = 4096
"""Number of objects whose references are made together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """References of some chunks, as columns."""

    places: npt.NDArray[np.int64]
    """Positions in the grid of chunks, (n, ndim)."""
    keys: Sequence[str]
    """Keys of the source's objects."""
    objects: Indexes
    """Places of these objects in the inventory."""
    offsets: Indexes
    lengths: Indexes
    """Ranges in the objects, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedChunk:
    """A chunk that no range of the source contains."""

    place: tuple[int, ...]
    data: bytes


class ArrayReferences:
    """The references of one array; errors of single objects are recorded in `counts`."""

    def __init__(self, plan: ArrayPlan, storage: Storage, inventory: Inventory, counts: MoveCounts) -> None:
        self._plan = plan
        self._layout = plan.source
        self._storage = storage
        self._inventory = inventory
        self._counts = counts
        self._source = inner_chunks(storage, plan.path, plan.source, allow_pickle=plan.move.allow_pickle)
        self._grid = plan.source.objects

    def __iter__(self) -> Iterator[References | ConvertedChunk]:
        for start in range(0, len(self._inventory.indexes), BATCH):
            which = np.arange(start, min(start + BATCH, len(self._inventory.indexes)))
            indexes = self._inventory.indexes[which]
            places = self._grid.coordinates_of(indexes)
            keys = self._source.keys(indexes)
            with holding(self._storage, self._versions(which, keys)):
                match self._layout.frame:
                    case Shards():
                        yield from self._of_shards(which, keys)
                    case N5Blocks() as frame:
                        yield from self._of_blocks(which, places, keys, frame)
                    case None:
                        yield from self._of_objects(which, places, keys)

    def _versions(self, which: Indexes, keys: Sequence[str]) -> ListedVersions | None:
        """The versions with which reads are compared, as for a task."""
        sizes, versions = self._inventory.sizes, self._inventory.versions
        if sizes is None or versions is None or not self._storage.tells_versions:
            return None
        both = sizes[which], versions[which]
        return ListedVersions(self._inventory.indexes[which], both, lambda: keys)

    def _sizes(self, which: Indexes, keys: Sequence[str]) -> Indexes:
        """The size of each object; -1 for one that is missing or cannot be read."""
        if self._inventory.sizes is not None:
            return self._inventory.sizes[which]
        result = np.full(len(which), -1, np.int64)
        requests = self._storage.requests
        ends = None if requests is None else requests.ends(keys, 0, 1)
        for row, key in enumerate(keys):
            try:
                if ends is None:
                    size = self._storage.size(key)
                else:
                    end = ends[row].result()
                    size = None if end is None else end[0]
            except ZarrstackError as error:
                self._counts.failed(error, key)
                continue
            if size is None:
                self._counts.missing(key)
            else:
                result[row] = size
        return result

    def _references(
        self,
        which: Indexes,
        places: npt.NDArray[np.int64],
        keys: Sequence[str],
        header: Indexes,
        sizes: Indexes,
    ) -> References:
        """References to what follows the headers of objects; those of a wrong length are failures."""
        lengths = sizes - header
        good = (sizes >= 0) & (header >= 0)
        expected = self._expected
        wrong = good & ((lengths < 1) if expected is None else (lengths != expected))
        for row in np.flatnonzero(wrong).tolist():
            error = ChunkError(
                "a chunk has the wrong length",
                found=f"{max(int(lengths[row]), 0)} bytes",
                expected="at least one byte" if expected is None else f"{expected} bytes",
            )
            self._counts.failed(error, keys[row])
        rows = np.flatnonzero(good & ~wrong)
        self._counts.bytes_in += int(lengths[rows].sum())
        return References(
            places=places[rows],
            keys=keys if len(rows) == len(keys) else [keys[row] for row in rows.tolist()],
            objects=which[rows],
            offsets=header[rows],
            lengths=lengths[rows],
        )

    @cached_property
    def _expected(self) -> int | None:
        """The length of a payload in bytes, if it follows from the layout: that of uncompressed values."""
        chain, layout = self._layout.chain, self._layout
        if len(chain.codecs) > chain.middle + 1 or layout.data_type.itemsize is None:
            return None
        return int(np.prod(layout.chunk_shape, dtype=object)) * layout.data_type.itemsize

    # Whole objects

    def _of_objects(
        self, which: Indexes, places: npt.NDArray[np.int64], keys: Sequence[str]
    ) -> Iterator[References]:
        sizes = self._sizes(which, keys)
        none = np.zeros(len(which), np.int64)
        references = self._references(which, places, keys, none, self._stated_sizes(keys, sizes))
        self._counts.chunks += len(references.keys)
        yield references

    def _stated_sizes(self, keys: Sequence[str], sizes: Indexes) -> Indexes:
        """The sizes of objects without trailing bytes, which the first object has if any has."""
        if not self._states_lengths:
            return sizes
        existing = np.flatnonzero(sizes >= 0).tolist()
        stated = sizes.copy()
        for rows in (existing[:1], existing[1:]):
            heads = self._source.heads([keys[row] for row in rows], HEADER_BYTES, self._counts)
            for row, head in zip(rows, heads, strict=True):
                stated[row] -= trailing_bytes(head or b"", int(sizes[row]))
            if (stated == sizes).all():
                break
        return stated

    @property
    def _states_lengths(self) -> bool:
        return self._layout.chain.codecs[-1].name == "blosc"

    # N5

    def _of_blocks(
        self, which: Indexes, places: npt.NDArray[np.int64], keys: Sequence[str], frame: N5Blocks
    ) -> Iterator[References | ConvertedChunk]:
        sizes = self._sizes(which, keys)
        block_size = reverse_axes(self._layout.chunk_shape, frame.axes)
        whole = BlockHeader.of(block_size).to_bytes()
        headers = np.full(len(which), -1, np.int64)
        cut: list[int] = []
        size = head_bytes(len(block_size)) + HEADER_BYTES * self._states_lengths
        heads = self._source.heads(keys, size, self._counts)
        for row, (key, head) in enumerate(zip(keys, heads, strict=True)):
            if head is None or sizes[row] < 0:
                continue
            if head.startswith(whole):
                headers[row] = len(whole)
            else:
                try:
                    header = BlockHeader.parse(head, block_size).require_values()
                except ZarrstackError as error:
                    self._counts.failed(error, key)
                    continue
                if not header.fills(block_size):
                    cut.append(row)
                    continue
                headers[row] = header.size
            if self._states_lengths:
                try:
                    require_end(trailing_bytes(head[headers[row] :], int(sizes[row] - headers[row])))
                except ZarrstackError as error:
                    self._counts.failed(error, key)
                    headers[row] = -1
        references = self._references(which, places, keys, headers, sizes)
        self._counts.chunks += len(references.keys)
        yield references
        for row in cut:
            data = self._converted(int(self._inventory.indexes[which[row]]), keys[row])
            if data is not None:
                yield ConvertedChunk(place=tuple(places[row].tolist()), data=data)

    @cached_property
    def _convert(self) -> InnerChunkConversion:
        route = replace(self._plan.route, name="reframe")
        return InnerChunkConversion(replace(self._plan.move, route=route), self._source, recheck=False)

    def _converted(self, index: int, key: str) -> bytes | None:
        """A cut block as a whole chunk."""
        try:
            (chunk,) = self._source.stored(index)
            result = self._convert(chunk, self._counts)
        except MissingObject:
            self._counts.missing(key)
            return None
        except (ZarrstackError, MemoryError) as error:
            self._counts.failed(error, key)
            return None
        assert result is not None
        data = bytes(memory(result))
        self._counts.chunks += 1
        self._counts.bytes_out += len(data)
        return data

    # Shards

    @cached_property
    def _shards(self) -> ShardReader:
        return ShardReader(self._storage, self._plan.path, self._layout)

    def _of_shards(self, which: Indexes, keys: Sequence[str]) -> Iterator[References]:
        numbers = self._inventory.indexes[which].tolist()
        for row, number in enumerate(self._shards.in_turn(numbers)):
            try:
                inner, offsets, lengths = self._shards.ranges(number)
            except MissingObject:
                self._counts.missing(keys[row])
                continue
            except ZarrstackError as error:
                self._counts.failed(error, keys[row])
                continue
            self._counts.chunks += 1
            yield self._references(
                np.full(len(inner), which[row]),
                self._layout.grid.coordinates_of(inner),
                [keys[row]] * len(inner),
                offsets,
                offsets + lengths,
            )

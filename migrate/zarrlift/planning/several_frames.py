"""Finds chunks of several zstd frames or gzip members, which some readers refuse, in a sample of the chunks.

numcodecs reads them; tensorstore 0.1.86 does not. Writers that make them (pzstd, appended files, frames
behind a skippable one) do so in every chunk of an array. Therefore a few chunks of the first arrays of each
kind show it. Such an array has the codec `zstd_frames` or `gzip_members` in its plan, so that a copy encodes
it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from zarrstack.core.errors import Problem, StorageError, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.chunk_reader import ChunkReader, MissingObject
from ..archive.nodes import Layout
from ..archive.shard_reader import ShardReader, chunk_reader
from ..core.chain.chain import with_several_streams
from ..core.codec_table import SEVERAL
from ..core.codecs.base import HEAD_BYTES, TAIL_BYTES, Buffer, HeadAndTail
from ..core.problems import note, warning
from ..storage.base import Storage

_TRIED: Final = 4
"""Number of arrays of a kind that are looked at if none has such chunks."""
_CHUNKS: Final = 4
"""Number of objects looked at in an array: the first, the last and some between; of a shard, two chunks."""
_LARGE: Final = 4 << 20
"""Size in bytes of an object of which the ends are read first, and the rest only if they do not suffice."""


@dataclass(slots=True)
class Kind:
    """All layouts whose chunks are encoded alike."""

    tried: int = 0
    """Number of arrays that were looked at since one had such chunks."""


class SeveralFrames:
    """Looks at chunks of one archive."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kinds: dict[object, Kind] = {}
        self._answers = True

    def described(
        self, kind: Kind, path: str, source: Layout, inventory: Inventory, *, kept: bool
    ) -> tuple[Layout, tuple[Problem, ...]]:
        """The layout with the codec for several streams, where chunks have them, and a note.

        `kind` is that of the layout, and `kept` is whether the stored bytes are kept.
        """
        if not len(inventory.indexes) or kind.tried >= _TRIED or not self._answers:
            return source, ()
        kind.tried += 1
        reader = chunk_reader(self._storage, path, source)
        try:
            found = next(_found(reader, inventory), None)
        except StorageError:  # the run reports it, and waits for a store
            self._answers = False
            return source, ()
        if found is None:
            return source, ()
        kind.tried = 0
        name = source.chain.codecs[found.place].name
        layout = replace(source, chain=with_several_streams(source.chain))
        what = f"chunks have several streams of {name}, which tensorstore refuses"
        streams = f"{found.streams} streams in a chunk"
        if kept:
            advice = "A copy to a new destination without --codecs keep encodes them again."
            problem = warning("readers", what, node=path, key=found.key, found=streams, advice=advice)
        else:
            problem = note(
                "codec", f"{what}: they are encoded again", node=path, key=found.key, found=streams
            )
        return layout, (problem,)

    def kind_of(self, source: Layout) -> Kind | None:
        """The kind of a layout; None if no chunk can have several streams."""
        if not any(spec.name in SEVERAL for spec in source.chain.codecs):
            return None
        return self._kinds.setdefault((source.chain, source.data_type, source.frame), Kind())


class _Found(NamedTuple):
    place: int
    streams: int
    key: str


def _found(reader: ChunkReader, inventory: Inventory) -> Iterator[_Found]:
    places = np.linspace(0, len(inventory.indexes) - 1, _CHUNKS).astype(np.int64)
    for place in dict.fromkeys(places.tolist()):  # np.unique would load numpy.ma, which takes longer
        number = int(inventory.indexes[place])
        size = None if inventory.sizes is None else int(inventory.sizes[place])
        try:
            for payload in _payloads(reader, number, size):
                several = reader.pipeline.several_streams(payload, thorough=True)
                if several is not None:
                    yield _Found(*several, reader.key(number))
        except (MissingObject, ZarrstackError, MemoryError) as error:  # reported by the move
            if isinstance(error, StorageError) and reader.storage.requests is not None:
                raise


def _payloads(reader: ChunkReader, number: int, size: int | None) -> Iterator[Buffer]:
    if isinstance(reader, ShardReader):
        present = reader.present(number)
        for chunk in reader.encoded(number, present[[0, -1]] if len(present) > 1 else present):
            yield chunk.payload
        return
    if reader.layout.frame is None and size is not None and size > _LARGE:
        key = reader.key(number)
        head = reader.storage.get_part(key, 0, HEAD_BYTES)
        tail = reader.storage.get_part(key, size - TAIL_BYTES, TAIL_BYTES)
        if reader.pipeline.check(HeadAndTail(head or b"", tail or b"", size)):
            return
    for chunk in reader.encoded(number):
        yield chunk.payload

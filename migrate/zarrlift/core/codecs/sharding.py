"""`sharding_indexed`: a whole shard as one array.

Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/ . `shard_index.py` of
zarrstack implements the index, and suffices for moving inner chunks without decoding; this codec is for
shards that are read or written as arrays, including nested ones. Inner chunks that equal the fill value, bit
for bit, are omitted, as in zarr-python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import ChunkError, MetadataError
from zarrstack.core.shard_index import IndexFormat, ShardIndex, packed

from ..chain.chain import Chain
from ..data_types.bits import same_bits
from ..data_types.v3 import fill_from_json, zero_fill
from ..grid.grid import Grid
from .base import DEFAULT_OPTIONS, ArrayCodec, HeadAndTail, InnerChunk, Options, Size, memory
from .bounds import require_fit
from .config import Configuration
from .pipeline import Pipeline

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ShardingIndexed(ArrayCodec):
    """The `sharding_indexed` codec."""

    inner: Pipeline
    grid: Grid
    form: IndexFormat
    fill: Any
    """Value of a missing inner chunk: a numpy scalar, str, bytes or None."""
    limit: int | None
    """Limit in bytes of one shard whose inner chunks have variable length."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile; configuration: `chunk_shape`, `codecs`, `index_codecs`, `index_location`."""
        config = Configuration(spec, ("chunk_shape", "codecs", "index_codecs", "index_location"))
        shape = config.value("chunk_shape")
        if (
            not isinstance(shape, list | tuple)
            or len(shape) != len(inner_chunk.shape)
            or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape)
            or any(outer % n for outer, n in zip(inner_chunk.shape, shape, strict=True))
        ):
            raise config.wrong(
                "chunk_shape", shape, f"lengths that divide the shard's, {list(inner_chunk.shape)}"
            )
        codecs = config.value("codecs")
        if not isinstance(codecs, list | tuple):
            raise config.wrong("codecs", codecs, "a list of codecs")
        inner = Pipeline(
            Chain.from_json(codecs),
            tuple(shape),
            inner_chunk.data_type,
            object_limit=options.object_limit,
            allow_pickle=options.allow_pickle,
            fill_value=options.fill_value,
        )
        if options.fill_value is None:
            fill = zero_fill(inner_chunk.data_type)
        else:
            fill = fill_from_json(options.fill_value, inner_chunk.data_type)
        return cls(
            spec,
            inner_chunk,
            inner,
            Grid(inner_chunk.shape, tuple(shape)),
            IndexFormat.from_json(spec.configuration),
            fill,
            options.object_limit if inner_chunk.data_type.numpy.hasobject else None,
        )

    @property
    def size(self) -> Size:
        """The index plus the largest size of the inner chunks, which may have trailing bytes."""
        index = self.form.size(self.grid.counts)
        inner = self.inner
        chunks = self.grid.total * (
            inner.most_stored if inner.chain.states_lengths else inner.sizes[-1].at_most
        )
        return Size(index + (chunks if self.limit is None else min(chunks, self.limit)), exact=False)

    def encode(self, array: Array) -> Buffer:
        """Encode inner chunks in C order, with the index at the configured end."""
        chunks: list[tuple[tuple[int, ...], Buffer]] = []
        blank = self._blank(self.grid.chunk_shape)
        for number in range(self.grid.total):
            coordinates = self.grid.coordinates(number)
            chunk = array[self.grid.region(coordinates)]
            if not same_bits(chunk, blank):
                chunks.append((coordinates, self.inner.encode(chunk)))
        return packed(chunks, self.grid.counts, self.form)

    def decode(self, data: Buffer) -> Array:
        view = memory(data)
        require_fit(self.spec.name, len(view), self.size)
        index = ShardIndex.of_shard(view, self.grid.counts, self.form)
        result = self._blank(self.inner_chunk.shape)
        for number in range(self.grid.total):
            coordinates = self.grid.coordinates(number)
            place = index.get(coordinates)
            if place is None:
                continue
            try:
                result[self.grid.region(coordinates)] = self.inner.decode(view[place])
            except ChunkError as error:
                raise ChunkError.of(
                    error.problem, before=f"inner chunk {coordinates} of a shard: "
                ) from error
        return result

    def check(self, ends: HeadAndTail) -> bool:
        """Check the length; always False, because checking the index requires all of it."""
        if not self.form.size(self.grid.counts) <= ends.length <= self.size.at_most:
            raise ChunkError(
                f"{self.spec.name}: the shard has an impossible length",
                found=f"{ends.length} bytes",
                expected=f"{self.form.size(self.grid.counts)} to {self.size.at_most} bytes",
            )
        return False

    def _blank(self, shape: tuple[int, ...]) -> Array:
        native = self.inner_chunk.data_type.numpy
        try:
            result = np.empty(shape, native)
            result[...] = self.fill
        except (TypeError, ValueError) as error:
            raise MetadataError("the fill value does not fit the data type", found=str(error)) from None
        return result

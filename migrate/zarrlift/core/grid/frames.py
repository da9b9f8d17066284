"""Frames: the parts of a stored object around the payloads of its inner chunks. Pure data.

Most objects are a single payload and have no frame. An N5 block starts with a header (`n5/blocks.py`), and a
shard contains the payloads of many inner chunks and their index (`shard_index.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.shard_index import IndexFormat, ShardIndex, packed

from ..chain.chain import Chain
from ..codec_spec import CodecSpec
from ..shapes import Shape
from .chunk_keys_n5 import Axes


@dataclass(frozen=True, slots=True)
class N5Blocks:
    """Each object is a block: a header with the block's lengths, then the payload of one inner chunk.

    A block may be shorter than its cell; the rest of the cell is zeros.
    """

    axes: Axes
    """The displayed order of the array's axes; headers are always in N5's order."""

    def chain(self, ndim: int, payload: Chain) -> Chain:
        """The v3 chain of a whole block as an array of `ndim` axes, in N5's order.

        `payload` is the chain of the bytes after the header. The codec requires all of its parts, even if a
        single axis needs no transpose and single bytes have no order:
        https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default
        """
        if self.axes != "kept":
            raise MetadataError("n5_default shows arrays in N5's order of axes", found=f"axes {self.axes}")
        codecs = (
            CodecSpec("transpose", {"order": list(reversed(range(ndim)))}),
            CodecSpec("bytes", {"endian": "big"}),
            *payload.codecs[payload.middle + 1 :],
        )
        return Chain((CodecSpec("n5_default", {"codecs": [spec.to_json() for spec in codecs]}),))

    def to_json(self) -> JSONObject:
        """JSON for saved plans."""
        return {"name": "n5", "axes": self.axes}

    def __str__(self) -> str:
        return "N5 blocks"


@dataclass(frozen=True, slots=True)
class Shards:
    """Each object is a shard with a fixed number of inner chunks along each axis."""

    chunks_per_shard: Shape
    index: IndexFormat

    @property
    def inner_chunks(self) -> int:
        """Number of inner chunks in a full shard."""
        return prod(self.chunks_per_shard)

    def inner(self, place: Shape) -> Shape:
        """The position in its shard of the inner chunk at `place` in the grid of inner chunks."""
        return tuple([at % count for at, count in zip(place, self.chunks_per_shard, strict=True)])

    def index_of(self, shard: bytes | memoryview) -> ShardIndex:
        """The index of a whole shard, checked against its length; ChunkError."""
        return ShardIndex.of_shard(shard, self.chunks_per_shard, self.index)

    def packed(self, chunks: Iterable[tuple[Shape, Any]]) -> bytes:
        """A shard of payloads, each with its position in it, in this order and without gaps."""
        return packed(chunks, self.chunks_per_shard, self.index)

    def chain(self, inner_chunk: Shape, inner: Chain) -> Chain:
        """The v3 chain of a whole shard as an array.

        `inner_chunk` is the shape of an inner chunk, `inner` the chain of its payload.
        """
        configuration = {
            "chunk_shape": list(inner_chunk),
            "codecs": inner.to_json(),
            **self.index.to_json(),
        }
        return Chain((CodecSpec("sharding_indexed", configuration),))

    def to_json(self) -> JSONObject:
        """JSON for saved plans."""
        return {
            "name": "shards",
            "chunks_per_shard": list(self.chunks_per_shard),
            **self.index.to_json(),
        }

    def __str__(self) -> str:
        return f"shards of {' x '.join(map(str, self.chunks_per_shard))} chunks, {self.index}"


Frame: TypeAlias = N5Blocks | Shards


def frame_from_json(data: JSON) -> Frame | None:
    """The inverse of `to_json`; None for null. MetadataError for anything else."""
    if data is None:
        return None
    match data:
        case {"name": "n5", "axes": "reversed" | "kept" as axes}:
            return N5Blocks(axes)
        case {"name": "shards", "chunks_per_shard": list() as counts}:
            return Shards(tuple(counts), IndexFormat.from_json(data))
    raise MetadataError("not a frame", found=excerpt(data), expected='{"name": "n5" or "shards", ...}')

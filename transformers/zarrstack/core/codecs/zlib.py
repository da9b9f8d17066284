"""`numcodecs.zlib`: one zlib stream (RFC 1950), Zarr v2's `zlib`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..errors import ChunkError
from .base import BytesCodec, Ends, Size
from .bounds import compressed
from .config import Configuration
from .deflate import zlib_compress, zlib_decompress

if TYPE_CHECKING:
    import numpy as np

    from ..chain.codec_spec import CodecSpec
    from .base import Buffer

_SHORTEST = 8
"""Two bytes of header, an empty deflate block of two, four of Adler-32."""


@dataclass(frozen=True, slots=True)
class Zlib(BytesCodec):
    """The `zlib` codec of numcodecs."""

    spec: CodecSpec
    level: int

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `level`, -1 to 9, by default 1 as in numcodecs."""
        return cls(spec, Configuration(spec, ("level",)).integer("level", 1, low=-1, high=9))

    def encoded_size(self, decoded: Size) -> Size:
        """A generous upper bound."""
        return compressed(decoded)

    def encode(self, data: Buffer) -> Buffer:
        """Encode one stream."""
        return zlib_compress(data, self.level)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode one stream; nothing may follow it."""
        return zlib_decompress(data, decoded)

    def check(self, ends: Ends, decoded: Size) -> bool:
        """Check the header: deflate, check bits, no preset dictionary (RFC 1950, 2.2)."""
        head = ends.head
        if ends.length < _SHORTEST:
            raise ChunkError("zlib: the payload is cut short", found=f"{ends.length} bytes")
        if head[0] & 0x8F != 8 or (head[0] << 8 | head[1]) % 31 or head[1] & 0x20:
            raise ChunkError("zlib: the payload has no zlib header", found=head[:2].hex(" "))
        return True

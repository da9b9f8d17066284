"""`numcodecs.zlib`: one zlib stream (RFC 1950), Zarr v2's `zlib`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.core.errors import ChunkError

from .base import HeadAndTail, LevelCodec, Size
from .deflate import zlib_compress, zlib_decompress

if TYPE_CHECKING:
    from .base import Buffer

_SHORTEST = 8
"""Two bytes of header, an empty deflate block of two, four of Adler-32."""


class Zlib(LevelCodec):
    """The `zlib` codec of numcodecs."""

    __slots__ = ()
    levels = (-1, 9)

    def encode(self, data: Buffer) -> Buffer:
        """Encode one stream."""
        return zlib_compress(data, self.level)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode one stream; nothing may follow it."""
        return zlib_decompress(data, decoded)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header: deflate, check bits, no preset dictionary (RFC 1950, 2.2)."""
        head = ends.head
        if ends.length < _SHORTEST:
            raise ChunkError("zlib: the payload is cut short", found=f"{ends.length} bytes")
        if head[0] & 0x8F != 8 or (head[0] << 8 | head[1]) % 31 or head[1] & 0x20:
            raise ChunkError("zlib: the payload has no zlib header", found=head[:2].hex(" "))
        return True

"""`gzip`: members of RFC 1952, and `numcodecs.zlib`: one stream of RFC 1950, as Zarr v2's `zlib`.

Specification of `gzip`: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/ (level 0 to 9). Zarr v2's
`gzip` and zarr-python's `numcodecs.gzip` are the same bytes; they also allow level -1, zlib's default, which
is 6.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from zarrstack.core.errors import ChunkError

from .base import HeadAndTail, LevelCodec, Size
from .deflate import SHORTEST_GZIP, gzip_compress, gzip_decompress, zlib_compress, zlib_decompress

if TYPE_CHECKING:
    from .base import Buffer


class Gzip(LevelCodec):
    """The `gzip` codec."""

    __slots__ = ()
    levels = (-1, 9)

    def encode(self, data: Buffer) -> Buffer:
        """Encode one member, without time or name."""
        return gzip_compress(data, self.level)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode all members; see `gzip_decompress`."""
        return gzip_decompress(data, decoded)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header, and the size in the trailer (modulo 2**32).

        A different size is not conclusive: the last of several members states only its own, and zero padding
        may follow it. The result is then False: only decoding can tell.
        """
        if len(ends.head) < 10 or ends.head[:3] != b"\x1f\x8b\x08" or ends.head[3] & 0xE0:
            raise ChunkError("gzip: the payload has no gzip header", found=ends.head[:4].hex(" "))
        if ends.length < SHORTEST_GZIP:
            raise ChunkError("gzip: the payload is cut short", found=f"{ends.length} bytes")
        (last,) = struct.unpack("<I", ends.tail[-4:])
        if decoded.exact:
            return bool(last == decoded.at_most & 0xFFFFFFFF)
        return bool(last <= decoded.at_most)


_SHORTEST = 8
"""Two bytes of header, an empty deflate block of two, four of Adler-32."""


class Zlib(LevelCodec):
    """The `zlib` codec of numcodecs."""

    __slots__ = ()
    levels = (-1, 9)

    def encode(self, data: Buffer) -> Buffer:
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

"""`numcodecs.bz2`: one or more bzip2 streams, Zarr v2's `bz2`.

The format is that of libbz2: "BZh", a digit for the block size, blocks that start with the digits of pi, and
an end marker that starts with those of its square root.
"""

from __future__ import annotations

import bz2
from typing import TYPE_CHECKING

from zarrstack.core.errors import ChunkError

from .base import HeadAndTail, LevelCodec, Size, memory
from .streams import unpack

if TYPE_CHECKING:
    from .base import Buffer

_BLOCK = b"\x31\x41\x59\x26\x53\x59"
_END = b"\x17\x72\x45\x38\x50\x90"


class Bz2(LevelCodec):
    """The `bz2` codec of numcodecs."""

    __slots__ = ()
    levels = (1, 9)

    def encode(self, data: Buffer) -> bytes:
        """Encode one stream."""
        return bz2.compress(memory(data), self.level)

    def decode(self, data: Buffer, decoded: Size) -> bytes | bytearray:
        """Decode all streams; trailing bytes, which Python's bz2 ignores, raise ChunkError."""
        return unpack("bz2", data, decoded, bz2.BZ2Decompressor, (OSError, ValueError), bytes)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header and the marker of the first block."""
        head = ends.head
        level = head[3:4]
        if head[:3] != b"BZh" or level not in b"123456789" or head[4:10] not in (_BLOCK, _END):
            raise ChunkError("bz2: the payload has no bzip2 header", found=head[:10].hex(" "))
        return True

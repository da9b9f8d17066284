"""`numcodecs.bz2`: one or more bzip2 streams, Zarr v2's `bz2`.

The format is what libbz2 reads: "BZh", a digit for the block size, blocks that begin
with the digits of pi, and an end that begins with those of its square root.
"""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..errors import ChunkError
from .base import BytesCodec, Ends, Size, memory
from .bounds import compressed, require_fit, too_large
from .config import Configuration

if TYPE_CHECKING:
    import numpy as np

    from ..chain import CodecSpec
    from .base import Buffer

_BLOCK = b"\x31\x41\x59\x26\x53\x59"
_END = b"\x17\x72\x45\x38\x50\x90"


@dataclass(frozen=True, slots=True)
class Bz2(BytesCodec):
    """The `bz2` codec of numcodecs."""

    spec: CodecSpec
    level: int

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `level`, 1 to 9; 1 if missing, as numcodecs has it."""
        return cls(spec, Configuration(spec, ("level",)).integer("level", 1, low=1, high=9))

    def encoded_size(self, decoded: Size) -> Size:
        """Anything up to a generous bound."""
        return compressed(decoded)

    def encode(self, data: Buffer) -> bytes:
        """One stream."""
        return bz2.compress(memory(data), self.level)

    def decode(self, data: Buffer, decoded: Size) -> bytes:
        """All streams. Python's bz2 passes over what follows the last; here it is refused."""
        parts: list[bytes] = []
        left = decoded.at_most
        rest: memoryview | bytes = memory(data)
        while len(rest) or not parts:
            stream = bz2.BZ2Decompressor()
            try:
                part = stream.decompress(rest, left + 1)
            except (OSError, ValueError) as error:
                raise ChunkError("bz2: the payload does not unpack", found=str(error)) from None
            if len(part) > left:
                raise too_large("bz2", decoded)
            if not stream.eof:
                raise ChunkError(
                    "bz2: the payload is cut short", found=f"{len(part)} decoded bytes and no end"
                )
            parts.append(part)
            left -= len(part)
            rest = stream.unused_data
        result = parts[0] if len(parts) == 1 else b"".join(parts)
        require_fit("bz2", len(result), decoded)
        return result

    def check(self, ends: Ends, decoded: Size) -> bool:
        """The header and the first block's mark."""
        head = ends.head
        level = head[3:4]
        if head[:3] != b"BZh" or level not in b"123456789" or head[4:10] not in (_BLOCK, _END):
            raise ChunkError("bz2: the payload has no bzip2 header", found=head[:10].hex(" "))
        return True

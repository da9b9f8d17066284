"""`lz4_bare`: one LZ4 block and nothing else, not even its size.

What z5 writes under N5's name `lz4` (observed: z5py 3.0.2; `blockSize` holds a level there, 6 if
not asked for, which does not matter to readers). The name is ours and is never written.
Block format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import ChunkError
from .base import BytesCodec, Ends, Size
from .config import Configuration
from .lz4 import pack
from .lz4_block import require_ratio, unpack

if TYPE_CHECKING:
    from ..chain.codec_spec import CodecSpec
    from .base import Buffer


@dataclass(frozen=True, slots=True)
class Lz4Bare(BytesCodec):
    """The `lz4_bare` codec."""

    spec: CodecSpec

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """No configuration."""
        Configuration(spec, ())
        return cls(spec)

    def encoded_size(self, decoded: Size) -> Size:
        """LZ4_COMPRESSBOUND."""
        return Size(decoded.at_most + decoded.at_most // 255 + 16, exact=False)

    def encode(self, data: Buffer) -> bytes:
        """One block."""
        return pack(data)[4:]

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Unpack to the size that the caller knows; nothing in the payload says it."""
        self.check(Ends.of(data), decoded)
        result = np.empty(decoded.at_most, np.uint8)
        if decoded.at_most:
            unpack(data, result)
        return result

    def check(self, ends: Ends, decoded: Size) -> bool:
        """Whether a block this short could hold that much; no more can be seen without unpacking."""
        if not decoded.exact:
            raise ChunkError("lz4_bare: the size of what the payload unpacks to is not known")
        if decoded.at_most == 0 and ends.length > 1:
            raise ChunkError("lz4_bare: bytes follow an empty block", found=f"{ends.length} bytes")
        require_ratio("lz4_bare", ends.length, decoded.at_most)
        return True

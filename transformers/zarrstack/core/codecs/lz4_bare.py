"""`lz4_bare`: a single LZ4 block, without its size.

z5 writes it under N5's name `lz4` (observed: z5py 3.0.2; its `blockSize` holds a level, by default 6, which
does not matter to readers). The name is this project's and never written. Block format:
https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
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
        """Compile; no configuration."""
        Configuration(spec, ())
        return cls(spec)

    def encoded_size(self, decoded: Size) -> Size:
        """LZ4_COMPRESSBOUND."""
        return Size(decoded.at_most + decoded.at_most // 255 + 16, exact=False)

    def encode(self, data: Buffer) -> bytes:
        """Encode one block."""
        return pack(data)[4:]

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode to the size given by the caller, which the payload does not state."""
        self.check(Ends.of(data), decoded)
        result = np.empty(decoded.at_most, np.uint8)
        if decoded.at_most:
            unpack(data, result)
        return result

    def check(self, ends: Ends, decoded: Size) -> bool:
        """Check whether the block is long enough for its size; more requires decoding."""
        if not decoded.exact:
            raise ChunkError("lz4_bare: the size of what the payload unpacks to is not known")
        if decoded.at_most == 0 and ends.length > 1:
            raise ChunkError("lz4_bare: bytes follow an empty block", found=f"{ends.length} bytes")
        require_ratio("lz4_bare", ends.length, decoded.at_most)
        return True

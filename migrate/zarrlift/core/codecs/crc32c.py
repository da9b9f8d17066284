"""`crc32c`: four bytes with the CRC-32C of a payload, behind it or, in numcodecs' codec, before it.

Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/ (little-endian, at the end).
`numcodecs.crc32c` (0.16.6) is the same unless its `location` is "start".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from zarrstack.core.crc32c import crc32c
from zarrstack.core.errors import ChunkError

from .base import BytesCodec, HeadAndTail, Size, memory, octets, require_length

if TYPE_CHECKING:
    from typing import Any

    from .base import Buffer


@dataclass(frozen=True, slots=True)
class Crc32c(BytesCodec):
    """The `crc32c` codec, of v3 and of numcodecs."""

    location: Literal["start", "end"] | None = None

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Bytes: the checksum breaks the alignment of items."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        return Size(decoded.at_most + 4, decoded.exact)

    def encode(self, data: Buffer) -> bytes:
        content = memory(data)
        number = struct.pack("<I", crc32c(octets(data)))
        return b"".join((number, content) if self.location == "start" else (content, number))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Verify the checksum and return a view of the data."""
        view = octets(data)
        self._require_checksum(len(view))
        require_length(self.spec.name, len(view), self.encoded_size(decoded))
        stored, content = (view[:4], view[4:]) if self.location == "start" else (view[-4:], view[:-4])
        stated, expected = int.from_bytes(stored.tobytes(), "little"), crc32c(content)
        if stated != expected:
            raise ChunkError(
                f"{self.spec.name}: the checksum is wrong", found=f"{stated:08x}", expected=f"{expected:08x}"
            )
        return content

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        self._require_checksum(ends.length)
        return BytesCodec.check(self, ends, decoded)

    def _require_checksum(self, length: int) -> None:
        if length < 4:
            raise ChunkError(f"{self.spec.name}: the payload is cut short", found=f"{length} bytes")

    def inner_ends(self, ends: HeadAndTail) -> HeadAndTail | None:
        length = ends.length - 4
        if self.location == "start":
            return HeadAndTail(ends.head[4:], ends.tail[max(0, len(ends.tail) - length) :], length)
        return HeadAndTail(ends.head[:length], ends.tail[:-4], length)

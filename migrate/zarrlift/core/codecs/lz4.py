"""`numcodecs.lz4` and `lz4_bare`: a single LZ4 block, with and without its decoded size before it.

`numcodecs.lz4` is Zarr v2's `lz4` (numcodecs 0.16.6 `numcodecs.lz4`), with the size as little-endian u32.
Neither is the LZ4 frame format or Java's block stream (lz4_block.py).

z5 writes `lz4_bare` under N5's name `lz4` (observed: z5py 3.0.2; its `blockSize` holds a level, by default 6,
which does not matter to readers). The name is this project's and never written. Block format:
https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numcodecs import lz4

from zarrstack.core.errors import ChunkError, UnsupportedError

from .base import BytesCodec, HeadAndTail, Size, memory
from .bounds import buffer_length, bytes_text
from .config import Configuration

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codec_spec import CodecSpec
    from .base import Buffer

_MOST: Final = 0x7E000000
"""LZ4_MAX_INPUT_SIZE."""
SIZE_PREFIX: Final = 4
_PER_BYTE: Final = 255
"""Maximum expansion: each byte of match length adds at most 255 decoded bytes."""


@dataclass(frozen=True, slots=True)
class Lz4(BytesCodec):
    """The `lz4` codec of numcodecs."""

    acceleration: int

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `acceleration`, default 1; values below 1 count as 1."""
        config = Configuration(spec, ("acceleration",))
        return cls(spec, config.integer("acceleration", 1, low=-(1 << 31), high=(1 << 31) - 1))

    def encoded_size(self, decoded: Size) -> Size:
        """LZ4_COMPRESSBOUND and the four bytes of the size."""
        return Size(SIZE_PREFIX + _bound(decoded), exact=False)

    def encode(self, data: Buffer) -> bytes:
        """Encode the size and one block."""
        return pack(data, self.acceleration)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode, after checking the stated size."""
        length = buffer_length(data)
        size = self._require_header(bytes(memory(data)[:4]), length, decoded)
        if size == 0:
            if length > 5:
                raise ChunkError("lz4: bytes follow an empty block", found=f"{length} bytes")
            return b""
        result = np.empty(size, np.uint8)
        try:
            lz4.decompress(data, result)
        except (RuntimeError, ValueError) as error:
            raise ChunkError("lz4: the payload does not unpack", found=str(error)) from None
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the stated size, and whether the block is long enough for it."""
        self._require_header(ends.head[:4], ends.length, decoded)
        return True

    def _require_header(self, head: bytes, length: int, decoded: Size) -> int:
        if len(head) < 4:
            raise ChunkError("lz4: the payload is cut short", found=f"{length} bytes")
        size = int.from_bytes(head, "little")
        if size > min(decoded.at_most, _MOST) or (decoded.exact and size != decoded.at_most):
            raise ChunkError(
                "lz4: the payload states a size that its chunk cannot have",
                found=f"{size} bytes",
                expected=bytes_text(decoded),
            )
        if size > (length - 4) * _PER_BYTE:
            raise ChunkError(
                "lz4: the payload is too short for the size it states",
                found=f"{length} bytes for {size}",
            )
        return size


class Lz4Bare(BytesCodec):
    """The `lz4_bare` codec."""

    __slots__ = ()

    def encoded_size(self, decoded: Size) -> Size:
        """LZ4_COMPRESSBOUND."""
        return Size(_bound(decoded), exact=False)

    def encode(self, data: Buffer) -> bytes:
        """Encode one block."""
        return pack(data)[SIZE_PREFIX:]

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode to the size given by the caller, which the payload does not state."""
        self.check(HeadAndTail.of(data), decoded)
        result = np.empty(decoded.at_most, np.uint8)
        if decoded.at_most:
            unpack(data, result)
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check whether the block is long enough for its size; more requires decoding."""
        if not decoded.exact:
            raise ChunkError("lz4_bare: the size of what the payload unpacks to is not known")
        if decoded.at_most == 0 and ends.length > 1:
            raise ChunkError("lz4_bare: bytes follow an empty block", found=f"{ends.length} bytes")
        require_ratio("lz4_bare", ends.length, decoded.at_most)
        return True


def _bound(decoded: Size) -> int:
    return decoded.at_most + decoded.at_most // 255 + 16


def pack(data: Buffer, acceleration: int = 1) -> bytes:
    """Encode the size and one block; UnsupportedError for more data than a block can hold."""
    if buffer_length(data) > _MOST:
        raise UnsupportedError(
            "lz4 cannot hold a chunk this large",
            found=f"{buffer_length(data)} bytes",
            expected=f"at most {_MOST} bytes",
        )
    result: bytes = lz4.compress(data, acceleration)
    return result


def unpack(body: Buffer, out: npt.NDArray[np.uint8]) -> None:
    """Unpack one bare LZ4 block into exactly the memory given; ChunkError if it does not fit."""
    try:
        lz4.decompress(b"".join((len(out).to_bytes(SIZE_PREFIX, "little"), memory(body))), out)
    except (RuntimeError, ValueError) as error:
        raise ChunkError("lz4: a block does not unpack", found=str(error)) from None


def require_ratio(codec: str, length: int, size: int) -> None:
    """Raise ChunkError if no LZ4 block of `length` bytes could unpack to `size`."""
    if size > length * _PER_BYTE:
        raise ChunkError(
            f"{codec}: a block is too short for what it unpacks to", found=f"{length} bytes for {size}"
        )

"""`lz4_block`: the LZ4 block stream of Java's lz4 library, which N5 calls `lz4`.

Neither the LZ4 frame format nor numcodecs' `lz4`. The name is this project's and is never written to a v3
document, because none is registered (https://github.com/zarr-developers/numcodecs/issues/175).

The stream, from lz4-java 1.8 (https://github.com/lz4/lz4-java, `LZ4BlockOutputStream` and
`LZ4BlockInputStream`), consists of blocks, each with a header of 21 bytes: the magic "LZ4Block"; a token
whose upper half is the method (1 stored, 2 LZ4) and whose lower half limits a block to 2^(10 + lower half)
unpacked bytes; then, as little-endian int32, the packed length, the unpacked length and a checksum: xxHash32
of the unpacked bytes with seed 0x9747b28c, without its upper four bits. A header whose three numbers are 0
ends the stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
from numcodecs import lz4

from zarrstack.core.errors import ChunkError

from .base import BytesCodec, HeadAndTail, Size, memory
from .bounds import bytes_text, octets, require_fit, too_large
from .config import Configuration
from .lz4 import SIZE_PREFIX, require_ratio, unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codec_spec import CodecSpec
    from .base import Buffer

SMALLEST_BLOCK: Final = 64
LARGEST_BLOCK: Final = 1 << 25
"""Block sizes that Java's stream accepts for writing."""
DEFAULT_BLOCK: Final = 1 << 16

_HEADER: Final = struct.Struct("<8sBiii")
_MARK: Final = b"LZ4Block"
_STORED: Final = 0x10
_PACKED: Final = 0x20
_LEVEL_BASE: Final = 10
_SEED: Final = 0x9747B28C
_CHECKSUM_BITS: Final = 0x0FFFFFFF


@dataclass(frozen=True, slots=True)
class Lz4Block(BytesCodec):
    """The `lz4_block` codec."""

    block_size: int

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `blockSize`, 64 to 2^25 bytes, by default 65536 as in N5."""
        config = Configuration(spec, ("blockSize",))
        size = config.integer("blockSize", DEFAULT_BLOCK, low=SMALLEST_BLOCK, high=LARGEST_BLOCK)
        return cls(spec, size)

    def encode(self, data: Buffer) -> bytes:
        """Encode blocks of the configured size, compressed if that makes them smaller, and the end mark."""
        view = octets(data)
        level = max(0, (self.block_size - 1).bit_length() - _LEVEL_BASE)
        parts: list[bytes | npt.NDArray[np.uint8]] = []
        for start in range(0, len(view), self.block_size):
            block = view[start : start + self.block_size]
            packed = lz4.compress(block)[SIZE_PREFIX:]
            method = _PACKED if len(packed) < len(block) else _STORED
            body = packed if method == _PACKED else block
            parts += (
                _HEADER.pack(_MARK, method | level, len(body), len(block), _checksum(block)),
                body,
            )
        parts.append(_HEADER.pack(_MARK, _STORED | level, 0, 0, 0))
        return b"".join(parts)  # type: ignore[arg-type]  # arrays are buffers

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode all blocks up to the end mark, verifying every checksum; nothing may follow it.

        The sizes in all headers are summed up before anything is unpacked.
        """
        view = memory(data)
        blocks = list(_blocks(view, decoded))
        total = sum(block.size for block in blocks)
        require_fit("lz4_block", total, decoded)
        result = np.empty(total, np.uint8)
        done = 0
        for block in blocks:
            out = result[done : done + block.size]
            body = view[block.start : block.start + block.length]
            if block.method == _STORED:
                out[:] = octets(body)
            else:
                unpack(body, out)
            if _checksum(out) != block.checksum:
                raise ChunkError(
                    "lz4_block: the checksum of a block is wrong",
                    found=f"{_checksum(out):07x}",
                    expected=f"{block.checksum:07x}",
                )
            done += block.size
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the first header, and that the payload ends with an end mark."""
        header = _header(ends.head, 0, ends.length)
        if header.size > decoded.at_most:
            raise too_large("lz4_block", decoded)
        if not ends.tail.endswith(_MARK[-3:] + bytes([ends.tail[-13]]) + bytes(12)):
            raise ChunkError("lz4_block: the payload has no end mark", found=ends.tail.hex(" "))
        return True


class _Block(NamedTuple):
    method: int
    start: int
    length: int
    size: int
    checksum: int


def _blocks(view: memoryview, decoded: Size) -> Iterator[_Block]:
    position = 0
    total = 0
    while True:
        block = _header(view[position : position + _HEADER.size], position, len(view))
        position = block.start + block.length
        if not block.size:
            break
        total += block.size
        if total > decoded.at_most:
            raise too_large("lz4_block", decoded)
        if position > len(view):
            raise _cut_short(len(view))
        yield block
    if position != len(view):
        raise ChunkError(
            "lz4_block: bytes follow the end of the stream",
            found=f"{len(view) - position} bytes",
            expected=f"{bytes_text(decoded)} and the end",
        )


def _header(head: Buffer, position: int, length: int) -> _Block:
    """Parse the block header in `head`, at `position` in a payload of `length` bytes."""
    raw = bytes(memory(head)[: _HEADER.size])
    if len(raw) < _HEADER.size:
        raise _cut_short(length)
    mark, token, packed, size, checksum = _HEADER.unpack(raw)
    method = token & 0xF0
    if mark != _MARK or method not in (_STORED, _PACKED):
        raise ChunkError(
            "lz4_block: this is not a block of a Java LZ4 stream",
            found=f"{raw.hex(' ')} at byte {position}",
            expected="'LZ4Block' and a method",
            advice="z5py writes bare LZ4 blocks under the same name, with a blockSize below 64."
            if position == 0
            else None,
        )
    fits = 0 <= size <= 1 << (_LEVEL_BASE + (token & 0x0F)) and packed >= 0 and (size == 0) == (packed == 0)
    if not fits or (method == _STORED and packed != size) or (size == 0 and checksum):
        raise ChunkError(
            "lz4_block: the header of a block is inconsistent",
            found=f"token {token:#04x}, {packed} bytes for {size}, checksum {checksum:#x}",
        )
    require_ratio("lz4_block", packed, size)
    return _Block(method, position + _HEADER.size, packed, size, checksum)


def _cut_short(length: int) -> ChunkError:
    return ChunkError(
        "lz4_block: the payload is cut short", found=f"{length} bytes", expected="blocks and an end mark"
    )


def _checksum(data: npt.NDArray[np.uint8]) -> int:
    # Imported here, because only these codecs need it.
    import xxhash

    return xxhash.xxh32_intdigest(memory(data), _SEED) & _CHECKSUM_BITS

"""The LZ4 codecs of numcodecs and N5, none of which is the LZ4 frame format.

`numcodecs.lz4` is Zarr v2's `lz4` (numcodecs 0.16.6 `numcodecs.lz4`): a single LZ4 block after its decoded
size as little-endian u32. `lz4_bare` is such a block without its size.

z5 writes `lz4_bare` under N5's name `lz4` (observed: z5py 3.0.2; its `blockSize` holds a level, by default 6,
which does not matter to readers). The name is this project's and never written. Block format:
https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.

`lz4_block` is the LZ4 block stream of Java's lz4 library, which N5 calls `lz4`. The name is this project's
and is never written to a v3 document, because none is registered
(https://github.com/zarr-developers/numcodecs/issues/175). The stream, from lz4-java 1.8
(https://github.com/lz4/lz4-java, `LZ4BlockOutputStream` and `LZ4BlockInputStream`), consists of blocks, each
with a header of 21 bytes: the magic "LZ4Block"; a token whose upper half is the method (1 stored, 2 LZ4) and
whose lower half limits a block to 2^(10 + lower half) unpacked bytes; then, as little-endian int32, the
packed length, the unpacked length and a checksum: xxHash32 of the unpacked bytes with seed 0x9747b28c,
without its upper four bits. A header whose three numbers are 0 ends the stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
from numcodecs import lz4

from zarrstack.core.errors import ChunkError, UnsupportedError

from ..codec_table import require_facts
from .base import (
    BytesCodec,
    HeadAndTail,
    Size,
    buffer_length,
    bytes_text,
    memory,
    octets,
    require_fit,
    require_stated,
    too_large,
)

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

    def encoded_size(self, decoded: Size) -> Size:
        """LZ4_COMPRESSBOUND and the four bytes of the size."""
        return Size(SIZE_PREFIX + _bound(decoded), exact=False)

    def encode(self, data: Buffer) -> bytes:
        """Encode the size and one block; UnsupportedError for more data than a block can hold."""
        if buffer_length(data) > _MOST:
            raise UnsupportedError(
                "lz4 cannot hold a chunk this large",
                found=f"{buffer_length(data)} bytes",
                expected=f"at most {_MOST} bytes",
            )
        result: bytes = lz4.compress(data, self.acceleration)
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
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
        require_stated("lz4", size, decoded)
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


_HEADER: Final = struct.Struct("<8sBiii")
_MARK: Final = b"LZ4Block"
_STORED: Final = 0x10
_PACKED: Final = 0x20
_LEVEL_BASE: Final = 10
_SEED: Final = 0x9747B28C
_CHECKSUM_BITS: Final = 0x0FFFFFFF


class Lz4Block(BytesCodec):
    """The `lz4_block` codec."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; `blockSize` matters to writers only."""
        require_facts(spec.name).read(spec)
        return cls(spec)

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

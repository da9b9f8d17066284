"""`blosc`: a Blosc 1 container.

Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/ ; header:
https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst: version, codec version, flags, item size
(one byte each), then decoded size, block size and stored size (little-endian u32 each). Zarr v2's `blosc` is
the same container; in its configuration `shuffle` is a number (-1 selects by item size) and there is no
`typesize`.

Writers may leave bytes behind the stored size: z5 up to 2.0 wrote 16 zeros, its reserve for the header
(https://github.com/zarr-developers/zarr_implementations/pull/34). numcodecs (0.13.1 to 0.17.1) ignores them,
and so do zarr-python 2 and 3; tensorstore 0.1.86 and zarrs 0.2.3 refuse such a chunk.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError, UnsupportedError

from .base import BytesCodec, HeadAndTail, Size, buffer_length, memory, require_stated

if TYPE_CHECKING:
    from .base import Buffer

_HEADER: Final = struct.Struct("<BBBBIII")
HEADER_BYTES: Final = 16
_MOST: Final = (1 << 31) - 1 - HEADER_BYTES
_BLOCK_START: Final = struct.Struct("<II")
"""The place of the only block, and the length of its stream."""
_VERSION: Final = 2
_SHUFFLED: Final = 0x01
_WHOLE: Final = 0x10
"""Flags: bytes are shuffled; a block has one stream rather than one for each byte of an item."""
_MOST_IN_BLOCK: Final = ((1 << 31) - 1 - 255 * 4) // 3
"""c-blosc 1.21, `BLOSC_MAX_BLOCKSIZE`."""
_FORMATS: Final = ("blosclz", "lz4", "snappy", "zlib", "zstd")
"""Formats by number in bits 5 to 7 of the flags; lz4hc writes lz4."""
_SNAPPY: Final = _FORMATS.index("snappy")


@functools.cache
def _library() -> Any:
    """Return numcodecs' module; loaded on demand, since most payloads are only checked.

    Blosc's own threads append blocks in completion order, so the same data yields different bytes (numcodecs
    0.16.6 and 0.17.1, main thread only); they also hang after a fork. numcodecs itself disables them in all
    other threads.
    """
    from numcodecs import blosc

    blosc.use_threads = False
    return blosc


def trailing_bytes(head: bytes, length: int) -> int:
    """Number of bytes behind the size that the header of a stored payload states."""
    if len(head) < HEADER_BYTES:
        return 0
    stored: int = _HEADER.unpack_from(head)[-1]
    return max(length - max(stored, HEADER_BYTES), 0)


def framed(stream: Buffer, cname: str, typesize: int, size: int) -> bytes | None:
    """A container of one block with a compressed stream of `size` shuffled bytes.

    None if such a container is not valid: a stream that does not compress would be taken for stored items.
    """
    length = buffer_length(stream)
    if length + _BLOCK_START.size > size or size > _MOST_IN_BLOCK:
        return None
    flags = _SHUFFLED | _WHOLE | _FORMATS.index(cname) << 5
    start = HEADER_BYTES + _BLOCK_START.size
    head = _HEADER.pack(_VERSION, 1, flags, typesize, size, size, start + length)
    return b"".join((head, _BLOCK_START.pack(start - 4, length), memory(stream)))


@dataclass(frozen=True, slots=True)
class Blosc(BytesCodec):
    """The `blosc` codec."""

    cname: str
    clevel: int
    shuffle: int
    """-1 is bitshuffle for items of one byte, otherwise shuffle."""
    typesize: int
    blocksize: int

    def encoded_size(self, decoded: Size) -> Size:
        """At most the input and a header: incompressible data is stored."""
        return Size(decoded.at_most + HEADER_BYTES, exact=False)

    def encode(self, data: Buffer) -> bytes:
        """Encode one container, identical in every thread."""
        if self.cname not in _library().list_compressors():
            raise UnsupportedError("blosc: this build of numcodecs lacks the compressor", found=self.cname)
        if buffer_length(data) > _MOST:
            raise UnsupportedError(
                "blosc cannot hold a chunk this large",
                found=f"{buffer_length(data)} bytes",
                expected=f"at most {_MOST} bytes",
            )
        shuffle = self.shuffle if self.shuffle >= 0 else 2 if self.typesize == 1 else 1
        result: bytes = _library().compress(
            data, self.cname.encode(), self.clevel, shuffle, self.blocksize, self.typesize
        )
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        length = buffer_length(data)
        nbytes, cbytes = self._require_header(bytes(memory(data)[:HEADER_BYTES]), length, decoded)
        if nbytes == 0:
            return b""
        if cbytes < length:
            data = memory(data)[:cbytes]
        flags = memory(data)[2]
        if flags >> 5 == _SNAPPY and not flags & 0x02 and "snappy" not in _library().list_compressors():
            raise ChunkError(
                "blosc: the payload is compressed with snappy, which this build of numcodecs lacks",
                advice="An older numcodecs, built with snappy, can read it.",
            )
        result = np.empty(nbytes, np.uint8)
        try:
            _library().decompress(data, result)
        except (RuntimeError, ValueError) as error:
            raise ChunkError("blosc: the payload does not unpack", found=str(error)) from None
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the whole header: version, format, decoded size, block size, stored size."""
        _, cbytes = self._require_header(ends.head[:HEADER_BYTES], ends.length, decoded)
        return cbytes == ends.length

    def trailing_bytes(self, ends: HeadAndTail) -> int:
        return trailing_bytes(ends.head, ends.length)

    def _require_header(self, head: bytes, length: int, decoded: Size) -> tuple[int, int]:
        """The decoded and the stored size of a valid payload."""
        if len(head) < HEADER_BYTES:
            raise ChunkError("blosc: the payload is cut short", found=f"{length} bytes")
        version, _, flags, typesize, nbytes, blocksize, cbytes = _HEADER.unpack(head)
        if version != 2 or typesize == 0 or flags & 0x08:
            raise ChunkError("blosc: the payload has no Blosc header", found=head.hex(" "))
        if flags >> 5 >= len(_FORMATS):
            raise ChunkError("blosc: the header names an unknown compressor", found=f"flags {flags:#04x}")
        require_stated("blosc", nbytes, decoded)
        if not HEADER_BYTES <= cbytes <= length:
            raise ChunkError(
                "blosc: the payload does not have the length that its header states",
                found=f"{length} bytes",
                expected=f"{cbytes} bytes",
            )
        if nbytes and not 0 < blocksize <= nbytes:
            raise ChunkError(
                "blosc: the header states an impossible block size",
                found=f"{blocksize} bytes",
                expected=f"1 to {nbytes} bytes",
            )
        if flags & 0x02 and cbytes != nbytes + HEADER_BYTES:
            raise ChunkError(
                "blosc: a stored payload has the wrong length",
                found=f"{cbytes} bytes",
                expected=f"{nbytes + HEADER_BYTES} bytes",
            )
        return int(nbytes), int(cbytes)

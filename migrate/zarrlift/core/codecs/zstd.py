"""`zstd`: one or more Zstandard frames (RFC 8878).

Registered at https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd with `level` and
`checksum`; Zarr v2's `zstd` and zarr-python's `numcodecs.zstd` are the same bytes.

All frame and block headers are parsed before anything is unpacked: this determines the end of the payload,
and its decoded size if the frames state it.

Noise is encoded without the table of long matches of level 3: noise has no such matches, and the table does
not fit into the cache. docs/design/0016 has the figures.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import zstandard

from zarrstack.core.errors import ChunkError

from .base import BytesCodec, HeadAndTail, Size, memory, require_fit, require_stated, too_large

if TYPE_CHECKING:
    from .base import Buffer

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a skippable frame's magic number; its byte 0 is 0x50 to 0x5f."""
_SIZE_FLAGS: Final = 0xE0
"""Bits of a frame's descriptor, its byte 4, one of which is set if the content size is stated."""
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_STEP: Final = 1 << 20
"""Bytes requested per step if the size is unknown."""

_TABLED: Final = frozenset({0, 3})
"""Levels with a table of long matches, of half a megabyte; 0 means 3."""
_TABLED_FROM: Final = 128 << 10
"""Size in bytes from which that table is large."""
_NO_TABLE: Final = 10
"""log2 of its number of entries for noise."""
_SAMPLE: Final = 8 << 10
"""Size in bytes of the sample from the middle of a chunk that identifies noise."""

_local = threading.local()


class _Header(NamedTuple):
    content: int | None
    """Decoded size of the frame, if stated."""
    length: int
    """Length of the header in bytes."""
    checksum: bool


@dataclass(frozen=True, slots=True)
class Zstd(BytesCodec):
    """The `zstd` codec."""

    level: int
    checksum: bool

    def encode(self, data: Buffer) -> bytes:
        """Encode one frame that states its content size, which numcodecs before 0.16 requires."""
        view = memory(data)
        if self.level in _TABLED and view.nbytes > _TABLED_FROM and _is_noise(view):
            frame = _compressor(self.level, self.checksum, _NO_TABLE).compress(view)
            if 5 * len(frame) > 2 * view.nbytes:
                return frame
        return _compressor(self.level, self.checksum).compress(view)

    def decode(self, data: Buffer, decoded: Size) -> bytes:
        """Decode all frames; skippable ones are ignored, other bytes between frames refused."""
        view = memory(data)
        contents: list[tuple[int, int, int | None]] = []
        position = 0
        while position < len(view) or not contents:
            start = position
            position, content = _frame_end(view, start)
            contents.append((start, position, content))
        stated = sum(content or 0 for _, _, content in contents)
        all_stated = all(content is not None for _, _, content in contents)
        require_stated("zstd", stated, decoded, exact=all_stated)
        left = decoded.at_most
        parts = []
        for start, end, content in contents:
            part = _unpack(view[start:end], content, left, decoded)
            left -= len(part)
            parts.append(part)
        result = parts[0] if len(parts) == 1 else b"".join(parts)
        require_fit("zstd", len(result), decoded)
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the first frame's magic number and content size; False if a second frame may follow."""
        if ends.head[1:4] == _SKIPPABLE:
            return False
        header = _header(memoryview(ends.head), 0)
        if header.content is None:
            return True
        require_stated("zstd", header.content, decoded, exact=False)
        return not decoded.exact or header.content == decoded.at_most

    def streams(self, data: Buffer, decoded: Size, *, thorough: bool) -> int:
        """Number of frames; empty and skippable ones count unless they are last.

        tensorstore 0.1.86 ignores what is skippable or empty behind the first frame; it refuses others.
        """
        if self.spec.name != "zstd":
            return 1
        view, position, counted, number = memory(data), 0, 1, 0
        if not thorough and decoded.exact and view[4] & _SIZE_FLAGS:
            return 1  # `check` has compared the size of the first frame; what follows is empty
        while position < len(view):
            position, content = _frame_end(view, position)
            number += 1
            if content != 0:
                counted = number
        return counted


def _header(view: memoryview, start: int) -> _Header:
    """Parse the header of the frame at `start` (RFC 8878, 3.1.1.1)."""
    if bytes(view[start : start + 4]) != _MAGIC:
        raise ChunkError("zstd: no frame where one must begin", found=bytes(view[start : start + 4]).hex(" "))
    if len(view) < start + 6:
        raise _cut_short()
    descriptor = view[start + 4]
    if descriptor & 0x08:
        raise ChunkError("zstd: the frame header sets a reserved bit", found=f"{descriptor:#04x}")
    single_segment = bool(descriptor & 0x20)
    size_bytes = 1 << (descriptor >> 6)
    if size_bytes == 1 and not single_segment:
        size_bytes = 0
    size_at = start + 5 + (not single_segment) + _DICTIONARY_ID_BYTES[descriptor & 3]
    length = size_at + size_bytes - start
    if len(view) < start + length:
        raise _cut_short()
    content = int.from_bytes(view[size_at : size_at + size_bytes], "little") if size_bytes else None
    if content is not None and size_bytes == 2:
        content += 256
    return _Header(content, length, bool(descriptor & 0x04))


def _frame_end(view: memoryview, start: int) -> tuple[int, int | None]:
    """End of the frame at `start`, and its stated content size."""
    if bytes(view[start + 1 : start + 4]) == _SKIPPABLE and view[start] & 0xF0 == 0x50:
        end = start + 8 + int.from_bytes(view[start + 4 : start + 8], "little")
        if len(view) < start + 8 or end > len(view):
            raise _cut_short()
        return end, 0
    header = _header(view, start)
    position = start + header.length
    last = False
    while not last:
        # RFC 8878, 3.1.1.2: last block, type, size in 24 bits; a type 1 block stores one byte.
        if position + 3 > len(view):
            raise _cut_short()
        block = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last = bool(block & 1)
        position += 3 + (1 if block & 6 == 2 else block >> 3)
    position += 4 if header.checksum else 0
    if position > len(view):
        raise _cut_short()
    return position, header.content


def _unpack(frame: memoryview, content: int | None, left: int, decoded: Size) -> bytes:
    if content == 0:
        return b""
    try:
        if content is not None:
            return _decompressor().decompress(frame)
        parts = []
        with _decompressor().stream_reader(frame) as reader:
            while part := reader.read(min(left, _STEP) + 1):
                left -= len(part)
                if left < 0:
                    raise too_large("zstd", decoded)
                parts.append(part)
    except zstandard.ZstdError as error:
        raise ChunkError("zstd: the payload does not unpack", found=str(error)) from None
    return b"".join(parts)


def _cut_short() -> ChunkError:
    return ChunkError("zstd: the payload is cut short", expected="the end of the frame")


def _is_noise(view: memoryview) -> bool:
    """Whether a sample hardly shrinks, which suggests no long matches; the caller verifies the result."""
    start = (view.nbytes - _SAMPLE) // 2
    sample = _compressor(1, checksum=False).compress(view[start : start + _SAMPLE])
    return 8 * len(sample) > 5 * _SAMPLE


def _compressor(level: int, checksum: bool, hash_log: int = 0) -> zstandard.ZstdCompressor:
    """A cached compressor.

    `hash_log` is log2 of the number of entries of the table of long matches; 0 for the level's default.
    """
    # A context takes far longer to create than a small chunk to compress, and belongs to one thread.
    compressors: dict[tuple[int, bool, int], zstandard.ZstdCompressor] = _local.__dict__.setdefault(
        "compressors", {}
    )
    compressor = compressors.get((level, checksum, hash_log))
    if compressor is None:
        parameters = zstandard.ZstdCompressionParameters(
            compression_level=min(level, zstandard.MAX_COMPRESSION_LEVEL),
            hash_log=hash_log,
            write_checksum=checksum,
            write_content_size=True,
        )
        compressor = compressors[level, checksum, hash_log] = zstandard.ZstdCompressor(
            compression_params=parameters
        )
    return compressor


def _decompressor() -> zstandard.ZstdDecompressor:
    decompressor: zstandard.ZstdDecompressor | None = _local.__dict__.get("decompressor")
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return decompressor

"""Deflate streams: the one place that chooses the library, and zlib -> gzip without deflating.

The formats: zlib RFC 1950, deflate RFC 1951, gzip RFC 1952. Inflating is bounded: one byte
more than allowed is asked for and refused if it comes, so a bomb costs what its chunk costs.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from ..errors import ChunkError
from .base import Size, memory
from .bounds import require_fit, too_large

if TYPE_CHECKING:
    from .base import Buffer

GZIP_HEADER: Final = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
"""RFC 1952, 2.3: deflate, no flags, no time, no extra flags, unknown system: the same everywhere."""
SHORTEST_GZIP: Final = 18
"""10 bytes of header and 8 of trailer, before any deflate block."""

_GZIP_WINDOW: Final = 31
_ZLIB_WINDOW: Final = 15
_RAW_WINDOW: Final = -15


def gzip_compress(data: Buffer, level: int) -> bytes:
    """A gzip member without time or name, so that the same data gives the same bytes."""
    body = zlib.compress(memory(data), _default(level), _RAW_WINDOW)
    return b"".join((GZIP_HEADER, body, _gzip_trailer(data)))


def zlib_compress(data: Buffer, level: int) -> bytes:
    """A zlib stream."""
    return zlib.compress(memory(data), _default(level))


def gzip_decompress(data: Buffer, decoded: Size) -> bytes:
    """The data of all members; zero padding may follow one, anything else may not.

    That is what Python's gzip module, and with it numcodecs, accepts; size and CRC-32 of
    every trailer are verified.
    """
    parts: list[bytes] = []
    left = decoded.at_most
    rest: memoryview | bytes = memory(data)
    while len(rest):
        part, rest = _inflate("gzip", rest, _GZIP_WINDOW, left, decoded)
        parts.append(part)
        left -= len(part)
        rest = rest.lstrip(b"\0")
    result = parts[0] if len(parts) == 1 else b"".join(parts)
    require_fit("gzip", len(result), decoded)
    return result


def zlib_decompress(data: Buffer, decoded: Size) -> bytes:
    """The data of one zlib stream, its Adler-32 verified; nothing may follow it."""
    result, rest = _inflate("zlib", memory(data), _ZLIB_WINDOW, decoded.at_most, decoded)
    if rest:
        raise ChunkError("zlib: bytes follow the end of the stream", found=f"{len(rest)} bytes")
    require_fit("zlib", len(result), decoded)
    return result


def rewrap_zlib_to_gzip(data: Buffer, decoded: Size) -> bytes:
    """The same deflate stream as a gzip member.

    It is inflated once, within bounds, which verifies its Adler-32 and gives the CRC-32
    that gzip wants; nothing is deflated. ChunkError as for `zlib_decompress`.
    """
    plain = zlib_decompress(data, decoded)
    # RFC 1950, 2.2: two bytes of header (a preset dictionary was refused above), four of Adler-32.
    return b"".join((GZIP_HEADER, memory(data)[2:-4], _gzip_trailer(plain)))


def _inflate(
    codec: str, data: memoryview | bytes, window: int, left: int, decoded: Size
) -> tuple[bytes, bytes]:
    stream = zlib.decompressobj(window)
    try:
        result = stream.decompress(data, left + 1)
    except zlib.error as error:
        raise ChunkError(f"{codec}: the payload does not inflate", found=str(error)) from None
    if len(result) > left:
        raise too_large(codec, decoded)
    if not stream.eof:
        raise ChunkError(
            f"{codec}: the payload is cut short",
            found=f"{len(result)} decoded bytes and no end",
            expected="the end of the stream",
        )
    return result, stream.unused_data


def _gzip_trailer(plain: Buffer) -> bytes:
    return struct.pack("<II", zlib.crc32(memory(plain)), memory(plain).nbytes & 0xFFFFFFFF)


def _default(level: int) -> int:
    # -1 is zlib's own default, 6; said outright so that no library's idea of it matters.
    return 6 if level == -1 else level

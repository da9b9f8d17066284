"""`gzip` and `zlib`: choice of the library, and conversion from zlib to gzip without recompression.

Specification of `gzip`: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/ (level 0 to 9). Formats:
zlib RFC 1950, deflate RFC 1951, gzip RFC 1952. Inflating is bounded: one byte more than allowed is requested,
and its presence is an error, so a decompression bomb costs no more than its chunk.

Where they are installed, libdeflate encodes, and decodes payloads that it accepts, and isal encodes
data that hardly shrinks; docs/design/0016 has the comparison. zlib decides all other cases: several
members, padding, and damaged payloads. The errors are therefore the same with and without them. One
difference remains: libdeflate 0.9.0 accepts a block that declares 287 or 288 literal codes, or 31 or 32
distances, if it uses none of those, and zlib rejects it. No encoder writes such blocks, and the checksum
verifies the data.
"""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError

from .base import MIN_STEP, STEPS, BytesCodec, HeadAndTail, Size, memory, octets, require_fit, too_large

if TYPE_CHECKING:
    import numpy.typing as npt

    from .base import Buffer


def _libdeflate() -> Any:
    """PyPI's `deflate`, if its version releases the interpreter lock; otherwise None."""
    try:
        import deflate
    except ImportError:
        return None
    version = tuple(map(int, deflate.__version__.split(".")[:2]))
    return deflate if version >= (0, 9) else None


def _isal() -> Any:
    """The part of PyPI's `isal` that processes whole buffers; None if it is not installed."""
    try:
        from isal import igzip_lib
    except ImportError:
        return None
    return igzip_lib


isal: Any = _isal()
"""Encoder for data that hardly shrinks, such as most detector data; None if not installed."""

libdeflate: Any = _libdeflate()
"""Encoder, and decoder of ordinary payloads; None selects zlib. Chosen when this module is loaded."""

GZIP_HEADER: Final = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
"""RFC 1952, 2.3: deflate, no flags, no time, no extra flags, unknown system: identical everywhere."""
SHORTEST_GZIP: Final = 18
"""10 bytes of header and 8 of trailer, before any deflate block."""

_EXTRA_FLAGS: Final = 8
"""Offset in a gzip header of the byte in which libdeflate records the level."""
_UNSEEN_FLAGS: Final = 0xE2
"""Flags of a gzip header that zlib verifies or refuses and libdeflate ignores: FHCRC, reserved."""
_SHORTEST_ZLIB: Final = 8
"""Two bytes of header, an empty deflate block of two, four of Adler-32."""
_ZLIB_WINDOW_32K: Final = 0x78
"""First byte of a zlib stream with the largest window (RFC 1950, 2.2): libdeflate does not enforce a smaller
one.
"""
_MAX_WHOLE: Final = (1 << 32) - 1
"""Largest size that the module supports."""
_MAX_PER_BYTE: Final = 1032
"""Maximum deflate expansion per byte (258 for two bits); no buffer is reserved for a larger stated size."""

_LEVELS: Final = (0, 1, 2, 3, 4, 6, 7, 7, 9, 9)
"""libdeflate's level for each of zlib's, for a similar compressed size. Measured on ten kinds of data: mostly
smaller, and up to level 6 at most a twentieth larger, unless the data shrinks to a hundredth: label images
then took up to 1.7 times as much at level 6 (2.3 with libdeflate's own 6, and its level 8 is slower than
zlib), boxes of one number up to 4 times below level 4.
"""

_ISAL_LEVEL: Final = 2
_QUICK_FROM, _QUICK_TO = 1, 6
"""Lowest and highest level that favour speed; higher levels favour size."""
_SAMPLE: Final = 32 << 10
"""Sample size in bytes for estimating whether data shrinks much; one window of deflate."""

_PIECE: Final = 1 << 17
"""Words of a payload compared at once: they and the results fit into the cache."""
_FEW: Final = 64
"""Number of candidates checked one by one; with more, the whole payload is searched."""
_GZIP_WINDOW: Final = 31
_ZLIB_WINDOW: Final = 15
_RAW_WINDOW: Final = -15


@dataclass(frozen=True, slots=True)
class Gzip(BytesCodec):
    """`gzip` of v3 and of numcodecs, which are the same bytes; level -1 is zlib's default, 6."""

    level: int

    def encode(self, data: Buffer) -> Buffer:
        """Encode one member, without time or name."""
        return gzip_compress(data, self.level)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode all members; see `gzip_decompress`."""
        return gzip_decompress(data, decoded)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header, and the size in the trailer (modulo 2**32).

        A different size is not conclusive: the last of several members states only its own, and zero padding
        may follow it. The result is then False: only decoding can tell.
        """
        if len(ends.head) < 10 or ends.head[:3] != b"\x1f\x8b\x08" or ends.head[3] & 0xE0:
            raise ChunkError("gzip: the payload has no gzip header", found=ends.head[:4].hex(" "))
        if ends.length < SHORTEST_GZIP:
            raise ChunkError("gzip: the payload is cut short", found=f"{ends.length} bytes")
        (last,) = struct.unpack("<I", ends.tail[-4:])
        if decoded.exact:
            return bool(last == decoded.at_most & 0xFFFFFFFF)
        return bool(last <= decoded.at_most)

    def streams(self, data: Buffer, decoded: Size, *, thorough: bool) -> int:
        """Number of members; without `thorough` 1, since the trailer has the size of the chunk."""
        if self.spec.name != "gzip" or not thorough:
            return 1
        count, rest = 0, bytes(memory(data))
        while rest:
            _, rest = _inflate("gzip", rest, _GZIP_WINDOW, decoded.at_most, decoded)
            rest, count = rest.lstrip(b"\0"), count + 1
        return count


@dataclass(frozen=True, slots=True)
class Zlib(BytesCodec):
    """The `zlib` codec of numcodecs."""

    level: int

    def encode(self, data: Buffer) -> Buffer:
        return zlib_compress(data, self.level)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode one stream; nothing may follow it."""
        return zlib_decompress(data, decoded)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header: deflate, check bits, no preset dictionary (RFC 1950, 2.2)."""
        head = ends.head
        if ends.length < _SHORTEST_ZLIB:
            raise ChunkError("zlib: the payload is cut short", found=f"{ends.length} bytes")
        if head[0] & 0x8F != 8 or (head[0] << 8 | head[1]) % 31 or head[1] & 0x20:
            raise ChunkError("zlib: the payload has no zlib header", found=head[:2].hex(" "))
        return True


def gzip_compress(data: Buffer, level: int) -> Buffer:
    """Compress to a gzip member without time or name, so that equal data yields equal bytes."""
    if (quick := _quick(data, level, gzip=True)) is not None:
        return quick
    if libdeflate is not None:
        member: bytearray = libdeflate.gzip_compress(data, _LEVELS[_default(level)])
        member[_EXTRA_FLAGS] = 0
        return member
    body = zlib.compress(memory(data), _default(level), _RAW_WINDOW)
    return b"".join((GZIP_HEADER, body, _gzip_trailer(data)))


def zlib_compress(data: Buffer, level: int) -> Buffer:
    """Compress to a zlib stream."""
    if (quick := _quick(data, level, gzip=False)) is not None:
        return quick
    if libdeflate is not None:
        stream: bytearray = libdeflate.zlib_compress(data, _LEVELS[_default(level)])
        return stream
    return zlib.compress(memory(data), _default(level))


def _quick(data: Buffer, level: int, *, gzip: bool) -> bytes | None:
    """Compress with isal if the result is about as small as any other; otherwise None.

    For data that shrinks to more than half, isal's level 2 yields about as much as zlib's level 6, at most a
    tenth more, three to eight times as fast as libdeflate and ten to thirty times as fast as zlib. Data that
    shrinks further does so by matches that isal does not search for. Words of zero, as in chunks at the end
    of an array, are an exception: every library finds them, so they do not count.
    """
    view = memory(data).cast("B")
    size = view.nbytes
    if isal is None or not _QUICK_FROM <= _default(level) <= _QUICK_TO or size < _SAMPLE:
        return None
    flag = isal.COMP_GZIP if gzip else isal.COMP_ZLIB
    words = np.frombuffer(view[: size // 8 * 8], np.uint64)
    filled = 8 * int(np.count_nonzero(words))
    few = 2 * filled < size
    sample = memory(words[words != 0][: _SAMPLE // 8]).cast("B") if few else view[:_SAMPLE]
    if not filled or 2 * len(isal.compress(sample, _ISAL_LEVEL, flag)) < sample.nbytes:
        return None
    result: bytes = isal.compress(view, _ISAL_LEVEL, flag)
    return None if 2 * len(result) < filled else result


def gzip_decompress(data: Buffer, decoded: Size) -> Buffer:
    """Decompress all members; only zero padding may follow a member.

    Python's gzip module, and therefore numcodecs, accepts the same; size and CRC-32 of every trailer are
    verified.
    """
    result = _one_gzip_member(data, decoded) if libdeflate is not None else None
    if result is not None:
        return result
    parts: list[bytes | bytearray] = []
    left = decoded.at_most
    rest: memoryview | bytes = memory(data)
    while len(rest):
        part, rest = _inflate("gzip", rest, _GZIP_WINDOW, left, decoded)
        parts.append(part)
        left -= len(part)
        rest = rest.lstrip(b"\0")
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    require_fit("gzip", len(whole), decoded)
    return whole


def zlib_decompress(data: Buffer, decoded: Size) -> Buffer:
    """Decompress one zlib stream and verify its Adler-32; nothing may follow it."""
    whole = _one_zlib_stream(data, decoded) if libdeflate is not None else None
    if whole is not None:
        return whole
    result, rest = _inflate("zlib", memory(data), _ZLIB_WINDOW, decoded.at_most, decoded)
    if rest:
        raise ChunkError("zlib: bytes follow the end of the stream", found=f"{len(rest)} bytes")
    require_fit("zlib", len(result), decoded)
    return result


def rewrap_zlib_to_gzip(data: Buffer, decoded: Size) -> bytes:
    """Convert to a gzip member with the same deflate stream.

    The stream is inflated once, within bounds, to verify its Adler-32 and to compute gzip's CRC-32; nothing
    is recompressed. ChunkError as in `zlib_decompress`.
    """
    plain = zlib_decompress(data, decoded)
    # RFC 1950, 2.2: two bytes of header (a preset dictionary was refused above), four of Adler-32.
    return b"".join((GZIP_HEADER, memory(data)[2:-4], _gzip_trailer(plain)))


def _one_gzip_member(data: Buffer, decoded: Size) -> bytearray | None:
    """Decompress a payload that is exactly one valid member; otherwise None, to fall back to zlib."""
    view = memory(data)
    length = view.nbytes
    if length < SHORTEST_GZIP or view[3] & _UNSEEN_FLAGS:
        return None
    size = int.from_bytes(view[-4:], "little")
    if size > decoded.at_most or (decoded.exact and size != decoded.at_most):
        return None
    if not 0 < size <= min(_MAX_WHOLE, _MAX_PER_BYTE * length):
        return None
    try:
        result: bytearray = libdeflate.gzip_decompress(data, size)
    except libdeflate.DeflateError:
        return None
    if len(result) != size or not _ends_with_first(data, _gzip_trailer(result)):
        return None
    return result


def _one_zlib_stream(data: Buffer, decoded: Size) -> bytearray | None:
    """Decompress one valid stream of known size; otherwise None, to fall back to zlib."""
    view = memory(data)
    size = decoded.at_most
    if not decoded.exact or view.nbytes < _SHORTEST_ZLIB or view[0] != _ZLIB_WINDOW_32K:
        return None
    if not 0 < size <= min(_MAX_WHOLE, _MAX_PER_BYTE * view.nbytes):
        return None
    try:
        result: bytearray = libdeflate.zlib_decompress(data, size)
    except libdeflate.DeflateError:
        return None
    if len(result) != size or not _ends_with_first(data, struct.pack(">I", libdeflate.adler32(result))):
        return None
    return result


def _ends_with_first(data: Buffer, trailer: bytes) -> bool:
    """Whether the trailer occurs at the end and nowhere before.

    libdeflate does not report how much it has read, but it has read this trailer after the stream. If it
    occurs nowhere else, the payload ends where the stream does.
    """
    whole = octets(data)
    length = len(trailer)
    end = len(whole) - length
    if whole[end:].tobytes() != trailer:
        return False
    # At any position, one half of the trailer would be an aligned word of the payload: comparing words in
    # bulk takes a third of the time of a search. The last possible positions are not covered by words.
    half = length // 2
    words = whole[: end // half * half].view(f"u{half}")
    halves = [int.from_bytes(trailer[shift : shift + half], sys.byteorder) for shift in range(half)]
    wanted = np.array(halves, words.dtype)[:, None]
    for start in range(0, len(words), _PIECE):
        same = words[start : start + _PIECE] == wanted
        if same.any():
            shifts, places = np.divmod(np.flatnonzero(same), same.shape[1])
            begins = (start + places) * half - shifts
            if len(begins) > _FEW or any(_stands_at(whole, begin, trailer) for begin in begins.tolist()):
                return whole.tobytes().find(trailer) == end
    return whole[max(end - length, 0) : -1].tobytes().find(trailer) < 0


def _stands_at(whole: npt.NDArray[np.uint8], begin: int, trailer: bytes) -> bool:
    return begin >= 0 and whole[begin : begin + len(trailer)].tobytes() == trailer


def _inflate(
    codec: str, data: memoryview | bytes, window: int, left: int, decoded: Size
) -> tuple[bytes | bytearray, bytes]:
    """Inflate one stream in a few steps; return its data and the bytes after it.

    zlib joins the pieces of one result at its end, so a single call for `left` bytes would take twice the
    memory; each step copies the rest of the payload, so there are few.
    """
    stream = zlib.decompressobj(window)
    step = max(MIN_STEP, left // STEPS) + 1
    try:
        result: bytes | bytearray = stream.decompress(data, min(left + 1, step))
        if len(result) == step and not stream.eof:
            result = bytearray(result)
            # zlib treats a limit of 0 as none, so one byte more than allowed is always requested.
            while len(result) <= left:
                more = stream.decompress(stream.unconsumed_tail, min(left + 1 - len(result), step))
                if not more:
                    break
                result += more
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
    view = memory(plain)
    number = zlib.crc32(view) if libdeflate is None else libdeflate.crc32(view)
    return struct.pack("<II", number, view.nbytes & 0xFFFFFFFF)


def _default(level: int) -> int:
    # -1 is zlib's default, 6; explicit, so that it does not depend on the library.
    return 6 if level == -1 else level

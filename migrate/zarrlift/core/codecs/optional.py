"""Codecs that other packages decode: they never encode, and name the package that they need.

`numcodecs.pcodec` (numcodecs 0.16.6): numbers compressed by pcodec, in its standalone format. A payload
states its number type and counts; pcodec decodes into memory of the chunk's size, and no further.

`numcodecs.zfpy` (numcodecs 0.16.6): numbers compressed by zfp, with its header, which is that of
`zfp_write_header` with ZFP_HEADER_FULL (zfp 1.0.1, src/zfp.c: `zfp_field_metadata`, `zfp_stream_mode`). A bit
stream of little-endian 64-bit words, lowest bit first: "zfp" and a version, 52 bits of type and shape, 12
bits of mode.

zfp's decoder does not know where its input ends. A payload is therefore decoded twice, followed by zeros and
by ones: if it is cut short, the results differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

from ..codec_table import require_facts
from .base import BytesCodec, HeadAndTail, Size, elements_in, items_as_octets, memory, require_fit, too_large

if TYPE_CHECKING:
    from typing import Any

    from ..codec_spec import CodecSpec
    from .base import Buffer


_LARGEST: Final = 256
"""Bytes of a payload per byte of its chunk, in the worst case: zfp pads a block of one element to 4^4."""


class DecodedOnly(BytesCodec):
    """Base class of codecs that no result uses."""

    __slots__ = ()

    def encoded_size(self, decoded: Size) -> Size:
        return Size(_LARGEST * decoded.at_most + 65536, exact=False)


def native_number(spec: CodecSpec, item: np.dtype[Any] | None, kinds: frozenset[str]) -> np.dtype[Any]:
    """The number type of a codec for items of one type, times being integers; MetadataError for others.

    Both libraries encode native numbers only, so a type of the other byte order has never been stored.
    """
    number = None if item is None else np.dtype("<i8") if item.kind in "mM" else item
    if number is None or item is None or item.str[0] == ">" or number.str[1:] not in kinds:
        raise MetadataError(
            f"codec {spec.name!r} does not encode these items",
            found="bytes" if item is None else item.str,
            expected="little-endian numbers: " + ", ".join(sorted(kinds)),
        )
    return number


def require_exact(spec: CodecSpec, decoded: Size) -> int:
    """The size of a chunk; UnsupportedError if it is not known before decoding."""
    if not decoded.exact:
        raise UnsupportedError(f"codec {spec.name!r} needs chunks of a known size", found=str(spec))
    return decoded.at_most


_TYPES: Final = frozenset({"u2", "u4", "u8", "i2", "i4", "i8", "f2", "f4", "f8"})


@dataclass(frozen=True, slots=True)
class PCodec(DecodedOnly):
    """The `pcodec` codec of numcodecs."""

    number: np.dtype[Any]

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        require_facts(spec.name).read(spec)
        return cls(spec, native_number(spec, item, _TYPES))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        from pcodec import standalone

        count = elements_in(self.spec.name, require_exact(self.spec, decoded), self.number.itemsize)
        result = np.empty(count, self.number.newbyteorder("="))
        try:
            progress = standalone.simple_decompress_into(bytes(memory(data)), result)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is none of Exception
            raise ChunkError(
                f"{self.spec.name}: the payload does not decode", found=str(error)[:200]
            ) from None
        if not progress.finished:
            raise too_large(self.spec.name, decoded)
        if progress.n_processed != count:
            raise ChunkError(
                f"{self.spec.name}: the payload unpacks to the wrong size",
                found=f"{progress.n_processed} numbers",
                expected=str(count),
            )
        return items_as_octets(result)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        return False


_ZFP_TYPES: Final = ("i4", "i8", "f4", "f8")
"""Types by their number in the header."""
_HEADER: Final = 12
"""Bytes of a header with a short mode."""
_LONG: Final = 0xFFF
"""The mode of a longer header, with parameters of an expert."""


@dataclass(frozen=True, slots=True)
class Zfpy(DecodedOnly):
    """The `zfpy` codec of numcodecs."""

    number: np.dtype[Any]

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        require_facts(spec.name).read(spec)
        return cls(spec, native_number(spec, item, frozenset(_ZFP_TYPES)))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        decompress = self._decompressor()
        size = require_exact(self.spec, decoded)
        payload = bytes(memory(data))
        shape = self._shape(payload[:_HEADER], len(payload), size)
        more = _longest(shape, self.number.itemsize)
        results = []
        for bits in (b"\0", b"\xff"):
            try:
                values = decompress(payload + bits * more)
            except Exception as error:  # noqa: BLE001 - each library has its own
                raise ChunkError(f"{self.spec.name}: the payload does not decode", found=str(error)) from None
            results.append(items_as_octets(np.ascontiguousarray(values)))
        if not np.array_equal(results[0], results[1]):
            raise ChunkError(f"{self.spec.name}: the payload is cut short", found=f"{len(payload)} bytes")
        require_fit(self.spec.name, len(results[0]), decoded)
        return results[0]

    def _decompressor(self) -> Any:
        """The function that decodes a payload with its header."""
        import zfpy

        return zfpy.decompress_numpy

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check type and shape; more requires decoding."""
        self._shape(ends.head[:_HEADER], ends.length, require_exact(self.spec, decoded))
        return False

    def _shape(self, head: bytes, length: int, size: int) -> tuple[int, ...]:
        """The shape in the header, of a chunk of `size` bytes."""
        if len(head) < _HEADER or head[:3] != b"zfp" or length % 8:
            raise ChunkError(
                f"{self.spec.name}: the payload is not a stream of zfp",
                found=f"{length} bytes, beginning with {head[:4].hex() or 'nothing'}",
                expected="7a6670 and whole words of 8 bytes",
            )
        bits = int.from_bytes(head, "little") >> 32
        kind, axes, lengths = bits & 3, (bits >> 2 & 3) + 1, bits >> 4
        width = 48 // axes
        shape = tuple((lengths >> width * axis & (1 << width) - 1) + 1 for axis in range(axes))
        if bits >> 52 & 0xFFF == _LONG:
            raise ChunkError(f"{self.spec.name}: the stream has parameters of zfp's expert mode")
        stored = np.dtype(_ZFP_TYPES[kind])
        if stored != self.number or prod(shape) * stored.itemsize != size:
            raise ChunkError(
                f"{self.spec.name}: the payload does not hold this chunk",
                found=f"{prod(shape)} numbers of type {stored.str}",
                expected=f"{size // self.number.itemsize} numbers of type {self.number.str}",
            )
        return shape


class ImagecodecsZfp(Zfpy):
    """The `imagecodecs_zfp` codec of imagecodecs 2024.12.30, with the same header."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; UnsupportedError if the payloads have no header."""
        if spec.configuration.get("header") is not True:
            raise UnsupportedError(f"codec {spec.name!r} without a header is not supported", found=str(spec))
        return cls(spec, native_number(spec, item, frozenset(_ZFP_TYPES)))

    def _decompressor(self) -> Any:
        import imagecodecs

        return imagecodecs.zfp_decode


def _longest(shape: tuple[int, ...], itemsize: int) -> int:
    """Bytes that a decoder can read at most: of each value a bit per bit plane, and tests of groups."""
    blocks = prod((length + 3) // 4 for length in shape)
    # ZFP_MAX_BITS in zfp.h: every bit of the values of a block, one more for each, and its exponent. Fixed
    # rates reach 2048 bits, whatever the block.
    bits: int = max(4 ** len(shape) * (8 * itemsize + 1) + 32, 2048)
    return blocks * (bits // 8 + 1) + 64

"""numcodecs' filters of arrays, which convert elements to other values, types or places (numcodecs 0.16.6).

`delta`, `fixedscaleoffset`, `quantize`, `bitround`, `astype` (modules of the same names): each views its
input as its configured type, whatever produced it. The arithmetic is numcodecs', because its results define
the format.

Decoding is exact. Encoding may lose information (rounding, overflow, sums of floats), which numcodecs does
silently; here the encoded data is decoded again, and a value that would change raises CastError.

`packbits`: a count of padding bits, then eight booleans per byte, the highest bit first.

`shuffle`: the first byte of every element, then every second byte, and so on. A length that is not a multiple
of the element size is an error in numcodecs and here. zarr-python omits `elementsize` in v3 metadata if it
equals the array's item size; Zarr v2 always has one.

`base64`: the standard alphabet with padding (RFC 4648, section 4).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError

from ..chain.array_filters import FILTERS
from .base import BytesCodec, HeadAndTail, Size
from .bounds import buffer_length, elements_in, elements_of, items_as_octets, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer


@dataclass(frozen=True, slots=True)
class Elementwise(BytesCodec):
    """A filter of the table."""

    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]
    filter: Any
    """The filter of numcodecs."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; the type before encoding is by default that of the items, and `astype` is `dtype`.

        An error of numcodecs becomes MetadataError.
        """
        import numcodecs

        before, after, numbers = FILTERS[spec.name]
        config = Configuration(spec, (before, after, *numbers))
        decoded = config.dtype(before, item)
        encoded = config.dtype(after, decoded if after == "astype" else None)
        arguments = {before: decoded, after: encoded, **{name: config.number(name) for name in numbers}}
        try:
            codec = numcodecs.get_codec({"id": spec.name.removeprefix("numcodecs."), **arguments})
        except (ValueError, TypeError) as error:
            raise MetadataError(
                f"codec {spec.name!r} has an invalid configuration", found=f"{spec}: {error}"
            ) from None
        return cls(spec, decoded, encoded, codec)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return self.encoded_type

    def encoded_size(self, decoded: Size) -> Size:
        count = elements_of(self.spec.name, decoded, self.decoded_type.itemsize)
        return Size(count * self.encoded_type.itemsize, decoded.exact)

    def encode(self, data: Buffer) -> Buffer:
        """Encode, and verify that every bit is restored."""
        view = octets(data)
        if len(view) % self.decoded_type.itemsize:
            raise CastError(f"{self.spec.name}: not a whole number of elements", found=f"{len(view)} bytes")
        if not len(view):
            return b""
        try:
            with np.errstate(all="ignore"):
                encoded = self.filter.encode(view.view(self.decoded_type))
                back = self.filter.decode(encoded)
        except Exception as error:
            raise UnsupportedError(
                f"{self.spec.name} cannot encode these values", found=str(error)
            ) from error
        if not np.array_equal(items_as_octets(back), view):
            raise CastError(
                f"{self.spec.name} would change values",
                found=f"{self.decoded_type.str} values that do not come back from {self.encoded_type.str}",
                advice="Choose other codecs for this array.",
            )
        return items_as_octets(encoded)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        count = elements_in(self.spec.name, buffer_length(data), self.encoded_type.itemsize)
        require_fit(self.spec.name, count * self.decoded_type.itemsize, decoded)
        if not count:
            return b""
        try:
            with np.errstate(all="ignore"):
                result = self.filter.decode(octets(data).view(self.encoded_type))
        except Exception as error:
            raise ChunkError(f"{self.spec.name}: the payload does not decode", found=str(error)) from error
        flat = items_as_octets(np.ascontiguousarray(result))
        require_fit(self.spec.name, len(flat), decoded)
        return flat


@dataclass(frozen=True, slots=True)
class BitRound(BytesCodec):
    """The `bitround` filter: low mantissa bits set to zero, type unchanged."""

    mantissa_bits: ClassVar[dict[int, int]] = {2: 10, 4: 23, 8: 52}

    keepbits: int
    item: np.dtype[Any] | None
    """A float type, which the configuration does not state."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `keepbits`."""
        return cls(spec, Configuration(spec, ("keepbits",)).integer("keepbits", low=0, high=1 << 16), item)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return item

    def encoded_size(self, decoded: Size) -> Size:
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        """Return the data unchanged if its low bits are zero; CastError otherwise."""
        item = self.item
        if item is None or item.kind != "f" or item.itemsize not in self.mantissa_bits:
            raise UnsupportedError("numcodecs.bitround rounds floats of 2, 4 or 8 bytes", found=str(item))
        dropped_bits = self.mantissa_bits[item.itemsize] - self.keepbits
        if dropped_bits > 0:
            bits = octets(data).view(f"{item.str[0]}u{item.itemsize}")
            if np.any(bits & bits.dtype.type((1 << dropped_bits) - 1)):
                raise CastError(
                    "numcodecs.bitround would change values",
                    found=f"{item.str} values of more than {self.keepbits} mantissa bits",
                    advice="Choose other codecs for this array.",
                )
        return data

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        require_fit(self.spec.name, buffer_length(data), decoded)
        return data


class PackBits(BytesCodec):
    """The `packbits` filter of numcodecs."""

    __slots__ = ()

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        return Size(1 + -(-decoded.at_most // 8), decoded.exact)

    def encode(self, data: Buffer) -> Buffer:
        """Encode; the first byte is the number of padding bits in the last."""
        view = octets(data)
        if np.any(view > 1):
            raise CastError(
                "numcodecs.packbits would change values", found="booleans that are neither 0 nor 1"
            )
        result = np.empty(self.encoded_size(Size(len(view), True)).at_most, np.uint8)
        result[0] = -len(view) % 8
        result[1:] = np.packbits(view)
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode to one byte, 0 or 1, per bit, without the padding."""
        view = octets(data)
        if not len(view) or view[0] > 7 or (len(view) == 1 and view[0]):
            raise ChunkError(
                "numcodecs.packbits: the payload does not begin with a count of padding bits",
                found=view[:1].tobytes().hex() or "nothing",
                expected="0 to 7",
            )
        count = (len(view) - 1) * 8 - int(view[0])
        require_fit(self.spec.name, count, decoded)
        return np.unpackbits(view[1:], count=count)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        if decoded.exact and ends.head[:1] != bytes([-decoded.at_most % 8]):
            raise ChunkError(
                "numcodecs.packbits: the count of padding bits does not fit the chunk",
                found=ends.head[:1].hex() or "nothing",
                expected=str(-decoded.at_most % 8),
            )
        return BytesCodec.check(self, ends, decoded)


@dataclass(frozen=True, slots=True)
class Shuffle(BytesCodec):
    """The `shuffle` codec of numcodecs."""

    elementsize: int
    """Element size in bytes; nothing is shuffled for 0 and 1."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `elementsize`, default (or null) the item size, 4 if unknown."""
        config = Configuration(spec, ("elementsize",))
        if config.value("elementsize", None) is None:
            return cls(spec, item.itemsize if item is not None else 4)
        return cls(spec, config.integer("elementsize", low=0, high=(1 << 31) - 1))

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        elements_of("numcodecs.shuffle", decoded, max(self.elementsize, 1))
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        return self._moved(octets(data), "encode")

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        view = octets(data)
        require_fit(self.spec.name, len(view), decoded)
        return self._moved(view, "decode")

    def _moved(self, view: Buffer, direction: str) -> Buffer:
        elements_in("numcodecs.shuffle", len(view), max(self.elementsize, 1))
        if self.elementsize <= 1:
            return view
        from numcodecs import shuffle

        result: Buffer = getattr(shuffle.Shuffle(self.elementsize), direction)(view)
        return result


class Base64(BytesCodec):
    """The `base64` codec of numcodecs."""

    __slots__ = ()

    def encoded_size(self, decoded: Size) -> Size:
        """Four characters per three bytes, rounded up."""
        return Size((decoded.at_most + 2) // 3 * 4, decoded.exact)

    def decode(self, data: Buffer, decoded: Size) -> bytes:
        """Decode; other characters raise ChunkError, whereas numcodecs ignores them."""
        length = buffer_length(data)
        require_fit(self.spec.name, length, self.encoded_size(decoded))
        try:
            result = base64.b64decode(bytes(data), validate=True)
        except binascii.Error as error:
            raise ChunkError("numcodecs.base64: the payload is not base64", found=str(error)) from None
        require_fit(self.spec.name, len(result), decoded)
        return result

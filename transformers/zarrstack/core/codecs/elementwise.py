"""numcodecs' array filters that turn each element into one of another value or type.

`delta`, `fixedscaleoffset`, `quantize`, `bitround`, `astype` (numcodecs 0.16.6, module of
the same name each): every one views its input as its own configured type, whatever came
before. The arithmetic is numcodecs' own, since what it computes is what the format means.

Decoding is exact. Encoding may lose (rounding, overflow, sums of floats), which numcodecs
does silently; here what was encoded is decoded again, and a value that would change is a
CastError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from ..errors import CastError, ChunkError, MetadataError, UnsupportedError
from .base import BytesCodec, Size
from .bounds import buffer_length, elements_in, elements_of, items_as_octets, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..chain.codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


class _Filter(Protocol):
    def encode(self, buf: Array) -> Array: ...
    def decode(self, buf: Array) -> Array: ...


@dataclass(frozen=True, slots=True)
class Elementwise(BytesCodec):
    """What all of them share; a subclass reads its configuration and names its filter."""

    spec: CodecSpec
    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]
    filter: _Filter

    @classmethod
    def compile(
        cls, spec: CodecSpec, decoded_type: np.dtype[Any], encoded_type: np.dtype[Any], **arguments: Any
    ) -> Self:
        """Make numcodecs' own filter; what it refuses is a fault of the metadata."""
        import numcodecs

        name = spec.name.removeprefix("numcodecs.")
        try:
            made = numcodecs.get_codec({"id": name, **arguments})
        except (ValueError, TypeError) as error:
            raise MetadataError(f"codec {spec.name!r} makes no sense", found=f"{spec}: {error}") from None
        return cls(spec, decoded_type, encoded_type, made)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """The configured type."""
        return self.encoded_type

    def encoded_size(self, decoded: Size) -> Size:
        """As many elements of the encoded type."""
        count = elements_of(self.spec.name, decoded, self.decoded_type.itemsize)
        return Size(count * self.encoded_type.itemsize, decoded.exact)

    def encode(self, data: Buffer) -> Buffer:
        """Encode, and make sure that every bit comes back."""
        view = octets(data)
        if len(view) % self.decoded_type.itemsize:
            raise CastError(f"{self.spec.name}: no whole number of elements", found=f"{len(view)} bytes")
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
        """As numcodecs decodes, once the sizes have been found to fit."""
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


class Delta(Elementwise):
    """The `delta` filter: the first value, then differences."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `dtype` (the items' type if missing), `astype` (as `dtype` if missing)."""
        config = Configuration(spec, ("dtype", "astype"))
        dtype = config.dtype("dtype", item)
        astype = config.dtype("astype", dtype)
        return cls.compile(spec, dtype, astype, dtype=dtype, astype=astype)


class FixedScaleOffset(Elementwise):
    """The `fixedscaleoffset` filter: `(value - offset) * scale`, rounded."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `offset`, `scale`, and `dtype` and `astype` as for delta."""
        config = Configuration(spec, ("offset", "scale", "dtype", "astype"))
        dtype = config.dtype("dtype", item)
        astype = config.dtype("astype", dtype)
        offset, scale = config.number("offset"), config.number("scale")
        return cls.compile(spec, dtype, astype, offset=offset, scale=scale, dtype=dtype, astype=astype)


class Quantize(Elementwise):
    """The `quantize` filter: decimal digits kept, stored as floats."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `digits`, and `dtype` and `astype` as for delta."""
        config = Configuration(spec, ("digits", "dtype", "astype"))
        dtype = config.dtype("dtype", item)
        astype = config.dtype("astype", dtype)
        return cls.compile(spec, dtype, astype, digits=config.number("digits"), dtype=dtype, astype=astype)


class AsType(Elementwise):
    """The `astype` filter: a cast."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `encode_dtype`; `decode_dtype` (the items' type if missing)."""
        config = Configuration(spec, ("encode_dtype", "decode_dtype"))
        decoded, encoded = config.dtype("decode_dtype", item), config.dtype("encode_dtype")
        return cls.compile(spec, decoded, encoded, encode_dtype=encoded, decode_dtype=decoded)


@dataclass(frozen=True, slots=True)
class BitRound(BytesCodec):
    """The `bitround` filter: low mantissa bits set to zero, the type kept."""

    mantissa_bits: ClassVar[dict[int, int]] = {2: 10, 4: 23, 8: 52}

    spec: CodecSpec
    keepbits: int
    item: np.dtype[Any] | None
    """A float type; its configuration does not say which."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `keepbits`."""
        return cls(spec, Configuration(spec, ("keepbits",)).integer("keepbits", low=0, high=1 << 16), item)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """As it was."""
        return item

    def encoded_size(self, decoded: Size) -> Size:
        """As it was."""
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        """The data as it is, if its low bits are zero already; else a CastError."""
        item = self.item
        if item is None or item.kind != "f" or item.itemsize not in self.mantissa_bits:
            raise UnsupportedError("numcodecs.bitround rounds floats of 2, 4 or 8 bytes", found=str(item))
        kept = self.mantissa_bits[item.itemsize] - self.keepbits
        if kept > 0:
            bits = octets(data).view(f"{item.str[0]}u{item.itemsize}")
            if np.any(bits & bits.dtype.type((1 << kept) - 1)):
                raise CastError(
                    "numcodecs.bitround would change values",
                    found=f"{item.str} values of more than {self.keepbits} mantissa bits",
                    advice="Choose other codecs for this array.",
                )
        return data

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """The data as it is."""
        require_fit(self.spec.name, buffer_length(data), decoded)
        return data

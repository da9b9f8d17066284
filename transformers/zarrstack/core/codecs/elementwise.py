"""numcodecs' array filters that convert each element to another value or type.

`delta`, `fixedscaleoffset`, `quantize`, `bitround`, `astype` (numcodecs 0.16.6, modules of the same names):
each views its input as its configured type, whatever produced it. The arithmetic is numcodecs', because its
results define the format.

Decoding is exact. Encoding may lose information (rounding, overflow, sums of floats), which numcodecs does
silently; here the encoded data is decoded again, and a value that would change raises CastError.
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
    """Base class; subclasses parse the configuration of their filter."""

    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]
    filter: _Filter

    @classmethod
    def compile(
        cls, spec: CodecSpec, decoded_type: np.dtype[Any], encoded_type: np.dtype[Any], **arguments: Any
    ) -> Self:
        """Create numcodecs' filter; its errors become MetadataError."""
        import numcodecs

        name = spec.name.removeprefix("numcodecs.")
        try:
            made = numcodecs.get_codec({"id": name, **arguments})
        except (ValueError, TypeError) as error:
            raise MetadataError(
                f"codec {spec.name!r} has an invalid configuration", found=f"{spec}: {error}"
            ) from None
        return cls(spec, decoded_type, encoded_type, made)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """The configured type."""
        return self.encoded_type

    def encoded_size(self, decoded: Size) -> Size:
        """The same number of elements, of the encoded type."""
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
        """Decode with numcodecs, after checking the sizes."""
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
    numbers: ClassVar[tuple[str, ...]] = ()
    """Members of the configuration that are numbers."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `numbers`, `dtype` (default: type of the items), `astype` (`dtype`)."""
        config = Configuration(spec, (*cls.numbers, "dtype", "astype"))
        dtype = config.dtype("dtype", item)
        astype = config.dtype("astype", dtype)
        numbers = {name: config.number(name) for name in cls.numbers}
        return cls.compile(spec, dtype, astype, **numbers, dtype=dtype, astype=astype)


class FixedScaleOffset(Delta):
    """The `fixedscaleoffset` filter: `(value - offset) * scale`, rounded."""

    __slots__ = ()
    numbers = ("offset", "scale")


class Quantize(Delta):
    """The `quantize` filter: values rounded to decimal digits, stored as floats."""

    __slots__ = ()
    numbers = ("digits",)


class AsType(Elementwise):
    """The `astype` filter: a cast."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `encode_dtype`; `decode_dtype` (default: the type of the items)."""
        config = Configuration(spec, ("encode_dtype", "decode_dtype"))
        decoded, encoded = config.dtype("decode_dtype", item), config.dtype("encode_dtype")
        return cls.compile(spec, decoded, encoded, encode_dtype=encoded, decode_dtype=decoded)


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
        """Unchanged."""
        return item

    def encoded_size(self, decoded: Size) -> Size:
        """Unchanged."""
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        """Return the data unchanged if its low bits are zero; CastError otherwise."""
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
        """Return the data unchanged."""
        require_fit(self.spec.name, buffer_length(data), decoded)
        return data

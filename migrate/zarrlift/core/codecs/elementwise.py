"""numcodecs' array filters that convert each element to another value or type.

`delta`, `fixedscaleoffset`, `quantize`, `bitround`, `astype` (numcodecs 0.16.6, modules of the same names):
each views its input as its configured type, whatever produced it. The arithmetic is numcodecs', because its
results define the format.

Decoding is exact. Encoding may lose information (rounding, overflow, sums of floats), which numcodecs does
silently; here the encoded data is decoded again, and a value that would change raises CastError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError

from .base import BytesCodec, Size
from .bounds import buffer_length, elements_in, elements_of, items_as_octets, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..codec_spec import CodecSpec
    from .base import Buffer

FACTS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "numcodecs.astype": ("decode_dtype", "encode_dtype", ()),  # a cast
    "numcodecs.delta": ("dtype", "astype", ()),  # the first value, then differences
    # stored as (value - offset) * scale, rounded to a whole number
    "numcodecs.fixedscaleoffset": ("dtype", "astype", ("offset", "scale")),
    "numcodecs.quantize": ("dtype", "astype", ("digits",)),  # rounded to decimal digits, stored as floats
}
"""Name -> members of the configuration: the types before and after encoding, and numbers."""


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

        before, after, numbers = FACTS[spec.name]
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
        """Return the data unchanged."""
        require_fit(self.spec.name, buffer_length(data), decoded)
        return data

"""Codecs that numcodecs decodes: its filters and checksums, and what an installed package registers with it.

numcodecs' results define the format, so its arithmetic is used. A filter views its input as its configured
type, whatever produced it. The size of a payload is compared before it is decoded, the size and the data type
of the result after it.

Decoding is exact. Encoding may lose information (rounding, overflow, sums of floats), which numcodecs does
silently; here the encoded data is decoded again, and a value that would change raises CastError.

Of a codec that only an entry point names, sizes are not known beforehand: a decompression bomb is noticed
when it is decoded, not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError

from ..codec_table import require_facts
from .base import (
    DEFAULT_OPTIONS,
    ArrayCodec,
    BytesCodec,
    HeadAndTail,
    InnerChunk,
    Options,
    Size,
    buffer_length,
    elements_of,
    items_as_octets,
    octets,
    require_fit,
    require_length,
)

if TYPE_CHECKING:
    from ..codec_facts import CodecFacts
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]

_BYTES = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class FromNumcodecs(BytesCodec):
    """A codec of numcodecs, or of a package that registers it there."""

    facts: CodecFacts
    decoded_type: np.dtype[Any] | None
    """The type of the items before encoding; None if it is not known."""
    encoded_type: np.dtype[Any] | None
    """The type of the encoded items; None for bytes."""
    unit: int
    """Bytes of an element: only whole ones are encoded."""
    codec: Any
    """The codec of numcodecs."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; an error of numcodecs becomes MetadataError."""
        import numcodecs

        facts = require_facts(spec.name)
        values = dict(spec.configuration) if facts.members is None else facts.read(spec, item)
        decoded, encoded = facts.item_types(values, item)
        if facts.items is not None:
            types = {facts.items.decoded: decoded, facts.items.encoded: encoded}
            values |= {name: dtype for name, dtype in types.items() if name is not None}
        try:
            codec = numcodecs.get_codec({"id": facts.v2_id, **values})
        except Exception as error:
            raise MetadataError(
                f"codec {spec.name!r} has an invalid configuration", found=f"{spec}: {error}"
            ) from error
        unit = max(values.get("elementsize", 1), 1)
        if facts.items is not None and decoded is not None:
            unit = decoded.itemsize
        return cls(spec, facts, decoded, encoded, unit, codec)

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return _BYTES if self.facts.items is None else self.encoded_type

    def encoded_size(self, decoded: Size) -> Size:
        if self.facts.members is None:
            return BytesCodec.encoded_size(self, decoded)
        count = elements_of(self.spec.name, decoded, self.unit)
        if self.facts.bound is not None:
            return Size(self.facts.bound(decoded.at_most), decoded.exact)
        size = 1 if self.encoded_type is None else self.encoded_type.itemsize
        return Size(count * size, decoded.exact)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        return BytesCodec.check(self, ends, decoded) and self.facts.members is not None

    def encode(self, data: Buffer) -> Buffer:
        """Encode, and verify that every bit is restored if numcodecs does not."""
        view = octets(data)
        if len(view) % self.unit:
            raise CastError(f"{self.spec.name}: not a whole number of elements", found=f"{len(view)} bytes")
        if not len(view) and self._has_empty_form():
            return b""
        # A codec of bytes states no type of items.
        dtype = None if self.facts.items is None else self.decoded_type
        items = view if dtype is None else view.view(dtype)
        try:
            with np.errstate(all="ignore"):
                encoded = self._encoded(items)
                changed = self.facts.lossy and not np.array_equal(self._decoded(encoded), view)
        except Exception as error:
            raise UnsupportedError(
                f"{self.spec.name} cannot encode these values", found=str(error)
            ) from error
        if changed:
            raise CastError(
                f"{self.spec.name} would change values",
                found=f"{items.dtype.str} values that do not come back as they were",
                advice="Choose other codecs for this array.",
            )
        return encoded

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        length = buffer_length(data)
        require_length(self.spec.name, length, self.encoded_size(decoded))
        if not length and self._has_empty_form():
            require_fit(self.spec.name, 0, decoded)
            return b""
        try:
            with np.errstate(all="ignore"):
                result = self._decoded(octets(data))
        except ChunkError:
            raise
        except Exception as error:
            raise ChunkError(f"{self.spec.name}: the payload does not decode", found=str(error)) from error
        require_fit(self.spec.name, len(result), decoded)
        return result

    def _has_empty_form(self) -> bool:
        """Whether no bytes are encoded to none, with which some codecs of numcodecs fail."""
        return self.encoded_size(Size(0, exact=True)).at_most == 0

    def _encoded(self, items: Array) -> Array:
        """Encoded items, as octets."""
        # bitround, whose configuration states no type, takes items of the machine's byte order only.
        native = items.dtype.newbyteorder("=") if self.facts.bound is not None else items.dtype
        result = np.asarray(self.codec.encode(items.astype(native, copy=False)))
        if native != items.dtype and result.itemsize == native.itemsize:
            result = result.byteswap()
        return items_as_octets(np.ascontiguousarray(result))

    def _decoded(self, encoded: Array) -> Array:
        """Decoded items, as octets; ChunkError for items of another type than the configuration states."""
        stored = encoded if self.encoded_type is None else encoded.view(self.encoded_type)
        result = _array(self.codec.decode(stored))
        # bitround and packbits take and return items of any type, which the array's type then views.
        is_stated = self.facts.items is None or self.facts.items.decoded is not None
        expected = self.decoded_type if is_stated else None
        is_typed = result.dtype.kind not in "SVUb" and result.dtype != _BYTES
        if result.dtype.hasobject or (is_typed and expected is not None and result.dtype != expected):
            raise ChunkError(
                f"{self.spec.name}: the payload decodes to another data type",
                found=result.dtype.str,
                expected="bytes" if expected is None else expected.str,
            )
        return items_as_octets(np.ascontiguousarray(result))


def _array(result: Any) -> Array:
    """What numcodecs returned: an array or any other buffer."""
    return result if isinstance(result, np.ndarray) else np.frombuffer(result, np.uint8)


@dataclass(frozen=True, slots=True)
class ObjectCategorize(ArrayCodec):
    """The `categorize` filter on object arrays."""

    codec: Any
    codes: np.dtype[Any]

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        from numcodecs.categorize import Categorize

        values = require_facts(spec.name).read(spec)
        codes = _BYTES if values["astype"] is None else values["astype"]
        return cls(spec, inner_chunk, Categorize(values["labels"], object, codes), codes)

    @property
    def item(self) -> np.dtype[Any] | None:
        return self.codes

    @property
    def size(self) -> Size:
        return Size(self.inner_chunk.items * self.codes.itemsize, exact=True)

    def decode(self, data: Buffer) -> Array:
        require_fit(self.spec.name, buffer_length(data), self.size)
        result: Array = self.codec.decode(octets(data))
        return result.reshape(self.inner_chunk.shape)

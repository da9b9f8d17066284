"""`vlen-utf8`, `vlen-bytes`, `numcodecs.vlen-array`: a count of items, then each with its length.

Registered at https://github.com/zarr-developers/zarr-extensions (codecs/vlen-utf8,
codecs/vlen-bytes): a little-endian u32 count, then for every item a little-endian u32
length in bytes and the bytes, in C order. Zarr v2's object codecs of the same name are the
same bytes (numcodecs 0.16.6 `numcodecs.vlen`); numcodecs writes `None` and 0 as empty
items, so that they come back as "" and b"". Here they are refused on encoding: the caller
decides what a missing item becomes.

numcodecs passes over bytes that follow the last item, and believes the count before it
has looked; here both are checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..errors import CastError, ChunkError, MetadataError
from .base import DEFAULT_OPTIONS, ArrayCodec, Ends, Leaf, Options, Size, memory
from .bounds import buffer_length
from .config import Configuration

if TYPE_CHECKING:
    from ..chain.codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Vlen(ArrayCodec):
    """What all of them share: the outer frame."""

    spec: CodecSpec
    leaf: Leaf
    limit: int
    """The most bytes of one leaf."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, leaf: Leaf, options: Options = DEFAULT_OPTIONS) -> Self:
        """No configuration."""
        Configuration(spec, ())
        return cls(spec, leaf, options.object_limit)

    @property
    def size(self) -> Size:
        """At most what one leaf may unpack to."""
        return Size(self.limit, exact=False)

    def check(self, ends: Ends) -> bool:
        """The count, and room for as many lengths."""
        self._require_frame(ends.head[:4], ends.length)
        return True

    def _require_frame(self, head: bytes, length: int) -> None:
        count = int.from_bytes(head[:4], "little")
        if len(head) < 4 or count != self.leaf.items:
            raise ChunkError(
                f"{self.spec.name}: the payload holds the wrong number of items",
                found=str(count) if len(head) == 4 else f"{length} bytes",
                expected=str(self.leaf.items),
            )
        if length < 4 + 4 * count or length > self.limit:
            raise ChunkError(
                f"{self.spec.name}: the payload has an impossible length",
                found=f"{length} bytes",
                expected=f"{4 + 4 * count} to {self.limit} bytes",
            )

    def _checked(self, data: Buffer) -> memoryview:
        view = memory(data)
        self._require_frame(bytes(view[:4]), len(view))
        return view

    def _fault(self, what: str) -> ChunkError:
        return ChunkError(f"{self.spec.name}: the payload does not decode", found=what)


@dataclass(frozen=True, slots=True)
class Scalars(Vlen):
    """Items that are one Python object each, str or bytes."""

    kind: ClassVar[type]

    def encode(self, array: Array) -> Buffer:
        """CastError for an item that is not of the kind, None and 0 included."""
        flat = array.astype(object, copy=False).reshape(-1)
        kind = type(self).kind
        for found in set(map(type, flat.tolist())):
            if not issubclass(found, kind):
                raise CastError(
                    f"{self.spec.name}: an item is no {kind.__name__}",
                    found=found.__name__,
                    expected=kind.__name__,
                )
        try:
            result: bytearray = self._numcodec().encode(flat)
        except UnicodeEncodeError as error:
            raise CastError(f"{self.spec.name}: an item has no UTF-8 form", found=str(error)) from None
        return result

    def decode(self, data: Buffer) -> Array:
        """An object array; of the leaf's own type where that is a fixed-size one."""
        view = self._checked(data)
        try:
            flat: Array = self._numcodec().decode(view)
        except ValueError as error:  # UnicodeDecodeError is one
            raise self._fault(str(error)) from None
        self._require_end(flat, len(view))
        result = flat.reshape(self.leaf.shape)
        native = self.leaf.data_type.numpy
        if native.hasobject:
            return result
        cast = result.astype(native)
        if cast.tolist() != result.tolist():
            raise self._fault(f"an item that is longer than {native} holds")
        return cast

    def _numcodec(self) -> Any:
        raise NotImplementedError

    def _require_end(self, flat: Array, length: int) -> None:
        end = 4 + 4 * len(flat) + self._encoded_length(flat, length - 4 - 4 * len(flat))
        if end != length:
            raise self._fault(f"{length - end} bytes behind the last item")

    def _encoded_length(self, flat: Array, expected: int) -> int:
        return sum(map(len, flat))


class VlenUtf8(Scalars):
    """The `vlen-utf8` codec."""

    __slots__ = ()
    kind = str

    def _numcodec(self) -> Any:
        from numcodecs import vlen

        return vlen.VLenUTF8()

    def _encoded_length(self, flat: Array, expected: int) -> int:
        # No text has fewer bytes than characters, and the decoder stayed within the payload:
        # as many characters as bytes means that all of it was read.
        if sum(map(len, flat)) == expected:
            return expected
        return sum(len(item.encode()) for item in flat)


class VlenBytes(Scalars):
    """The `vlen-bytes` codec."""

    __slots__ = ()
    kind = bytes

    def _numcodec(self) -> Any:
        from numcodecs import vlen

        return vlen.VLenBytes()


@dataclass(frozen=True, slots=True)
class VlenArray(Vlen):
    """The `vlen-array` codec of numcodecs: every item is a one-dimensional array."""

    element: np.dtype[Any]
    """As stored, byte order included."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, leaf: Leaf, options: Options = DEFAULT_OPTIONS) -> Self:
        """Configuration: `dtype`."""
        element = Configuration(spec, ("dtype",)).dtype("dtype")
        if not leaf.data_type.numpy.hasobject:
            raise MetadataError("numcodecs.vlen-array needs an object array", found=leaf.data_type.name)
        return cls(spec, leaf, options.object_limit, element)

    def encode(self, array: Array) -> Buffer:
        """Every item must be an array of the element type; None is refused as in the others."""
        parts = [struct.pack("<I", array.size)]
        for item in array.reshape(-1):
            if (
                not isinstance(item, np.ndarray)
                or item.ndim != 1
                or not np.can_cast(item.dtype, self.element, "equiv")
            ):
                raise CastError(
                    f"{self.spec.name}: an item is no one-dimensional array of {self.element}",
                    found=f"{item.ndim}-d {item.dtype}"
                    if isinstance(item, np.ndarray)
                    else type(item).__name__,
                )
            content = item.astype(self.element).tobytes()
            parts += (struct.pack("<I", len(content)), content)
        return b"".join(parts)

    def decode(self, data: Buffer) -> Array:
        """An object array of native one-dimensional arrays, each with memory of its own."""
        view = self._checked(data)
        native = self.element.newbyteorder("=")
        flat = np.empty(self.leaf.items, dtype=object)
        position = 4
        for index in range(len(flat)):
            start = position + 4
            position = start + int.from_bytes(view[position:start], "little")
            if start > len(view) or position > len(view) or (position - start) % self.element.itemsize:
                raise self._fault(f"item {index} does not fit the payload")
            flat[index] = np.frombuffer(view[start:position], self.element).astype(native)
        if position != buffer_length(data):
            raise self._fault(f"{len(view) - position} bytes behind the last item")
        return flat.reshape(self.leaf.shape)

"""`vlen-utf8`, `vlen-bytes`, `numcodecs.vlen-array`: a count of items, then each item with its length.

Registered at https://github.com/zarr-developers/zarr-extensions (codecs/vlen-utf8, codecs/vlen-bytes): a
little-endian u32 count, then for every item a little-endian u32 length in bytes and the bytes, in C order.
Zarr v2's object codecs of the same names are the same bytes (numcodecs 0.16.6 `numcodecs.vlen`); numcodecs
writes `None` and 0 as empty items, which are read as "" and b"". Encoding refuses them here: the caller
decides how to represent a missing item.

numcodecs ignores bytes after the last item, and uses the count unchecked; both are checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from zarrstack.core.errors import CastError, ChunkError, MetadataError

from ..codec_table import require_facts
from .base import DEFAULT_OPTIONS, HeadAndTail, InnerChunk, ObjectCodec, Options, buffer_length, memory

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Vlen(ObjectCodec):
    """Base class; handles count and lengths."""

    def check(self, ends: HeadAndTail) -> bool:
        """Check the count, and that there is room for the lengths."""
        self._require_frame(ends.head[:4], ends.length)
        return True

    def _require_frame(self, head: bytes, length: int) -> None:
        count = int.from_bytes(head[:4], "little")
        if len(head) < 4 or count != self.inner_chunk.items:
            raise ChunkError(
                f"{self.spec.name}: the payload holds the wrong number of items",
                found=str(count) if len(head) == 4 else f"{length} bytes",
                expected=str(self.inner_chunk.items),
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


@dataclass(frozen=True, slots=True)
class Scalars(Vlen):
    """Base class for items that are single Python objects, str or bytes."""

    kind: ClassVar[type]

    def encode(self, array: Array) -> Buffer:
        """Encode; CastError for an item of another type, including None and 0."""
        flat = array.astype(object, copy=False).reshape(-1)
        kind = type(self).kind
        for item_type in set(map(type, flat.tolist())):
            if not issubclass(item_type, kind):
                raise CastError(
                    f"{self.spec.name}: an item is not of type {kind.__name__}",
                    found=item_type.__name__,
                    expected=kind.__name__,
                )
        try:
            result: bytearray = self._numcodec().encode(flat)
        except UnicodeEncodeError as error:
            raise CastError(f"{self.spec.name}: an item has no UTF-8 form", found=str(error)) from None
        return result

    def decode(self, data: Buffer) -> Array:
        """Decode to an object array, or to the inner chunk's type if that is a fixed-size one."""
        view = self._checked(data)
        try:
            flat: Array = self._numcodec().decode(view)
        except ValueError as error:  # includes UnicodeDecodeError
            raise self._fault(str(error)) from None
        self._require_end(flat, len(view))
        result = flat.reshape(self.inner_chunk.shape)
        native = self.inner_chunk.data_type.numpy
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
            raise self._fault(f"{length - end} bytes after the last item")

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
        # Text has at most as many characters as bytes, and the decoder stayed within the payload: an equal
        # number proves that all of it was read.
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
    """Stored type, including byte order."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        element = require_facts(spec.name).read(spec)["dtype"]
        if not inner_chunk.data_type.numpy.hasobject:
            raise MetadataError(
                "numcodecs.vlen-array needs an object array", found=inner_chunk.data_type.name
            )
        return cls(spec, inner_chunk, options.object_limit, element)

    def decode(self, data: Buffer) -> Array:
        """Decode to an object array of native one-dimensional arrays, each with separate memory."""
        view = self._checked(data)
        native = self.element.newbyteorder("=")
        flat = np.empty(self.inner_chunk.items, dtype=object)
        position = 4
        for index in range(len(flat)):
            start = position + 4
            position = start + int.from_bytes(view[position:start], "little")
            if start > len(view) or position > len(view) or (position - start) % self.element.itemsize:
                raise self._fault(f"item {index} does not fit the payload")
            flat[index] = np.frombuffer(view[start:position], self.element).astype(native)
        if position != buffer_length(data):
            raise self._fault(f"{len(view) - position} bytes after the last item")
        return flat.reshape(self.inner_chunk.shape)

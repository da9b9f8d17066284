"""`bytes` and `numpy_bytes`: the items of a fixed-size type, contiguous.

Specification of `bytes`: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/ . It covers every
fixed-size type here: text (`fixed_length_utf32`), times and structs follow `endian` too; one-byte items,
`null_terminated_bytes` and `raw_bytes` have no byte order. A missing `endian` is little, as zarr-python
writes and reads structs without one.

`numpy_bytes` is this project's name for types that Zarr v2 can express and v3 cannot: its configuration is a
v2 dtype, whose struct fields may differ in byte order. With the data type `object` it reads items that no v3
type represents (long doubles, structs with sub-arrays) as numpy scalars, one object each; such an inner
chunk is never written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import CastError, MetadataError, UnsupportedError

from ..codec_facts import wrong_member
from ..codec_table import require_facts
from .base import (
    DEFAULT_OPTIONS,
    ArrayCodec,
    InnerChunk,
    Options,
    Size,
    buffer_length,
    items_as_octets,
    require_fit,
)
from .layout import in_c_order

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Bytes(ArrayCodec):
    """The `bytes` codec."""

    stored: np.dtype[Any]
    """Stored type of the items, including byte order."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        endian = require_facts(spec.name).read(spec)["endian"]
        native = _fixed_type(spec, inner_chunk)
        if native.metadata and endian != "little":
            raise UnsupportedError("bfloat16 values are read in little-endian order only", found=str(endian))
        return cls(spec, inner_chunk, native.newbyteorder(">" if endian == "big" else "<"))

    @property
    def item(self) -> np.dtype[Any] | None:
        return self.stored

    @property
    def size(self) -> Size:
        return Size(self.inner_chunk.items * self.stored.itemsize, exact=True)

    def encode(self, array: Array) -> Buffer:
        """Convert to C order and the stored byte order; no copy if the array has them already."""
        if array.shape != self.inner_chunk.shape or array.dtype.hasobject:
            raise CastError(
                f"{self.spec.name}: not an array of this chunk",
                found=f"{array.shape} {array.dtype}",
                expected=f"{self.inner_chunk.shape} {self.stored}",
            )
        if not np.can_cast(array.dtype, self.stored, "equiv"):
            raise CastError(
                f"{self.spec.name}: the array's data type is not that of the chunk",
                found=str(array.dtype),
                expected=str(self.stored),
            )
        return items_as_octets(in_c_order(array, self.stored))

    def decode(self, data: Buffer) -> Array:
        """Return a view of the data: read-only if the data is, in the stored byte order."""
        require_fit(self.spec.name, buffer_length(data), self.size)
        if self.stored.itemsize == 0 or self.inner_chunk.items == 0:
            return np.zeros(self.inner_chunk.shape, self.stored)
        return np.ndarray(self.inner_chunk.shape, self.stored, buffer=data)


class NumpyBytes(Bytes):
    """The `numpy_bytes` codec."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile; configuration: `dtype`, as in a v2 document."""
        from ..data_types.v2 import parse_v2_dtype

        stored = parse_v2_dtype(require_facts(spec.name).read(spec)["dtype"])
        if inner_chunk.data_type.name == "object":
            if stored.hasobject:
                raise wrong_member(spec, "dtype", "a type of fixed size")
            return cls(spec, inner_chunk, stored)
        native = _fixed_type(spec, inner_chunk)
        if not np.can_cast(stored, native, "equiv"):
            raise wrong_member(spec, "dtype", f"{native} but for byte order")
        return cls(spec, inner_chunk, stored)

    def decode(self, data: Buffer) -> Array:
        """Decode like `bytes`; for an inner chunk of objects, to an object array of numpy scalars."""
        items = Bytes.decode(self, data)
        if self.inner_chunk.data_type.name != "object":
            return items
        result = np.empty(items.shape, dtype=object)
        flat, native = result.reshape(-1), items.reshape(-1).astype(self.stored.newbyteorder("="))
        for index in range(items.size):
            flat[index] = native[index]
        return result


def _fixed_type(spec: CodecSpec, inner_chunk: InnerChunk) -> np.dtype[Any]:
    native = inner_chunk.data_type.numpy
    if native.hasobject:
        raise MetadataError(
            f"codec {spec.name!r} cannot hold variable-length data",
            found=inner_chunk.data_type.name,
            expected="a codec such as vlen-utf8",
        )
    return native

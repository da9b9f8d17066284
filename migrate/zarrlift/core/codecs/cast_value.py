"""`scale_offset` and `cast_value`: packed numbers under registered names, which are read but not written.

https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset and `cast_value` beside it.
The results are those of zarr-python 3.4.2 with cast-value-rs 0.5.1, bit for bit (observed): arithmetic is in
the array's type, integers must divide without a remainder, and float16 NaNs become quiet.

In the normal form of a chain they follow `bytes` and keep its byte order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

from ..codec_facts import wrong_member
from ..codec_table import require_facts
from ..data_types.v3 import DataType, fill_from_json
from .base import BytesCodec, Size, elements_of, items_as_octets, octets, require_length

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Conversion(BytesCodec):
    """A codec of numbers."""

    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return self.encoded_type

    def encoded_size(self, decoded: Size) -> Size:
        count = elements_of(self.spec.name, decoded, self.decoded_type.itemsize)
        return Size(count * self.encoded_type.itemsize, decoded.exact)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        view = octets(data)
        require_length(self.spec.name, len(view), self.encoded_size(decoded))
        native = view.view(self.encoded_type).astype(self.encoded_type.newbyteorder("="), copy=False)
        with np.errstate(all="ignore"):
            values = self._values(native)
        return items_as_octets(values.astype(self.decoded_type, copy=False))

    def _values(self, encoded: Array) -> Array:
        """Decoded values of native ones, in the array's native type; ChunkError."""
        raise NotImplementedError

    def _within(self, values: Array) -> Array:
        """Integers in the array's type; ChunkError for one that it cannot represent."""
        limits = np.iinfo(self.decoded_type)
        if len(values) and not (values.min() >= limits.min and values.max() <= limits.max):
            raise ChunkError(
                f"{self.spec.name}: a value is out of range",
                found=f"{values.min()} to {values.max()}",
                expected=str(self.decoded_type),
            )
        return values.astype(self.decoded_type.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class ScaleOffset(_Conversion):
    """Decoded: value / scale + offset."""

    offset: Any
    scale: Any

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        values, item = require_facts(spec.name).read(spec, item), _number(spec, item)
        data_type = DataType.from_numpy(item.newbyteorder("="))
        offset, scale = (fill_from_json(values[name], data_type) for name in ("offset", "scale"))
        if not scale:
            raise wrong_member(spec, "scale", "a number other than 0")
        return cls(spec, item, item, offset, scale)

    def _values(self, encoded: Array) -> Array:
        if encoded.dtype.kind == "f":
            return np.asarray(encoded / self.scale + self.offset)
        # Sums of 64-bit integers exceed them.
        wide = encoded.astype(object if encoded.itemsize == 8 else np.int64)
        if (wide % int(self.scale)).any():
            raise ChunkError(
                f"{self.spec.name}: a value is not a multiple of the scale", found=str(self.spec)
            )
        return self._within(wide // int(self.scale) + int(self.offset))


@dataclass(frozen=True, slots=True)
class CastValue(_Conversion):
    """Decoded: the same value in the array's type."""

    out_of_range: str | None

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        values, item = require_facts(spec.name).read(spec, item), _number(spec, item)
        stored = _number(spec, DataType.from_json(values["data_type"]).numpy)
        mapping = values["scalar_map"] or {}
        if values["rounding"] != "nearest-even" or not isinstance(mapping, Mapping) or mapping.get("decode"):
            raise UnsupportedError(
                "cast_value is only supported with rounding nearest-even and without a map of decoded values",
                found=str(spec.to_json()),
            )
        if item.itemsize == 1 < stored.itemsize:
            raise UnsupportedError("cast_value of single bytes to larger items", found=str(spec.to_json()))
        return cls(
            spec, item, stored.newbyteorder(">" if item.str[0] == ">" else "<"), values["out_of_range"]
        )

    def _values(self, encoded: Array) -> Array:
        target = self.decoded_type.newbyteorder("=")
        if target.kind == "f":
            result = encoded.astype(target)
            if encoded.dtype == np.float16 and encoded.dtype != target:
                result = np.where(np.isnan(result), result + result, result)  # a sum is quiet
            if (np.isinf(result) & np.isfinite(encoded)).any():
                raise ChunkError(f"{self.spec.name}: a value is out of range", expected=str(target))
            return result
        if encoded.dtype.kind == "f":
            if not np.isfinite(encoded).all():
                raise ChunkError(f"{self.spec.name}: a value is not finite", expected=str(target))
            encoded = np.rint(encoded).astype(object)
        if self.out_of_range is None:
            return self._within(encoded)
        if self.out_of_range == "clamp":
            limits = np.iinfo(target)
            encoded = np.clip(encoded.astype(object), limits.min, limits.max)
        return encoded.astype(target)


def _number(spec: CodecSpec, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    if dtype is None or dtype.kind not in "iuf":
        raise MetadataError(f"codec {spec.name!r} converts only numbers", found=str(dtype))
    return dtype

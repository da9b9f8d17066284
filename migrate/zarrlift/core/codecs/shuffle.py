"""`numcodecs.shuffle`: the first byte of every element, then every second byte, and so on.

Source: numcodecs 0.16.6 `numcodecs.shuffle`; a length that is not a multiple of the element size is an error
there and here. zarr-python omits `elementsize` in v3 metadata if it equals the array's item size; Zarr v2
always has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .base import BytesCodec, Size
from .bounds import elements_in, elements_of, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer


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
        """Bytes, as in numcodecs."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        """Unchanged."""
        elements_of("numcodecs.shuffle", decoded, max(self.elementsize, 1))
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        """Group bytes by their position in the element."""
        view = octets(data)
        elements_in("numcodecs.shuffle", len(view), max(self.elementsize, 1))
        if self.elementsize <= 1:
            return view
        result: Buffer = self._numcodec().encode(view)
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """The inverse of `encode`."""
        view = octets(data)
        require_fit(self.spec.name, len(view), decoded)
        elements_in("numcodecs.shuffle", len(view), max(self.elementsize, 1))
        if self.elementsize <= 1:
            return view
        result: Buffer = self._numcodec().decode(view)
        return result

    def _numcodec(self) -> Any:
        from numcodecs import shuffle

        return shuffle.Shuffle(self.elementsize)

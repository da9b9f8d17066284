"""`numcodecs.shuffle`: the first byte of every element, then every second byte, and so on.

Fact: numcodecs 0.16.6 `numcodecs.shuffle`; a length that is no multiple of the element
size is an error there and here. zarr-python writes no `elementsize` in v3 metadata where
it means the array's item size; Zarr v2 always has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import ChunkError, MetadataError
from .base import BytesCodec, Size
from .bounds import octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..chain import CodecSpec
    from .base import Buffer


@dataclass(frozen=True, slots=True)
class Shuffle(BytesCodec):
    """The `shuffle` codec of numcodecs."""

    spec: CodecSpec
    elementsize: int
    """In bytes; up to 1 nothing is shuffled."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `elementsize`; if it is missing or null the items' size, 4 if unknown."""
        config = Configuration(spec, ("elementsize",))
        if config.value("elementsize", None) is None:
            return cls(spec, item.itemsize if item is not None else 4)
        return cls(spec, config.integer("elementsize", low=0, high=(1 << 31) - 1))

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Bytes, as numcodecs gives them."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        """As large as before."""
        if decoded.exact and self.elementsize > 1 and decoded.at_most % self.elementsize:
            raise MetadataError(
                "numcodecs.shuffle: the chunk is no whole number of elements",
                found=f"{decoded.at_most} bytes",
                expected=f"a multiple of {self.elementsize}",
            )
        return decoded

    def encode(self, data: Buffer) -> Buffer:
        """Bytes sorted by their place in the element."""
        view = octets(data)
        self._require_whole(len(view))
        if self.elementsize <= 1:
            return view
        result: Buffer = self._numcodec().encode(view)
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """The inverse."""
        view = octets(data)
        require_fit(self.spec.name, len(view), decoded)
        self._require_whole(len(view))
        if self.elementsize <= 1:
            return view
        result: Buffer = self._numcodec().decode(view)
        return result

    def _numcodec(self) -> Any:
        from numcodecs import shuffle

        return shuffle.Shuffle(self.elementsize)

    def _require_whole(self, length: int) -> None:
        if self.elementsize > 1 and length % self.elementsize:
            raise ChunkError(
                "numcodecs.shuffle: the payload is no whole number of elements",
                found=f"{length} bytes",
                expected=f"a multiple of {self.elementsize}",
            )

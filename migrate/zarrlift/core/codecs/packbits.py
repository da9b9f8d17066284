"""`numcodecs.packbits`: a count of padding bits, then eight booleans per byte.

Source: numcodecs 0.16.6 `numcodecs.packbits`; the highest bit comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.errors import CastError, ChunkError

from .base import BytesCodec, HeadAndTail, Size
from .bounds import octets, require_fit

if TYPE_CHECKING:
    from .base import Buffer


class PackBits(BytesCodec):
    """The `packbits` filter of numcodecs."""

    __slots__ = ()

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Bytes."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        """One byte, and one bit per boolean."""
        return Size(1 + -(-decoded.at_most // 8), decoded.exact)

    def encode(self, data: Buffer) -> Buffer:
        """Encode; the first byte is the number of padding bits in the last."""
        view = octets(data)
        if np.any(view > 1):
            raise CastError(
                "numcodecs.packbits would change values", found="booleans that are neither 0 nor 1"
            )
        result = np.empty(self.encoded_size(Size(len(view), True)).at_most, np.uint8)
        result[0] = -len(view) % 8
        result[1:] = np.packbits(view)
        return result

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode to one byte, 0 or 1, per bit, without the padding."""
        view = octets(data)
        if not len(view) or view[0] > 7 or (len(view) == 1 and view[0]):
            raise ChunkError(
                "numcodecs.packbits: the payload does not begin with a count of padding bits",
                found=view[:1].tobytes().hex() or "nothing",
                expected="0 to 7",
            )
        count = (len(view) - 1) * 8 - int(view[0])
        require_fit(self.spec.name, count, decoded)
        return np.unpackbits(view[1:], count=count)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the number of padding bits and the length."""
        if decoded.exact and ends.head[:1] != bytes([-decoded.at_most % 8]):
            raise ChunkError(
                "numcodecs.packbits: the count of padding bits does not fit the chunk",
                found=ends.head[:1].hex() or "nothing",
                expected=str(-decoded.at_most % 8),
            )
        return BytesCodec.check(self, ends, decoded)

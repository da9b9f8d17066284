"""`numcodecs.base64`: the standard alphabet with padding (RFC 4648, section 4)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from zarrstack.core.errors import ChunkError

from .base import BytesCodec, Size, memory
from .bounds import buffer_length, require_fit

if TYPE_CHECKING:
    from .base import Buffer


class Base64(BytesCodec):
    """The `base64` codec of numcodecs."""

    __slots__ = ()

    def encoded_size(self, decoded: Size) -> Size:
        """Four characters per three bytes, rounded up."""
        return Size((decoded.at_most + 2) // 3 * 4, decoded.exact)

    def encode(self, data: Buffer) -> bytes:
        return base64.b64encode(memory(data))

    def decode(self, data: Buffer, decoded: Size) -> bytes:
        """Decode; other characters raise ChunkError, whereas numcodecs ignores them."""
        length = buffer_length(data)
        require_fit(self.spec.name, length, self.encoded_size(decoded))
        try:
            result = base64.b64decode(bytes(data), validate=True)
        except binascii.Error as error:
            raise ChunkError("numcodecs.base64: the payload is not base64", found=str(error)) from None
        require_fit(self.spec.name, len(result), decoded)
        return result

"""`numcodecs.pcodec`: numbers compressed by pcodec, in its standalone format.

Source: numcodecs 0.16.6 `numcodecs.pcodec`. A payload states its number type and counts; pcodec decodes into
memory of the chunk's size, and no further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from zarrstack.core.errors import ChunkError

from .base import HeadAndTail, Size, memory
from .bounds import elements_in, items_as_octets, too_large
from .config import Configuration
from .optional import DecodedOnly, native_number, require_exact, require_package

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

_MEMBERS: Final = (
    *("level", "mode_spec", "delta_spec", "paging_spec"),
    *("delta_encoding_order", "equal_pages_up_to"),
)
"""Settings of the encoder; the payload has all that a decoder needs."""
_TYPES: Final = frozenset({"u2", "u4", "u8", "i2", "i4", "i8", "f2", "f4", "f8"})


@dataclass(frozen=True, slots=True)
class PCodec(DecodedOnly):
    """The `pcodec` codec of numcodecs."""

    number: np.dtype[Any]

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; UnsupportedError if pcodec is not installed."""
        Configuration(spec, _MEMBERS)
        require_package(spec, "pcodec")
        return cls(spec, native_number(spec, item, _TYPES))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode into memory of the chunk's size."""
        from pcodec import standalone

        count = elements_in(self.spec.name, require_exact(self.spec, decoded), self.number.itemsize)
        result = np.empty(count, self.number.newbyteorder("="))
        try:
            progress = standalone.simple_decompress_into(bytes(memory(data)), result)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is none of Exception
            raise ChunkError(
                f"{self.spec.name}: the payload does not decode", found=str(error)[:200]
            ) from None
        if not progress.finished:
            raise too_large(self.spec.name, decoded)
        if progress.n_processed != count:
            raise ChunkError(
                f"{self.spec.name}: the payload unpacks to the wrong size",
                found=f"{progress.n_processed} numbers",
                expected=str(count),
            )
        return items_as_octets(result)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Only decoding can tell."""
        return False

"""Concatenated streams of Python's `bz2` and `lzma`, unpacked within a limit.

Both libraries collect the pieces of a result and join them at its end, which takes twice the memory; large
results are therefore requested in steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from zarrstack.core.errors import ChunkError

from .base import Size, memory
from .bounds import require_fit, too_large

if TYPE_CHECKING:
    from .base import Buffer

MIN_STEP: Final = 1 << 20
STEPS: Final = 16
"""Minimum bytes per step, and number of steps of a large result."""


class Stream(Protocol):
    """The common interface of `bz2.BZ2Decompressor` and `lzma.LZMADecompressor`."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether all input has been processed."""

    @property
    def unused_data(self) -> bytes:
        """Input after the end of the stream."""

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        """Return at most this number of bytes; the rest of the input is kept."""


def unpack(
    codec: str,
    data: Buffer,
    decoded: Size,
    new_stream: Callable[[], Stream],
    errors: tuple[type[Exception], ...],
    padding: Callable[[bytes], bytes],
) -> bytes | bytearray:
    """Unpack all streams; `padding` removes permitted padding after one.

    ChunkError if a stream is invalid (raises one of `errors`) or incomplete, or if the total size is not
    allowed by `decoded`.
    """
    parts: list[bytearray] = []
    left = decoded.at_most
    rest: memoryview | bytes = memory(data)
    while len(rest) or not parts:
        stream = new_stream()
        try:
            part = _unpack_one(stream, rest, left)
        except errors as error:
            raise ChunkError(f"{codec}: the payload does not unpack", found=str(error)) from None
        if len(part) > left:
            raise too_large(codec, decoded)
        if not stream.eof:
            raise ChunkError(
                f"{codec}: the payload is cut short", found=f"{len(part)} decoded bytes and no end"
            )
        parts.append(part)
        left -= len(part)
        rest = padding(stream.unused_data)
    result = parts[0] if len(parts) == 1 else b"".join(parts)
    require_fit(codec, len(result), decoded)
    return result


def _unpack_one(stream: Stream, data: memoryview | bytes, left: int) -> bytearray:
    """Unpack up to one byte more than is left, to detect an excess."""
    step = max(MIN_STEP, left // STEPS)
    result = bytearray()
    while True:
        result += stream.decompress(data, min(left + 1 - len(result), step))
        if len(result) > left or stream.eof or stream.needs_input:
            return result
        data = b""  # the stream buffers its unprocessed input

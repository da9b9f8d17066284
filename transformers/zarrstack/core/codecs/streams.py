"""Streams of Python's `bz2` and `lzma`, one behind the other, unpacked within a bound.

Both libraries gather the pieces of one answer and join them at its end, which takes twice the
memory; so a large result is asked for step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ..errors import ChunkError
from .base import Size, memory
from .bounds import require_fit, too_large

if TYPE_CHECKING:
    from .base import Buffer

LEAST_STEP: Final = 1 << 20
STEPS: Final = 16
"""Bytes, and how many such answers: a large result is asked for piece by piece."""


class Stream(Protocol):
    """What `bz2.BZ2Decompressor` and `lzma.LZMADecompressor` have in common."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out of what was put in."""

    @property
    def unused_data(self) -> bytes:
        """What stands behind the end."""

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        """At most so many more bytes; the rest of the input is kept."""


def unpack(
    codec: str,
    data: Buffer,
    decoded: Size,
    new_stream: Callable[[], Stream],
    errors: tuple[type[Exception], ...],
    padding: Callable[[bytes], bytes],
) -> bytes | bytearray:
    """What all streams hold; `padding` takes away what may stand behind one.

    ChunkError if one does not unpack (it raises one of `errors`), has no end, or if the whole is not
    of the size that `decoded` allows.
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
    """Up to one byte more than is left, by which it is known that there is too much."""
    step = max(LEAST_STEP, left // STEPS)
    result = bytearray()
    while True:
        result += stream.decompress(data, min(left + 1 - len(result), step))
        if len(result) > left or stream.eof or stream.needs_input:
            return result
        data = b""  # the stream keeps what it has not come to

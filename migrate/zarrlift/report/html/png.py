"""Writes PNG files of 8 bits a channel (https://www.w3.org/TR/png-3/)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A file for pixels of shape (height, width), which are grey, or (height, width, 3)."""
    height, width, *channels = pixels.shape
    rows = pixels.reshape(height, -1)
    filtered = b"".join(b"\0" + row.tobytes() for row in rows)  # 9.2: filter type 0, none
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

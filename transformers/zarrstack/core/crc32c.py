"""CRC-32C, of shard indexes, of the codec `crc32c` and of records of the cache on disk.

Source: RFC 3720, appendix B.4 (https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4); Castagnoli's polynomial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def crc32c(data: bytes | memoryview | npt.NDArray[Any], before: int = 0) -> int:
    """The CRC-32C of contiguous bytes that follow others, whose CRC-32C is `before`."""
    import google_crc32c

    # It takes arrays, but no memoryviews.
    content = np.frombuffer(data, np.uint8) if isinstance(data, memoryview) else data
    return int(google_crc32c.extend(before, content))

"""Lists of lengths in metadata documents: shapes and chunk shapes, read once and within bounds."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from .errors import MetadataError
from .json_text import JSON, excerpt

Shape: TypeAlias = tuple[int, ...]

MOST_AXES: Final = 32
"""What numpy 1 can index, and what every writer of the formats here was limited to."""
MOST_ELEMENTS: Final = 2**63 - 1
"""Linear indexes are 64 bits wide, here and in numpy."""


def read_lengths(value: JSON, name: str, *, least: int = 0, most: int = MOST_ELEMENTS) -> Shape:
    """A list of whole numbers from `least`, whose product is at most `most`, lengths of 0 aside.

    `name` is what the document calls it. MetadataError for anything else; true is no 1, 2.0 no 2.
    """
    if not isinstance(value, list) or not all(type(n) is int and n >= least for n in value):
        raise MetadataError(
            f"{name} is no list of lengths",
            found=excerpt(value),
            expected=f"a list of whole numbers from {least} upwards",
        )
    if len(value) > MOST_AXES:
        raise MetadataError(
            f"{name} has too many axes", found=str(len(value)), expected=f"{MOST_AXES} at most"
        )
    # A length of 0 makes a product of 0, whatever the others are.
    if max(value, default=0) > most or math.prod(n or 1 for n in value) > most:
        raise MetadataError(f"{name} has too many elements", found=excerpt(value), expected=f"{most} at most")
    return tuple(value)


def require_same_axes(chunks: Shape, shape: Shape, name: str, *, whole: str = "shape") -> None:
    """MetadataError unless there is one chunk length per axis."""
    if len(chunks) != len(shape):
        raise MetadataError(
            f"{name} has another number of axes than {whole}",
            found=f"{whole} {excerpt(shape)}, {name} {excerpt(chunks)}",
            expected="one length per axis in each",
        )


def whole_chunks(chunks: Shape, shape: Shape, name: str) -> Shape:
    """Chunk lengths of at least 1: where an axis is empty, 0 means no chunk just as 1 does.

    MetadataError for a length of 0 along an axis that is not empty, and for another number of axes.
    """
    require_same_axes(chunks, shape, name)
    result = tuple(c or (n == 0) * 1 for n, c in zip(shape, chunks, strict=True))
    if 0 in result:
        raise MetadataError("a chunk has length 0", found=excerpt(chunks), expected="lengths of 1 and more")
    return result

"""Shapes and chunk shapes in metadata documents: validation and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.json_text import JSON, excerpt

from .problems import attempt, refusal

Shape: TypeAlias = tuple[int, ...]

MAX_AXES: Final = 32
"""numpy 1's limit, and that of every writer of the formats here."""
MAX_ELEMENTS: Final = 2**63 - 1
"""Linear indexes are 64 bits wide, here and in numpy."""


def read_lengths(value: JSON, name: str, *, least: int = 0, most: int = MAX_ELEMENTS) -> Shape:
    """Validate a list of integers from `least`, whose product, ignoring zeros, is at most `most`.

    `name` is the member's name in the document. MetadataError for anything else, including true for 1 and 2.0
    for 2.
    """
    if not isinstance(value, list) or not all(type(n) is int and n >= least for n in value):
        raise MetadataError(
            f"{name} is not a list of lengths",
            found=excerpt(value),
            expected=f"a list of whole numbers from {least} upwards",
        )
    if len(value) > MAX_AXES:
        raise MetadataError(
            f"{name} has too many axes", found=str(len(value)), expected=f"{MAX_AXES} at most"
        )
    # A length of 0 makes the product 0, whatever the others are.
    if max(value, default=0) > most or math.prod(n or 1 for n in value) > most:
        raise MetadataError(f"{name} has too many elements", found=excerpt(value), expected=f"{most} at most")
    return tuple(value)


def lengths_of(
    document: Mapping[str, JSON],
    name: str,
    problems: list[Problem],
    *,
    least: int = 0,
    most: int = MAX_ELEMENTS,
) -> Shape | None:
    """`read_lengths` for a member of a document; None if it is missing or invalid, with the problem added."""
    if name not in document:
        problems.append(refusal("metadata", f"{name} is missing"))
        return None
    return attempt(problems, lambda: read_lengths(document[name], name, least=least, most=most))


def require_same_axes(chunks: Shape, shape: Shape, name: str, *, whole: str = "shape") -> None:
    """Raise MetadataError unless there is one chunk length per axis."""
    if len(chunks) != len(shape):
        raise MetadataError(
            f"{name} has another number of axes than {whole}",
            found=f"{whole} {excerpt(shape)}, {name} {excerpt(chunks)}",
            expected="one length per axis in each",
        )


def whole_chunks(chunks: Shape, shape: Shape, name: str) -> Shape:
    """Replace chunk lengths of 0 along empty axes by 1; both mean that there is no chunk.

    MetadataError for a length of 0 along an axis that is not empty, and for another number of axes.
    """
    require_same_axes(chunks, shape, name)
    result = tuple(c or (n == 0) * 1 for n, c in zip(shape, chunks, strict=True))
    if 0 in result:
        raise MetadataError("a chunk has length 0", found=excerpt(chunks), expected="lengths of 1 and more")
    return result

"""The output of `zarrlift digest`: a digest for each array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..jobs.units import count_text, node_text, safe, shape_text
from . import blocks as b

if TYPE_CHECKING:
    from ..core.digest.value_digest import ArrayDigest
    from ..verification.digest_report import ArchiveDigest

_ARRAYS: Final = 200
"""Maximum number of rows; further arrays are only counted."""
_DIGESTS: Final = (
    b.Column(title="array"),
    b.Column(title="shape", spare=2),
    b.Column(title="data type", wraps=True, spare=1),
    b.Column(title="digest"),
)


def digest_blocks(digests: ArchiveDigest) -> Iterator[b.Block]:
    """The digests, and why some arrays have none."""
    yield b.Title(f"{safe(digests.url)} ({digests.format})")
    arrays = list(digests.arrays.items())
    yield b.Table(columns=_DIGESTS, items=arrays, row=_digest_row, most=_ARRAYS, what="array")
    yield b.Section()
    yield b.Problems.of(digests.problems, "no digest")


def digest_brief(digests: ArchiveDigest) -> Iterator[str]:
    """One line if some arrays have no digest."""
    if digests.problems:
        yield f"{count_text(len(digests.problems), 'problem')}: some arrays have no digest."


def _digest_row(array: tuple[str, ArrayDigest]) -> tuple[str, ...]:
    path, digest = array
    return node_text(path), shape_text(digest.shape), _type_text(digest.data_type), digest.text


def _type_text(data_type: object) -> str:
    return safe(data_type["name"] if isinstance(data_type, dict) else str(data_type))

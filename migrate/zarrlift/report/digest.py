"""The output of `zarrlift digest`: a digest for each array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..jobs.units import count_text, node_text, safe, shape_text
from . import problems as report_problems
from .table import Column

if TYPE_CHECKING:
    from ..core.digest.value_digest import ArrayDigest
    from ..verification.digest_report import ArchiveDigest
    from .page import Page

_ARRAYS: Final = 200
"""Maximum number of rows; further arrays are only counted."""
_COLUMNS: Final = (
    Column(title="array"),
    Column(title="shape", spare=2),
    Column(title="data type", wraps=True, spare=1),
    Column(title="digest"),
)


def lines(digests: ArchiveDigest, page: Page) -> Iterator[str]:
    """The digests, and why some arrays have none."""
    yield from page.paragraph(f"{safe(digests.url)} ({digests.format})", hang=2, tone="title")
    arrays = list(digests.arrays.items())
    yield from page.listing(_COLUMNS, arrays, _row, most=_ARRAYS, what="array")
    yield from page.apart(report_problems.lines(digests.problems, page, refusal="no digest"))


def brief(digests: ArchiveDigest) -> Iterator[str]:
    """One line if some arrays have no digest."""
    if digests.problems:
        yield f"{count_text(len(digests.problems), 'problem')}: some arrays have no digest."


def _row(array: tuple[str, ArrayDigest]) -> tuple[str, ...]:
    path, digest = array
    return node_text(path), shape_text(digest.shape), _type_text(digest.data_type), digest.text


def _type_text(data_type: object) -> str:
    return safe(data_type["name"] if isinstance(data_type, dict) else str(data_type))

"""Divides the archives of a batch between parts, by their bytes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from zarrstack.core.errors import UsageError

from .batch_file import BatchFile
from .rows import BatchRow

_PER_ARCHIVE = 1 << 20
"""Bytes that are moved in the time that an archive takes in addition to its bytes."""


def split(rows: Sequence[BatchRow], parts: int) -> list[BatchRow]:
    """The rows with their parts: the largest first, each to the part that has the least.

    An archive is not divided: one that is larger than its share makes its part longer than the others.
    """
    if parts < 1:
        raise UsageError("a batch has at least one part", found=str(parts))
    loads = [(0, part) for part in range(parts)]
    chosen: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (-row.bytes_in, row.number)):
        load, part = loads[0]
        heapq.heapreplace(loads, (load + row.bytes_in + _PER_ARCHIVE, part))
        chosen[row.number] = part
    return [replace(row, part=chosen[row.number]) for row in rows]


def require_part(file: BatchFile, index: int) -> None:
    """Raise UsageError unless the batch has that part."""
    parts = file.fact("parts")
    if parts is None:
        raise UsageError("this batch has no parts", found=str(file.path), advice="Plan it with --parts.")
    if not 0 <= index < int(parts):
        expected = f"0 to {int(parts) - 1}"
        raise UsageError("this batch has no such part", found=str(index), expected=expected)

"""Adds advice to the problem of a chunk that cannot be decoded, from more than the chunk's bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from zarrstack.core.errors import ChunkError, Problem, StorageError, UnsupportedError, ZarrstackError

from ..archive.decoder import object_bound, object_decoder
from ..archive.nodes import Layout
from ..core.data_types.v3 import DataType
from ..core.git_pointers import LOOKED_AT, pointer
from ..core.grid.frames import N5Blocks
from ..core.n5.blocks import has_shard_index
from ..storage.base import Storage

_RESTORE: Final = "Restore the chunk from a backup and resume, or exclude the array with --exclude."
_AGAIN: Final = (
    "It may have been truncated in transfer: resume reads it again. If that fails, restore the chunk from a "
    "backup and resume, or exclude the array with --exclude."
)
_CHARACTERS: Final = (
    "The chunk has one byte per character, as written by netcdf-c 4.9.0 for <U1: set dtype to |S1 in "
    ".zarray, and migrate again."
)
_CHARACTER: Final = DataType.from_numpy(np.dtype("S1"))
_ENDS: Final = 256 << 10
"""Bytes at each end of an object in which the index of a shard is looked for."""
_UCS4: Final = 4
"""Bytes of a character in `<U1`."""


def with_advice(problem: Problem, source: Storage, layout: Layout) -> Problem:
    """The problem of a failed array, with advice if it concerns a chunk of the source."""
    explanation = explain_pointer(problem, source)
    if explanation.kind != "chunk" or explanation.advice is not None:
        return explanation
    if isinstance(layout.frame, N5Blocks) and explanation.key is not None:
        shard = _shard(explanation.key, source)
        if shard is not None:
            return shard.at(node=explanation.node, key=explanation.key).problem
    if _of_bytes(explanation.key, source, layout):
        return replace(explanation, advice=_CHARACTERS)
    return replace(explanation, advice=_RESTORE if source.requests is None else _AGAIN)


def shard_at(key: str, source: Storage) -> UnsupportedError | None:
    """The error for an object that is a shard, not an N5 block; else None. Raises StorageError."""
    size = source.size(key)
    if size is None:
        return None
    head, tail = (source.get_part(key, start, _ENDS) or b"" for start in (0, max(size - _ENDS, 0)))
    if not has_shard_index(head, tail, size):
        return None
    return UnsupportedError(
        "shards are stored in the place of N5 blocks, and attributes.json does not state their shape",
        found="the index of a shard, as Java's n5 4.0 writes it",
        expected="blocks",
        advice="Copy the dataset with the Java program that wrote it and its DatasetAttributes to one "
        "without shards: docs/howto/n5.md, Shards. Or leave it out with --exclude.",
    )


def _shard(key: str, source: Storage) -> UnsupportedError | None:
    try:
        return shard_at(key, source)
    except StorageError:
        return None


def _of_bytes(key: str | None, source: Storage, layout: Layout) -> bool:
    """Whether an object that is not a `<U1` chunk is one of single-byte characters."""
    kind = layout.data_type
    if key is None or layout.frame is not None or kind.name != "fixed_length_utf32" or kind.itemsize != _UCS4:
        return False
    try:
        data = source.get(key, object_bound(layout))
        if data is None:
            return False
        object_decoder(replace(layout, data_type=_CHARACTER, fill_value="")).decode(data)
    except ZarrstackError:
        return False
    return True


def explain_pointer(problem: Problem, source: Storage) -> Problem:
    """The problem of a chunk, or the one of a Git LFS or git-annex pointer stored in its place."""
    if problem.kind != "chunk" or problem.key is None:
        return problem
    try:
        start = source.get_part(problem.key, 0, LOOKED_AT)
    except StorageError:
        return problem
    error = None if start is None else not_fetched(start)
    return problem if error is None else error.at(node=problem.node, key=problem.key).problem


def not_fetched(data: bytes) -> ChunkError | None:
    """The error for an object that is such a pointer; else None."""
    match = pointer(data)
    if match is None:
        return None
    return ChunkError(
        f"{match.what} is stored in the place of a chunk",
        found=match.found,
        expected="the chunk itself",
        advice=match.advice,
    )

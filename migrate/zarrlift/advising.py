"""What to do about a chunk that does not decode; whoever decoded it knew no more than its bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zarrstack.core.errors import ChunkError, Problem, StorageError
from zarrstack.core.pointers import LOOKED_AT, pointer

from .storage import Storage

_RESTORE: Final = "Restore the chunk from a backup and resume, or leave the array out with --exclude."


def advised(problem: Problem, source: Storage) -> Problem:
    """The problem of an array that failed, with what to do if it is a chunk of the source."""
    told = pointed_out(problem, source)
    if told.kind != "chunk" or told.advice is not None:
        return told
    return replace(told, advice=_RESTORE)


def pointed_out(problem: Problem, source: Storage) -> Problem:
    """The problem of a chunk, or, where a pointer of Git LFS or git-annex stands in its place, that."""
    if problem.kind != "chunk" or problem.key is None:
        return problem
    try:
        start = source.get_part(problem.key, 0, LOOKED_AT)
    except StorageError:
        return problem
    told = None if start is None else not_fetched(start)
    return problem if told is None else told.at(node=problem.node, key=problem.key).problem


def not_fetched(data: bytes) -> ChunkError | None:
    """The error that says so, where an object is such a pointer."""
    found = pointer(data)
    if found is None:
        return None
    return ChunkError(
        f"{found.what} stands in the place of a chunk",
        found=found.found,
        expected="the chunk itself",
        advice=found.advice,
    )

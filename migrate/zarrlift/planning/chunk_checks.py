"""Checks of chunks during planning: of their listing and of some of them; advice on those that are damaged.

Arrays of objects become text only if every value is a str, which only a chunk can show. Chunks larger than
this machine's memory can be neither decoded nor verified. Both are reported in the plan rather than in the
middle of a run.

A copy omits bytes behind the end that a chunk's header states (`Pipeline.check_whole`); in place they remain,
and some readers refuse such a chunk. Writers that leave them do so in every chunk of an archive, so the first
one of the first arrays shows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from zarrstack.core.errors import (
    CastError,
    ChunkError,
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    ZarrstackError,
)
from zarrstack.system.this import system

from ..archive.chunk_inventory import Inventory
from ..archive.chunk_reader import MissingObject, object_bound
from ..archive.nodes import ArrayNode, Layout
from ..archive.shard_reader import chunk_reader
from ..core.codec_table import require_facts, role_of
from ..core.codecs.blosc import HEADER_BYTES, trailing_bytes
from ..core.codecs.pipeline import Pipeline
from ..core.data_types.object_values import to_strings
from ..core.data_types.v3 import DataType
from ..core.git_pointers import LOOKED_AT, pointer
from ..core.grid.frames import N5Blocks, Shards
from ..core.n5.blocks import has_shard_index
from ..core.problems import note, refusal
from ..formats.tree.directory import unfollowed_link
from ..storage.base import Storage

_MAX_NAMED: Final = 20
_TOO_LARGE: Final = "Restore it from a backup, or exclude the array with --exclude."
_COPIES: Final = 4
"""Maximum number of copies of a chunk in memory: decoded, encoded and read back, in two threads."""
_OBJECT_BYTES: Final = 64
"""Minimum memory in bytes of one str or bytes (CPython 3.11: 49 and 33, and the reference)."""
_ALWAYS: Final = 256 << 20
"""Size of a chunk in bytes that is always accepted."""
_TAKEN_FOR: Final = 8 << 30
"""Assumed memory in bytes of a machine that does not provide it."""
_TRIED: Final = {True: 4, False: 256}
"""Number of arrays that are checked if none has such bytes; few where each takes a request."""
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


def document_key(node: ArrayNode) -> str | None:
    """The key of the array's own document, which refusals concern: the first of its documents."""
    return node.documents[0].key if node.documents else None


def number_as_text_problems(node: ArrayNode, source: Layout, inventory: Inventory) -> list[Problem]:
    """A refusal if the values of missing chunks depend on what a fill value that is not text means."""
    missing = source.objects.total - len(inventory.indexes)
    if not missing:
        return []
    text = str(node.number_as_text)
    fill, readers = ("0", "zarr-python 2.18") if text == "0" else ("NaN", "some versions of zarr-python")
    ambiguous = f"the fill value {fill} of text is ambiguous, and"
    return [
        Problem(
            kind="fill",
            node=node.path,
            key=document_key(node),
            message=f"{ambiguous} is the value of {missing} missing chunks"
            if inventory.certain
            else f"{ambiguous} missing chunks cannot be told from others here",
            found=f"{fill}: the text '{text}' ({readers}), or no text (other readers)",
            expected=f'"" or the text "{text}"; zarr-python 3 rejects {fill}',
            advice="Decide with --set zero-fill=text or --set zero-fill=empty, for all or in a recipe.",
        )
    ]


def listing_problems(node: ArrayNode, source: Layout, inventory: Inventory) -> list[Problem]:
    """What the listing of an array's chunks shows: missing ones, and what is not a chunk."""
    problems = []
    if node.fill_is_null and inventory.certain:
        missing = source.objects.total - len(inventory.indexes)
        if missing:
            problems.append(
                note(
                    "fill-null",
                    f"fill_value null becomes {source.fill_value!r}, the value of {missing} missing chunks",
                    node=node.path,
                )
            )
    if inventory.unclaimed_count:
        names = ", ".join(repr(name) for name in inventory.unclaimed)
        more = "" if inventory.unclaimed_count == len(inventory.unclaimed) else ", ..."
        problems.append(
            note(
                "stray",
                "objects of no chunk are not copied",
                node=node.path,
                found=f"{inventory.unclaimed_count}: {names}{more}",
            )
        )
    for key, target in inventory.bad_links:
        problems.append(unfollowed_link(node.path, key, target))
    for key, what in inventory.no_files:
        problems.append(
            refusal(
                "chunk",
                "an entry in the place of a chunk is not a file",
                node=node.path,
                key=key,
                found=what,
                expected="a regular file, or nothing",
                advice="Restore the chunk, remove the entry, or exclude the array.",
            )
        )
    return problems


def object_problem(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal if the first chunk of an array of objects contains anything except str.

    An unreadable or undecodable chunk is reported by the run.
    """
    codec = source.chain.codecs[source.chain.middle].name
    if require_facts(codec).objects != "document" or not len(inventory.indexes):
        return None
    first = int(inventory.indexes[0])
    reader = chunk_reader(storage, path, source)
    try:
        for _, values in reader.decoded(first):
            if values is not None:
                to_strings(values, "refuse")
    except CastError as error:
        return error.at(node=path, key=reader.key(first)).problem
    except (MissingObject, ZarrstackError, MemoryError):
        return None
    return None


def fit_problem(source: Layout) -> Problem | None:
    """A refusal of chunks if the codecs cannot have encoded any of the chunk shape."""
    if not any(role_of(codec.name) == "filter" for codec in source.chain.codecs):
        return None
    try:
        Pipeline(source.chain, source.chunk_shape, source.data_type)
    except MetadataError as error:
        advice = "Correct the codec or the chunk shape, or exclude the array with --exclude."
        return replace(error.problem, advice=advice)
    except ZarrstackError:  # such as pickles, which are reported elsewhere
        return None
    return None


def exact_size(source: Layout) -> int | None:
    """The size in bytes of every stored chunk, if the codecs encode each to the same size."""
    if source.frame is not None:
        return None
    try:
        size = Pipeline(source.chain, source.chunk_shape, source.data_type).sizes[-1]
    except ZarrstackError:  # reported elsewhere
        return None
    return size.at_most if size.exact else None


def damage_problem(
    path: str, storage: Storage, source: Layout, inventory: Inventory, size: int | None
) -> Problem | None:
    """The problem of the first chunk, if none has `size`, which all should have, and it cannot be decoded.

    If only some have another size, the run reports them. Listed sizes alone prove nothing: a store may serve
    decompressed what it holds compressed.
    """
    sizes = inventory.sizes
    if size is None or sizes is None or sizes[0] == size or (sizes == size).any():
        return None
    first = int(inventory.indexes[0])
    reader = chunk_reader(storage, path, source)
    try:
        list(reader.decoded(first))
    except ChunkError as error:
        problem = error.at(node=path, key=reader.key(first)).problem
        if len(inventory.indexes) > 1:
            more = "no chunk of this array has the size that follows from its metadata"
            problem = replace(problem, message=f"{problem.message}; {more}")
        return with_advice(problem, storage, source)
    except (MissingObject, ZarrstackError, MemoryError):  # reported by the run
        return None
    return None


def size_problems(source: Layout, inventory: Inventory, decoded_bytes: int) -> Iterator[tuple[str, Problem]]:
    """(name below the array's prefix, refusal) of the first objects larger than a chunk can be.

    `decoded_bytes` is the size of a decoded object; no codec's limit is below it.
    """
    total, sizes = inventory.total_bytes, inventory.sizes
    if total is None or sizes is None or total <= decoded_bytes or int(sizes.max()) <= decoded_bytes:
        return
    bound = object_bound(source)
    for place in np.flatnonzero(sizes > bound.most)[:_MAX_NAMED].tolist():
        name = source.keys.key(source.objects.coordinates(int(inventory.indexes[place])))
        yield name, replace(bound.too_large(f"{sizes[place]} bytes").problem, advice=_TOO_LARGE)


def memory_problem(source: Layout) -> Problem | None:
    """A refusal of chunks whose decompressed size exceeds this machine's memory."""
    size = prod(source.object_shape) * (source.data_type.itemsize or _OBJECT_BYTES)
    if isinstance(source.frame, Shards):
        size = max(size, source.frame.index.size(source.frame.chunks_per_shard))
    if size <= _ALWAYS:
        return None
    room = machine_memory()
    if size * _COPIES <= room:
        return None
    return refusal(
        "memory",
        "a chunk is too large for the memory of this machine",
        found=f"chunks of {size} bytes",
        expected=f"at most {room // _COPIES} bytes",
        advice="If the chunk shape is right, migrate on a machine with more memory.",
    )


def machine_memory() -> int:
    """Memory available to a process in bytes: the machine's, or its control group's if less."""
    limits = [system.memory() or _TAKEN_FOR]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(name, encoding="ascii") as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):  # no such control group, or "max"
            continue
    return min(limits)


class TrailingBytes:
    """Looks for trailing bytes in the arrays of one archive."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._tried = self._left = _TRIED[storage.requests is not None]
        """Number of arrays that may still be checked."""

    def problem(self, path: str, source: Layout, inventory: Inventory, *, stay: bool) -> Problem | None:
        """A note on trailing bytes in the first chunk, which tensorstore 0.1.86 and zarrs 0.2.3 refuse."""
        if self._left <= 0 or source.chain.codecs[-1].name != "blosc" or source.frame is not None:
            return None
        key = source.key(path, source.objects.coordinates(int(inventory.indexes[0])))
        self._left -= 1
        try:
            count = self._count(source, inventory, key)
        except ZarrstackError:  # reported by the move
            return None
        if not count:
            return None
        self._left = self._tried
        found = f"{count} byte{'s' * (count > 1)} in the first chunk"
        if not stay:
            message = "chunks have bytes behind the end that their header states, which are not copied"
            return note("trailing-bytes", message, node=path, key=key, found=found)
        return note(
            "trailing-bytes",
            "chunks have bytes behind the end that their header states, which stay: "
            "tensorstore and zarrs refuse such chunks",
            node=path,
            key=key,
            found=found,
            advice="A migration to a new destination omits them.",
        )

    def _count(self, source: Layout, inventory: Inventory, key: str) -> int:
        """The number of trailing bytes of the first chunk."""
        head = self._storage.get_part(key, 0, HEADER_BYTES)
        size = self._storage.size(key) if inventory.sizes is None else int(inventory.sizes[0])
        return 0 if head is None or size is None else trailing_bytes(head, size)


def with_advice(problem: Problem, source: Storage, layout: Layout) -> Problem:
    """The problem of a failed array, with advice if it concerns a chunk of the source."""
    explanation = explain_pointer(problem, source)
    if explanation.kind != "chunk" or explanation.advice is not None:
        return explanation
    if isinstance(layout.frame, N5Blocks) and explanation.key is not None:
        with contextlib.suppress(StorageError):
            if (shard := shard_at(explanation.key, source)) is not None:
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


def _of_bytes(key: str | None, source: Storage, layout: Layout) -> bool:
    """Whether an object that is not a `<U1` chunk is one of single-byte characters."""
    kind = layout.data_type
    if key is None or layout.frame is not None or kind.name != "fixed_length_utf32" or kind.itemsize != _UCS4:
        return False
    try:
        data = source.get(key, object_bound(layout))
        Pipeline(layout.chain, layout.chunk_shape, _CHARACTER).decode(b"" if data is None else data)
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

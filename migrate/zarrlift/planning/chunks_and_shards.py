"""Determines the grid and the names of a result's objects: inner chunks, shards, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final, TypeAlias

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem, Severity, UnsupportedError, UsageError
from zarrstack.core.shard_index import IndexFormat

from ..archive.nodes import Layout
from ..core.grid.chunk_keys import ChunkKeys, N5Keys
from ..core.grid.frames import Frame, Shards
from ..core.problems import note, warning
from ..core.units import bytes_text
from ..recipe.parsing import (
    ByName,
    EachAxis,
    Lengths,
    Shape,
    ShardRequest,
    ShardSize,
    is_by_size,
    lengths_text,
)
from ..recipe.recipe import ArrayRecipe

Names: TypeAlias = tuple[str | None, ...] | None
SMALLEST: Final = 64 << 20
LARGEST: Final = 1 << 30
"""Target size of a shard for `auto` in bytes: large enough that a file system or a bucket has few objects,
small enough to be copied, cached and rewritten as a unit.
"""
MAX_SHARDS: Final = 4096
"""Maximum number of shards in an array for `auto`, as far as `LARGEST` allows."""
MAX_INNER_CHUNKS: Final = 1 << 18
"""Maximum number of chunks in a shard for `auto`: a reader fetches the whole index, 4 MiB, for any of them.
"""


def with_grid(
    source: Layout, layout: Layout, recipe: ArrayRecipe, inner_chunk_bytes: float
) -> tuple[Layout, list[Problem]]:
    """The layout of a copy with the requested chunks, shards and keys.

    `inner_chunk_bytes` is the average stored size of an inner chunk in the source. An array with other axes
    than the recipe names is unchanged, with a warning.
    """
    problems: list[Problem] = []
    if recipe.chunks is not None and layout.shape:  # a scalar is a single chunk
        try:
            lengths = along_axes("--chunks", recipe.chunks, layout.dimension_names, layout.chunk_shape)
            layout = replace(layout, chunk_shape=chunk_shape(lengths, layout.shape))
        except UnsupportedError as error:
            problems.append(replace(error.problem, kind="grid", severity="warning"))
    frame = _frame(source, layout, recipe, inner_chunk_bytes, problems)
    if frame is None and not is_by_size(recipe.shards):
        problems.extend(_without_shards(recipe))
    keys = keys_for(source.keys, recipe, in_place=False)
    return replace(layout, keys=keys, frame=frame, root=None), problems


def along_axes(option: str, request: Lengths, dimension_names: Names, others: Shape) -> Shape:
    """The requested numbers along all axes of an array, `others` along those that a request by name omits.

    UnsupportedError for another number of axes, and for a name that none of the array's dimensions has.
    """
    ndim, names = len(others), dimension_names or ()
    advice = "Set it by path, in a recipe."
    if isinstance(request, ByName):
        numbers = dict(request.numbers)
        if missing := [name for name in numbers if name not in names]:
            raise UnsupportedError(
                f"{option} names a dimension that the array does not have",
                found=", ".join(missing),
                expected=", ".join(name or "(no name)" for name in names) or "numbers: no axis has a name",
                advice=advice,
            )
        return tuple(numbers.get(name or "", other) for name, other in zip(names, others, strict=True))
    if len(request) != ndim:
        unit = "length" if option == "--chunks" else "number"
        raise UnsupportedError(
            f"{option} and the array have different numbers of axes",
            found=lengths_text(request),
            expected=f"{ndim} {unit}{'' if ndim == 1 else 's'}",
            advice=advice if option == "--chunks" else "Use 4x, or auto, or set it by path, in a recipe.",
        )
    return request


def chunk_shape(lengths: Shape, shape: Shape) -> Shape:
    """The inner chunk shape for lengths along all axes, where -1 is a whole axis.

    A length larger than the array's is reduced to it, because it would only add padding.
    """
    return tuple(
        max(n, 1) if length == -1 else min(length, max(n, 1))
        for length, n in zip(lengths, shape, strict=True)
    )


def chunks_per_shard(
    request: ShardRequest, counts: Shape, inner_chunk_bytes: float, dimension_names: Names = None
) -> tuple[Shape | None, str]:
    """Chunks per shard requested by `--shards` (None: no shards), and the reason.

    `counts` are the array's chunks along each axis, `inner_chunk_bytes` the stored size of one of them.
    UnsupportedError as for `along_axes`.
    """
    if request == "none":
        return None, "no shards were requested"
    if request == "auto":
        return _auto(counts, inner_chunk_bytes)
    if isinstance(request, ShardSize):
        return _auto(counts, inner_chunk_bytes, request.nbytes, request.nbytes)
    if not counts:
        return None, "a scalar is a single chunk"
    if isinstance(request, EachAxis):
        return (request.chunks,) * len(counts), "as requested"
    return along_axes("--shards", request, dimension_names, (1,) * len(counts)), "as requested"


def _auto(
    counts: Shape, inner_chunk_bytes: float, smallest: int = SMALLEST, largest: int = LARGEST
) -> tuple[Shape | None, str]:
    """Double along the axis with the fewest chunks in a shard until shards are large and few enough."""
    if prod(counts) <= 1:
        return None, "the array is a single chunk"
    shard = [1] * len(counts)
    while True:
        size = prod(shard) * inner_chunk_bytes
        number = prod(-(-n // s) for n, s in zip(counts, shard, strict=True))
        wanted = size < smallest or number > MAX_SHARDS
        open_axes = [axis for axis, n in enumerate(counts) if shard[axis] < n]
        if not wanted or not open_axes or size * 2 > largest or prod(shard) * 2 > MAX_INNER_CHUNKS:
            break
        # On a tie, the last axis first: its chunks are consecutive in C order.
        axis = min(open_axes, key=lambda axis: (shard[axis], -axis))
        shard[axis] = min(shard[axis] * 2, counts[axis])
    if prod(shard) == 1:
        return None, f"chunks take {bytes_text(round(inner_chunk_bytes))} each already"
    return tuple(shard), f"about {bytes_text(round(prod(shard) * inner_chunk_bytes))} in each of {number}"


def _frame(
    source: Layout, layout: Layout, recipe: ArrayRecipe, inner_chunk_bytes: float, problems: list[Problem]
) -> Frame | None:
    """The shards of a copy, with the requested index; N5's headers are removed."""
    before = source.frame if isinstance(source.frame, Shards) else None
    if _unhashable(layout) and (before is not None or recipe.shards not in (None, "none")):
        message = (
            "no shards: zarr-python 3.1.6 cannot read shards of structs, raw bytes or times without a unit"
        )
        named = recipe.shards not in (None, "none", "auto")
        severity: Severity = "warning" if named else "note"
        problems.append(Problem(kind="grid", severity=severity, message=message, found=str(layout.data_type)))
        return None
    if recipe.shards is None:
        if before is None:
            return None
        if layout.chunk_shape == source.chunk_shape:
            return Shards(before.chunks_per_shard, _index(before.index, recipe))
        # New chunk shape without requested shards: keep about the same number of values in a shard.
        counts = tuple(
            max(whole // inner_chunk, 1)
            for whole, inner_chunk in zip(source.object_shape, layout.chunk_shape, strict=True)
        )
        return Shards(counts, _index(before.index, recipe))
    stored = inner_chunk_bytes * prod(layout.chunk_shape) / max(prod(source.chunk_shape), 1)
    try:
        counts, names = layout.grid.counts, layout.dimension_names
        per_shard, why = chunks_per_shard(recipe.shards, counts, stored, names)
    except UnsupportedError as error:
        problems.append(replace(error.problem, kind="grid", severity="warning"))
        return None if before is None else Shards(before.chunks_per_shard, _index(before.index, recipe))
    if is_by_size(recipe.shards):
        words = "no shards" if per_shard is None else f"shards of {' x '.join(map(str, per_shard))} chunks"
        problems.append(note("grid", f"{words}: {why}"))
    return None if per_shard is None else Shards(per_shard, _index(IndexFormat(), recipe))


def _without_shards(recipe: ArrayRecipe) -> Iterator[Problem]:
    """A warning for options of shards that an array without shards does not take."""
    flags = [
        option
        for option, value in (
            ("--set shard-index", recipe.shard_index),
            ("--set shard-index-location", recipe.shard_index_location),
        )
        if value is not None
    ]
    if flags:
        message = f"no effect of {' and '.join(flags)}: the array has no shards"
        yield warning("grid", message)


def _unhashable(layout: Layout) -> bool:
    """Whether zarr-python 3.1.6, which hashes the fill value, cannot read shards of an array.

    The errors are "unhashable type: 'writeable void-scalar'", "Can't hash generic timedelta64".
    """
    dtype = layout.data_type.numpy
    return dtype.kind == "V" or (dtype.kind == "m" and np.datetime_data(dtype)[0] == "generic")


def _index(form: IndexFormat, recipe: ArrayRecipe) -> IndexFormat:
    if recipe.shard_index is not None:
        form = replace(form, checksum=recipe.shard_index == "crc32c")
    if recipe.shard_index_location is not None:
        form = replace(form, location=recipe.shard_index_location)
    return form


def keys_for(source: ChunkKeys, recipe: ArrayRecipe, *, in_place: bool) -> KeyEncoding:
    """The chunk key encoding of a result; UsageError and UnsupportedError if keys would change in place."""
    if in_place:
        if isinstance(source, N5Keys) and source.axes == "kept":
            source = KeyEncoding("v2", "/")
        if not isinstance(source, KeyEncoding):
            raise UnsupportedError(
                "Zarr v3 has no encoding for these chunk keys",
                found=str(source),
                advice="Migrate to a new destination, or exclude the array.",
            )
        if recipe.separator not in (None, source.separator):
            raise UsageError(
                "chunk keys cannot change in place",
                found=f"--set separator={recipe.separator}",
                expected=f"{source.separator!r}, as stored",
                advice="Migrate to a new destination, or omit the option.",
            )
        return source
    name = recipe.key_encoding or "default"
    return KeyEncoding(name, recipe.separator or ("/" if name == "default" else "."))

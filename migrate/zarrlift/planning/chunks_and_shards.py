"""Determines the grid and the names of a result's objects: inner chunks, shards, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem, Severity, UnsupportedError, UsageError
from zarrstack.core.shard_index import IndexFormat

from ..archive.nodes import Layout
from ..core.grid.chunk_keys import ChunkKeys
from ..core.grid.chunk_keys_n5 import N5Keys
from ..core.grid.frames import Frame, Shards
from ..core.problems import note, warning
from ..recipe.grid import Shape, chunk_shape, chunks_per_shard
from ..recipe.recipe import ArrayRecipe


def with_grid(
    source: Layout, layout: Layout, recipe: ArrayRecipe, inner_chunk_bytes: float
) -> tuple[Layout, list[Problem]]:
    """The layout of a copy with the requested chunks, shards and keys.

    `inner_chunk_bytes` is the average stored size of an inner chunk in the source. An array with another
    number of axes than the recipe names is unchanged, with a warning.
    """
    problems: list[Problem] = []
    if recipe.chunks is not None and (shape := _chunks(recipe.chunks, layout.shape, problems)):
        layout = replace(layout, chunk_shape=shape)
    frame = _frame(source, layout, recipe, inner_chunk_bytes, problems)
    if frame is None and recipe.shards != "auto":
        problems.extend(_without_shards(recipe))
    keys = keys_for(source.keys, recipe, in_place=False)
    return replace(layout, keys=keys, frame=frame, root=None), problems


def _chunks(lengths: Shape, shape: Shape, problems: list[Problem]) -> Shape | None:
    """The requested chunk shape; None, with a warning, if it is for arrays with another number of axes."""
    try:
        return chunk_shape(lengths, shape)
    except UnsupportedError as error:
        problems.append(replace(error.problem, kind="grid", severity="warning"))
        return None


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
        per_shard, why = chunks_per_shard(recipe.shards, layout.grid.counts, stored)
    except UnsupportedError as error:
        problems.append(replace(error.problem, kind="grid", severity="warning"))
        return None if before is None else Shards(before.chunks_per_shard, _index(before.index, recipe))
    if recipe.shards == "auto":
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

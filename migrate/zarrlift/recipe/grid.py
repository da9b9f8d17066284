"""Parses `--chunks` and `--shards` and applies them to an array."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal, TypeAlias

from zarrstack.core.errors import UnsupportedError, UsageError
from zarrstack.core.units import bytes_text

Shape: TypeAlias = tuple[int, ...]

_LENGTHS: Final = re.compile(r"-?[0-9]{1,18}( *, *-?[0-9]{1,18})*")
_TIMES: Final = re.compile(r"([1-9][0-9]{0,8})x")

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


@dataclass(frozen=True, slots=True)
class EachAxis:
    """The same number of chunks per shard along each axis, such as 4x."""

    chunks: int


ShardRequest: TypeAlias = Literal["auto", "none"] | EachAxis | Shape


def parse_chunks(value: str | Sequence[int] | None) -> Shape | None:
    """The lengths in `--chunks`, such as 64,64,64, where -1 is a whole axis; raises UsageError."""
    if value is None:
        return None
    lengths = _lengths(value)
    if not lengths or not all(n > 0 or n == -1 for n in lengths):
        raise UsageError(
            "--chunks takes lengths", found=repr(value), expected="such as 64,64,64; -1 is the whole axis"
        )
    return lengths


def parse_shards(value: str | ShardRequest | Sequence[int] | None) -> ShardRequest | None:
    """The request in `--shards`: auto, none, such as 8,8,8, or such as 4x; raises UsageError."""
    if value is None or isinstance(value, EachAxis):
        return value
    if value == "auto":
        return "auto"
    if value == "none":
        return "none"
    if isinstance(value, str) and (times := _TIMES.fullmatch(value)):
        return EachAxis(int(times[1]))
    counts = _lengths(value)
    if not counts or any(n < 1 for n in counts):
        raise UsageError(
            "--shards takes chunks per shard",
            found=repr(value),
            expected="auto, none, such as 8,8,8, or such as 4x (along each axis)",
        )
    return counts


def shards_text(request: ShardRequest) -> str:
    """Inverse of `parse_shards`."""
    if isinstance(request, str):
        return request
    return f"{request.chunks}x" if isinstance(request, EachAxis) else lengths_text(request)


def lengths_text(lengths: Shape) -> str:
    """Inverse of `parse_chunks`."""
    return ",".join(map(str, lengths))


def chunk_shape(lengths: Shape, shape: Shape) -> Shape:
    """The inner chunk shape requested by `--chunks`; UnsupportedError for another number of axes.

    A length larger than the array's is reduced to it, because it would only add padding.
    """
    if not shape:
        return ()  # a scalar is a single chunk
    _require_axes("--chunks", lengths, shape, unit="length", advice="Set it by path, in a recipe.")
    return tuple(
        max(n, 1) if length == -1 else min(length, max(n, 1))
        for length, n in zip(lengths, shape, strict=True)
    )


def chunks_per_shard(
    request: ShardRequest, counts: Shape, inner_chunk_bytes: float
) -> tuple[Shape | None, str]:
    """Chunks per shard requested by `--shards` (None: no shards), and the reason.

    `counts` are the array's chunks along each axis, `inner_chunk_bytes` the stored size of one of them.
    UnsupportedError for another number of axes.
    """
    if request == "none":
        return None, "no shards were requested"
    if request == "auto":
        return _auto(counts, inner_chunk_bytes)
    if not counts:
        return None, "a scalar is a single chunk"
    if isinstance(request, EachAxis):
        return (request.chunks,) * len(counts), "as requested"
    advice = "Use 4x, or auto, or set it by path, in a recipe."
    _require_axes("--shards", request, counts, unit="number", advice=advice)
    return request, "as requested"


def _require_axes(option: str, numbers: Shape, axes: Shape, *, unit: str, advice: str) -> None:
    if len(numbers) != len(axes):
        raise UnsupportedError(
            f"{option} and the array have different numbers of axes",
            found=lengths_text(numbers),
            expected=f"{len(axes)} {unit}{'' if len(axes) == 1 else 's'}",
            advice=advice,
        )


def _auto(counts: Shape, inner_chunk_bytes: float) -> tuple[Shape | None, str]:
    """Double along the axis with the fewest chunks in a shard until shards are large and few enough."""
    if prod(counts) <= 1:
        return None, "the array is a single chunk"
    shard = [1] * len(counts)
    while True:
        size = prod(shard) * inner_chunk_bytes
        number = prod(-(-n // s) for n, s in zip(counts, shard, strict=True))
        wanted = size < SMALLEST or number > MAX_SHARDS
        open_axes = [axis for axis, n in enumerate(counts) if shard[axis] < n]
        if not wanted or not open_axes or size * 2 > LARGEST or prod(shard) * 2 > MAX_INNER_CHUNKS:
            break
        # On a tie, the last axis first: its chunks are consecutive in C order.
        axis = min(open_axes, key=lambda axis: (shard[axis], -axis))
        shard[axis] = min(shard[axis] * 2, counts[axis])
    if prod(shard) == 1:
        return None, f"chunks take {bytes_text(round(inner_chunk_bytes))} each already"
    return tuple(shard), f"about {bytes_text(round(prod(shard) * inner_chunk_bytes))} in each of {number}"


def _lengths(value: object) -> Shape:
    """The integers in a text or a sequence; empty if it contains anything else."""
    if isinstance(value, str):
        return tuple(map(int, value.split(","))) if _LENGTHS.fullmatch(value) else ()
    if isinstance(value, Sequence) and all(type(n) is int for n in value):
        return tuple(value)
    return ()

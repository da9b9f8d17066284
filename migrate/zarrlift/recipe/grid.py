"""Parses `--chunks` and `--shards`, and applies them to an array."""

from __future__ import annotations

import re
from math import prod
from typing import Final

from zarrstack.core.errors import UnsupportedError, UsageError

Shape = tuple[int, ...]

_LENGTHS: Final = re.compile(r"-?[0-9]{1,18}( *, *-?[0-9]{1,18})*")
_TIMES: Final = re.compile(r"([1-9][0-9]{0,8})x")

SMALLEST: Final = 64 << 20
LARGEST: Final = 1 << 30
"""Target size of a shard for `auto` in bytes: large enough that a file system or a bucket has few objects,
small enough to be copied, cached and rewritten as a unit.
"""
MOST_SHARDS: Final = 4096
"""Maximum number of shards in an array for `auto`, as far as `LARGEST` allows."""
MOST_LEAVES: Final = 1 << 18
"""Maximum number of chunks in a shard for `auto`: a reader fetches the whole index, 4 MiB, for any of them.
"""


def check_grid(chunks: str | None, shards: str | None) -> None:
    """Raise UsageError if either of the two is invalid for every array."""
    if chunks is not None and not (
        _LENGTHS.fullmatch(chunks) and all(n > 0 or n == -1 for n in _ints(chunks))
    ):
        raise UsageError(
            "--chunks takes lengths", found=repr(chunks), expected="such as 64,64,64; -1 is the whole axis"
        )
    if shards is None or shards in ("auto", "none") or _TIMES.fullmatch(shards):
        return
    if not _LENGTHS.fullmatch(shards) or any(n < 1 for n in _ints(shards)):
        raise UsageError(
            "--shards takes chunks per shard",
            found=repr(shards),
            expected="auto, none, such as 8,8,8, or such as 4x (along each axis)",
        )


def chunk_shape(text: str, shape: Shape) -> Shape:
    """The leaf shape requested by `--chunks`; UnsupportedError for another number of axes.

    A length larger than the array's is reduced to it, because it would only add padding.
    """
    lengths = _ints(text)
    if not shape:
        return ()  # a scalar is a single chunk
    if len(lengths) != len(shape):
        raise UnsupportedError(
            "--chunks names another number of axes than the array has",
            found=text,
            expected="1 length" if len(shape) == 1 else f"{len(shape)} lengths",
            advice="Say it by path, in a recipe.",
        )
    return tuple(
        max(n, 1) if length == -1 else min(length, max(n, 1))
        for length, n in zip(lengths, shape, strict=True)
    )


def chunks_per_shard(text: str, counts: Shape, leaf_bytes: float) -> tuple[Shape | None, str]:
    """Chunks per shard requested by `--shards` (None: no shards), and the reason.

    `counts` are the array's chunks along each axis, `leaf_bytes` the stored size of one of them.
    UnsupportedError for another number of axes.
    """
    if text == "none":
        return None, "no shards were asked for"
    if text == "auto":
        return _auto(counts, leaf_bytes)
    if not counts:
        return None, "a scalar is a single chunk"
    times = _TIMES.fullmatch(text)
    asked = (int(times[1]),) * len(counts) if times else _ints(text)
    if len(asked) != len(counts):
        raise UnsupportedError(
            "--shards names another number of axes than the array has",
            found=text,
            expected="1 number" if len(counts) == 1 else f"{len(counts)} numbers",
            advice="Use 4x, or auto, or say it by path, in a recipe.",
        )
    return asked, "as asked for"


def _auto(counts: Shape, leaf_bytes: float) -> tuple[Shape | None, str]:
    """Double along the axis with the fewest chunks in a shard until shards are large and few enough."""
    if prod(counts) <= 1:
        return None, "the array is a single chunk"
    shard = [1] * len(counts)
    while True:
        size = prod(shard) * leaf_bytes
        number = prod(-(-n // s) for n, s in zip(counts, shard, strict=True))
        wanted = size < SMALLEST or number > MOST_SHARDS
        open_axes = [axis for axis, n in enumerate(counts) if shard[axis] < n]
        if not wanted or not open_axes or size * 2 > LARGEST or prod(shard) * 2 > MOST_LEAVES:
            break
        # On a tie, the last axis first: its chunks are consecutive in C order.
        axis = min(open_axes, key=lambda axis: (shard[axis], -axis))
        shard[axis] = min(shard[axis] * 2, counts[axis])
    if prod(shard) == 1:
        return None, f"chunks take {_size(leaf_bytes)} each already"
    return tuple(shard), f"about {_size(prod(shard) * leaf_bytes)} in each of {number}"


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _ints(text: str) -> Shape:
    return tuple(int(part) for part in text.split(","))

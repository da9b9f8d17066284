"""Selects the chunks of a job that are read again before its arrays are published."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..archive.nodes import Layout
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import touched, touching
from ..transfer.tasks import rewritten

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..core.grid.overlap import Region
    from ..planning.plans import ArrayPlan

MAX_INNER_CHUNKS: Final = 64
"""Maximum number of inner chunks that a job reads again, apart from one for every further kind."""
MAX_BYTES: Final = 256 << 20
"""Maximum of decoded bytes that a job reads again, with the same exception."""
SAMPLED: Final = 5
"""Number of random chunks in a sample of a comparison, besides the first, the last and an edge chunk."""
_RANDOM_PER_KIND: Final = 3
_FOLLOWERS: Final = 16
"""Number of arrays of a kind already sampled from which one random inner chunk is taken."""
_TRIES: Final = 8
"""Number of chunks tried in the search for an edge chunk."""
_WHOLE_BYTES: Final = 32 << 20
"""Maximum of decoded bytes for a shard to be compared as a whole."""
_OF_SHARD: Final = 4
"""Number of inner chunks compared in a larger shard."""


class Sampler:
    """Selects the inner chunks that a job reads again; limited per job and deterministic for a job id.

    A *kind* is a route together with the codec chains, the data type and the memory order on both sides. If
    one inner chunk of a kind is correct, the others can differ only in their own bytes and location. The
    sample therefore takes the first, the last, an edge and a few random chunks of the first array of a kind,
    and a random chunk of later arrays within the limits. The same sequence of calls selects the same chunks.
    Thread-safe.
    """

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._lock = threading.Lock()
        self._kinds: dict[str, int] = {}
        self._inner_chunks = 0
        self._bytes = 0

    def choose(self, plan: ArrayPlan, present: npt.NDArray[np.int64]) -> tuple[int, ...]:
        """Linear indexes of chunks to compare, ascending; one of them may be missing in the source.

        `present` are the chunks in the source, ascending. A missing chunk is selected only if the source
        defines a fill value, as which it must then read.
        """
        rng = random.Random(f"{self._job_id}/{plan.path}")
        present, missing = _of_update(plan, present) if plan.changes is not None else (present, None)
        weight = read_bytes(plan)
        key = _kind(plan)
        with self._lock:
            seen = self._kinds.get(key, 0)
            self._kinds[key] = seen + 1
            room = min(MAX_INNER_CHUNKS - self._inner_chunks, (MAX_BYTES - self._bytes) // max(weight, 1))
            if seen == 0:
                chosen = first_samples(
                    plan.source.objects, present, rng, random_inner_chunks=_RANDOM_PER_KIND
                )
                if not plan.fill_is_null and missing is None:
                    chosen += a_missing_chunk(plan.source.objects, present, rng)
                elif not plan.fill_is_null and missing is not None and len(missing):
                    chosen.append(int(missing[rng.randrange(len(missing))]))
                chosen = chosen[: max(room, 1)]
            elif seen <= _FOLLOWERS and room > 0 and len(present):
                chosen = [int(present[rng.randrange(len(present))])]
            else:
                chosen = []
            self._inner_chunks += len(chosen)
            self._bytes += len(chosen) * weight
        return tuple(sorted(chosen))


def _of_update(plan: ArrayPlan, moved: Indexes) -> tuple[Indexes, Indexes]:
    """The source chunks that an update moved, and those missing whose objects it wrote again or deleted.

    Chunks that overlap other objects of the result are left out, because users may have changed those, which
    an update keeps; all moved ones remain if there would be none.
    """
    written, source, result = rewritten(plan), plan.source.objects, plan.destination.objects
    concerned = touched(written, result, source)
    others = np.setdiff1d(touched(concerned, source, result), written, assume_unique=True)
    inside = np.setdiff1d(concerned, touched(others, result, source), assume_unique=True)
    compared = np.intersect1d(moved, inside, assume_unique=True)
    missing = np.setdiff1d(inside, moved, assume_unique=True)
    return (compared if len(compared) else moved), missing


def _kind(plan: ArrayPlan) -> str:
    return repr(
        (
            plan.route.name,
            plan.source.chain,
            plan.destination.chain,
            plan.source.data_type,
            plan.destination.data_type,
            plan.source.keys,
            plan.destination.keys,
            plan.source.frame,
            plan.destination.frame,
        )
    )


def regions_of(layout: Layout, indexes: Sequence[int]) -> Iterator[Region]:
    """The regions to compare of the objects with these linear indexes: some inner chunks of a large shard."""
    objects, grid = layout.objects, layout.grid
    for place in map(objects.coordinates, indexes):
        if not isinstance(layout.frame, Shards) or object_bytes(layout) <= _WHOLE_BYTES:
            yield objects.region(place)
            continue
        numbers = touching(place, objects, grid)
        for number in np.unique(numbers[np.linspace(0, len(numbers) - 1, _OF_SHARD).astype(np.int64)]):
            yield grid.region(grid.coordinates(int(number)))


def object_bytes(layout: Layout) -> int:
    """Decoded bytes of one stored object; an estimate of 16 per element for variable length."""
    return prod(layout.object_shape) * (layout.data_type.itemsize or 16)


def read_bytes(plan: ArrayPlan) -> int:
    """Decoded bytes read to compare one source object: its own, or those of all objects it overlaps."""
    source, target = plan.source, plan.destination
    items = 1
    for length, chunk, inner_chunk in zip(source.shape, source.object_shape, target.chunk_shape, strict=True):
        reach = -(-min(chunk, max(length, 1)) // inner_chunk) + (chunk % inner_chunk != 0)
        items *= reach * inner_chunk
    return max(object_bytes(source), items * (target.data_type.itemsize or 16))


def first_samples(
    grid: Grid, present: npt.NDArray[Any], rng: random.Random, *, random_inner_chunks: int
) -> list[int]:
    """The first, the last, an edge chunk and some random ones of those present, the most telling first."""
    if len(present) == 0:
        return []
    chosen = [int(present[0]), int(present[-1])]
    chosen += _an_edge(grid, present, rng)
    chosen += [int(present[rng.randrange(len(present))]) for _ in range(random_inner_chunks)]
    return list(dict.fromkeys(chosen))


def unlisted(grid: Grid, rng: random.Random, *, full: bool) -> Indexes:
    """All chunks of an array without a listing; or the first, the last and some random ones."""
    if full:
        return np.arange(grid.total, dtype=np.int64)
    places = [0, grid.total - 1, *(rng.randrange(grid.total) for _ in range(SAMPLED))]
    return np.array(sorted(set(places)), dtype=np.int64)


def _an_edge(grid: Grid, present: npt.NDArray[Any], rng: random.Random) -> list[int]:
    """A chunk that extends past the array's end along one axis, if one is found cheaply."""
    axes = [axis for axis, (n, c) in enumerate(zip(grid.shape, grid.chunk_shape, strict=True)) if n % c]
    if not axes:
        return []
    axis = rng.choice(axes)
    for position in (present[-1], *(present[rng.randrange(len(present))] for _ in range(_TRIES))):
        coordinates = list(grid.coordinates(int(position)))
        coordinates[axis] = grid.counts[axis] - 1
        index = grid.index(tuple(coordinates))
        assert index is not None
        place = int(np.searchsorted(present, index))
        if place < len(present) and present[place] == index:
            return [index]
    return []


def a_missing_chunk(grid: Grid, present: npt.NDArray[Any], rng: random.Random) -> list[int]:
    """One chunk of the grid that is not present, if any."""
    missing = grid.total - len(present)
    if missing <= 0:
        return []
    # The k-th missing index: `present[i] - i` missing indexes precede present[i].
    k = rng.randrange(missing)
    before = present - np.arange(len(present))
    return [k + int(np.searchsorted(before, k, side="right"))]

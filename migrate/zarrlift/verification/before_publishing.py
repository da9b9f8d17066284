"""Compares an array with its source before it is published: some of its chunks, or every value."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..core.problems import refusal
from ..errors import WorkerError
from ..storage.giving_up import Threads
from .array_values import ArrayValues, ComparedArray
from .sampling import read_bytes, regions_of
from .sides import Compared

if TYPE_CHECKING:
    from ..planning.plans import ArrayPlan
    from ..storage.base import Storage
    from .elsewhere import Elsewhere

_MAX_THREADS: Final = 8
_SAMPLE_BYTES: Final = 8 << 20
"""Decoded bytes of a sample that are compared together, unless one object is larger."""
_AT_ONCE: Final = 2
"""Batches of a sample that are compared together: the workers have nothing left to do meanwhile."""
_MAX_PROBLEMS: Final = 999
"""Maximum number of problems per array; the comparison then stops."""


def compare_sample(
    plan: ArrayPlan, source: Storage, destination: Storage, indexes: Sequence[int]
) -> tuple[Problem, ...]:
    """Differences in the source's objects with these linear indexes; otherwise as `compare_all`."""
    if not indexes:
        return ()
    try:
        values = both_sides(plan, source, destination, sampled=True)
        step = max(_SAMPLE_BYTES // max(read_bytes(plan), 1), 1)
        regions = list(regions_of(plan.source, indexes))
        if len(regions) <= step:  # without a thread: most arrays are small
            return tuple(values.compare(regions).problems)
        batches = (regions[start : start + step] for start in range(0, len(regions), step))
        with Threads(_AT_ONCE, "zarrlift-sample") as pool:
            return tuple(
                problem for compared in pool.map(values.compare, batches) for problem in compared.problems
            )
    except ZarrstackError as error:
        return (error.at(node=plan.path).problem,)


def compare_all(
    plan: ArrayPlan,
    source: Storage,
    destination: Storage,
    *,
    budget: int,
    elsewhere: Elsewhere | None = None,
) -> tuple[Problem, ...]:
    """Differences between an array's source and everything written for it; empty if none.

    `plan.document` replaces the `zarr.json`, which is not written yet. Both sides are listed again. A stored
    object without any counterpart in the source is a difference, whatever its content. A missing chunk reads
    as the source's fill value, if that is defined. `budget` is the process's memory limit in bytes. An
    unreadable chunk on either side is a problem, not an exception. `elsewhere`: where values are compared, if
    not in threads; WorkerError if its workers are gone.
    """
    try:
        values = both_sides(plan, source, destination)
        problems: list[Problem] = []
        for compared in _compared(values, budget, elsewhere):
            problems += compared.problems
            if len(problems) >= _MAX_PROBLEMS:
                return (*problems[:_MAX_PROBLEMS], _enough(plan.path))
    except WorkerError:
        raise
    except ZarrstackError as error:
        return (error.at(node=plan.path).problem,)
    return tuple(problems)


def both_sides(
    plan: ArrayPlan, source: Storage, destination: Storage, *, sampled: bool = False
) -> ArrayValues:
    """An array's source and its written result, ready for comparison; ZarrstackError."""
    array = ComparedArray(
        path=plan.path,
        layout=plan.source,
        document=plan.document,
        values=plan.move.values,
        fill_is_null=plan.fill_is_null,
        stays_missing=True,
    )
    return ArrayValues(array, source, destination, sampled=sampled)


def _compared(values: ArrayValues, budget: int, elsewhere: Elsewhere | None) -> Iterator[Compared]:
    grid = values.grid
    wanted = np.arange(0, dtype=np.int64)
    if values.listed:
        stored, wanted = values.stored()
        surplus = np.setdiff1d(stored, wanted, assume_unique=True)[:_MAX_PROBLEMS]
        places = (grid.coordinates(index) for index in map(int, surplus))
        yield Compared([values.surplus(grid.region(place)) for place in places], 0, 0)
    elif grid.total:
        wanted = np.arange(grid.total, dtype=np.int64)
    if not len(wanted):
        return
    if elsewhere is not None:
        yield from elsewhere.whole(values, wanted)
        return
    with Threads(min(os.cpu_count() or 1, _MAX_THREADS), "zarrlift-check") as pool:
        yield from values.whole(wanted, budget=budget, pool=pool)


def _enough(path: str) -> Problem:
    return refusal(
        "verify-values", f"{_MAX_PROBLEMS} differences were found; the comparison stopped", node=path
    )

"""Compares every value of an array on an engine, whose workers open both sides themselves."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from zarrstack.core.errors import ZarrstackError

from ..errors import WorkerError
from ..storage.giving_up import Stop, Threads
from ..transfer.executors.dispatcher import Dispatcher, Ended, LostTaskError
from ..transfer.unexpected_errors import unexpected_error
from ..transfer.worker import WorkerSpec, both_ends, received, sent, stop_of
from .array_values import ArrayValues, ComparedArray
from .sides import Compared, Division

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..archive.chunk_inventory import Indexes
    from ..storage.base import Storage
    from ..transfer.executors.engine import Engine

_PORTION: Final = 256 << 20
"""Decoded bytes of one call, in regions that may be larger."""
_SHARES: Final = 4
"""Calls per slot for a small array, so that workers end together."""
_MOST_REGIONS: Final = 4096


class Elsewhere(NamedTuple):
    """Where to compare, and how workers reach both sides."""

    engine: Engine
    spec: WorkerSpec
    budget: int
    """Memory in bytes of one worker."""

    def whole(self, values: ArrayValues, wanted: Indexes) -> Iterator[Compared]:
        """Compare all objects of the result with these indexes, like `ArrayValues.whole`; in order.

        WorkerError if the workers are gone; a task that is lost with its workers is a problem.
        """
        division = values.divided(wanted, budget=self.budget, threads=1)
        step = self._portion(len(division.indexes), values.region_bytes(division))
        starts = range(0, len(division.indexes), step)
        parts = (division._replace(indexes=division.indexes[start : start + step]) for start in starts)
        done: dict[int, Compared] = {}
        following = 0
        for ended in self._ended(values.array, parts):
            try:
                done[ended.item] = ended.result()
            except LostTaskError as error:
                done[ended.item] = Compared([error.at(node=values.path).problem], 0, 0)
            while following in done:
                yield done.pop(following)
                following += 1

    def _ended(self, array: ComparedArray, portions: Iterator[Division]) -> Iterator[Ended[int]]:
        """Compare each portion on a worker; yields the calls as they end, by their numbers."""
        calls: Dispatcher[int] = Dispatcher(self.engine)
        common, numbered = sent(self.spec, array), enumerate(portions)
        left = True
        try:
            while left or calls:
                while left and calls.has_room():
                    following = next(numbered, None)
                    if following is None:
                        left = False
                    else:
                        calls.submit(following[0], compare_portion, *common, *sent(following[1])[1:])
                if calls:
                    yield from calls.ended()
        finally:
            calls.stop()

    def _portion(self, count: int, nbytes: int) -> int:
        """How many of `count` regions of `nbytes` decoded bytes one call has."""
        fitting = min(max(_PORTION // max(nbytes, 1), 1), _MOST_REGIONS)
        share = -(-count // (_SHARES * max(self.engine.slots(), 1)))
        return int(max(min(fitting, share), 1))


def compare_portion(version: str, array_and_spec: bytes, portion: bytes) -> Compared:
    """Compare some regions of an array in any process; unexpected errors are in the result."""
    values, stop = _values(version, array_and_spec)
    (division,) = received(version, portion)
    problems: list[Problem] = []
    regions = nbytes = 0
    try:
        with stop.heeded(), Threads(1, "zarrlift-compare") as pool:
            for compared in values.regions(division, pool):
                problems += compared.problems
                regions += compared.regions
                nbytes += compared.bytes
    except ZarrstackError:
        raise
    except KeyboardInterrupt:
        if stop.is_set():  # Dask's workers would end with it
            raise WorkerError("the run of this call was interrupted") from None
        raise
    except Exception as error:  # noqa: BLE001 - see `unexpected_error`
        problems.append(unexpected_error(values.path, error))
    return Compared(problems, regions, nbytes)


@functools.lru_cache(maxsize=8)
def _values(version: str, array_and_spec: bytes) -> tuple[ArrayValues, Stop]:
    spec, array = received(version, array_and_spec)
    return ArrayValues(array, *_ends(spec)), stop_of(spec.run)


@functools.lru_cache(maxsize=4)
def _ends(spec: WorkerSpec) -> tuple[Storage, Storage]:
    return both_ends(spec, write=False)

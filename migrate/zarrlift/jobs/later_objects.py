"""Tells which objects of a result others have written since the job published their array.

A job writes the document of an array after its objects, so objects with a later modification time are of
others. An update writes the document again; the job file records the objects that were later before. Stores
outside the local file system do not provide such an order: nothing in them counts as later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ..archive.chunk_inventory import Indexes
from ..planning.plans import ArrayPlan
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .ledger.ledger import Job
from .ledger.rows import NodeRow
from .update.differences import interrupted, with_earlier_shape


class LaterObjects:
    """Compares objects at a destination with the time at which their array was published."""

    def __init__(self, job: Job, source: Storage | None, destination: Storage) -> None:
        """`source` is that of the job, if it can be opened; files that both share are changed through it."""
        self._destination = destination if isinstance(destination, LocalStorage) else None
        linked = job.fact("link") == "hard" and isinstance(source, LocalStorage)
        self._source = source if linked else None
        self._recorded = job.others.all()

    def is_later(self, key: str, published_ns: int | None) -> bool:
        """Whether others have written an object since `published_ns`, in nanoseconds."""
        return published_ns is not None and self._later(key, published_ns) is not None

    def of_array(self, plan: ArrayPlan, row: NodeRow, places: Indexes) -> Iterator[tuple[str, bool]]:
        """(key, whether others have written it) of objects at positions in the destination's grid.

        Objects that interrupted updates were writing again are the job's.
        """
        own = np.zeros(len(places), dtype=np.bool_)
        if row.published_ns is None:
            own[:] = True
        elif row.state != "done" and plan.changes is not None:
            own = np.isin(with_earlier_shape(plan).objects.indices_of(places), interrupted(plan))
        for place, is_own in zip(map(tuple, places.tolist()), own.tolist(), strict=True):
            key = plan.destination.key(plan.path, place)
            if is_own or row.published_ns is None:
                yield key, False
                continue
            status = self._later(key, row.published_ns)
            yield key, status is not None and not self._shared(plan, place, status)

    def _later(self, key: str, published_ns: int) -> os.stat_result | None:
        if self._destination is None:
            return None
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(self._destination.path(key))
            if status.st_mtime_ns > published_ns or key in self._recorded:
                return status
        return None

    def _shared(self, plan: ArrayPlan, place: tuple[int, ...], status: os.stat_result) -> bool:
        """Whether an object is the source's own file, so that writing to that has changed it."""
        if not isinstance(self._source, LocalStorage) or plan.move.block_shape is not None:
            return False
        with suppress(OSError):
            return os.path.samestat(status, os.stat(self._source.path(plan.source.key(plan.path, place))))
        return False

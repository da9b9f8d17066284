"""What others have changed in a result, as far as an update would replace or remove it.

Stores are trusted, apart from their documents (`ours.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join, prefix_of

from ...archive.chunk_inventory import Indexes
from ...planning.plans import ArrayPlan, Plan, Planned, Published, Refusal
from ...storage.base import Storage
from ...transfer.tasks import rewritten
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow
from ..ours import OWN, OwnObjects, whose
from .differences import with_earlier_shape

_NAMED: Final = 3
"""Keys named for each node."""
_ADVICE: Final = "Update with --force to replace it, or migrate to another place."


class Conflicts:
    """Compares the result of a job with what the job knows of it."""

    def __init__(self, job: Job, plan: Plan, source: Storage, destination: Storage) -> None:
        self._job = job
        self._plan = plan
        self._rows = {row.path: row for row in job.nodes()}
        self._destination = destination
        self._objects = OwnObjects(job, source, destination)

    def in_the_way(self, new: Planned) -> Iterator[Problem]:
        """Objects that already exist where a new node will be written."""
        if self._plan.in_place:
            keys = [join(new.path, "zarr.json")]
            there = [
                key for key, content in zip(keys, self._destination.find_many(keys), strict=True) if content
            ]
        else:
            there = list(islice(self._destination.list_prefix(prefix_of(new.path)), 1))
        for key in there:
            yield _conflict(new.path, "others have put something where a new node comes", key)

    def of_document(self, row: NodeRow, earlier: Published) -> Iterator[Problem]:
        """A document that is not the job's."""
        key = join(row.path, "zarr.json")
        (content,) = self._destination.find_many([key])
        if content is None:
            own, message = row.state != "done", "others have removed its document"
        else:
            found, message = whose(self._job, earlier, content), "others have changed its document"
            own = found == "current" or (row.state != "done" and found in OWN)
        if not own:
            yield _conflict(row.path, message, key)

    def of_objects(self, row: NodeRow, earlier: ArrayPlan, plan: ArrayPlan) -> Iterator[Problem]:
        """Documents and objects of an array that is partly replaced."""
        yield from self.of_document(row, earlier)
        layout = plan.destination
        yield from self._of_places(row, earlier, layout.objects.coordinates_of(rewritten(plan)))
        yield from self._of_places(row, earlier, self.beyond(plan))

    def beyond(self, plan: ArrayPlan) -> Indexes:
        """The (n, ndim) positions of objects outside the grid, which an update has not yet removed."""
        if with_earlier_shape(plan) is plan.destination:
            return np.empty((0, len(plan.destination.shape)), np.int64)
        places = self._objects.present(plan)
        return places[plan.destination.objects.indices_of(places) < 0]

    def of_all(self, earlier: Planned) -> Iterator[Problem]:
        """Documents and objects of a node that is removed or replaced as a whole."""
        row = self._rows[earlier.path]
        if isinstance(earlier, Refusal):
            return
        yield from self.of_document(row, earlier)
        if isinstance(earlier, ArrayPlan) and not self._plan.in_place and row.published_ns is not None:
            yield from self._of_places(row, earlier, self._objects.present(earlier))

    def _of_places(self, row: NodeRow, plan: ArrayPlan, places: Indexes) -> Iterator[Problem]:
        """Local objects that others have written, by their positions in the grid."""
        found = [key for key, is_others in self._objects.of_array(plan, row, places) if is_others]
        if found:
            names = ", ".join(found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
            message = f"others have written {len(found)} of its objects"
            yield _conflict(plan.path, message, found[0], names)


def _conflict(node: str, message: str, key: str, found: str | None = None) -> Problem:
    return Problem(
        kind="result-changed",
        node=node,
        message=f"{message}, so it is kept",
        key=key,
        found=found,
        advice=_ADVICE,
    )

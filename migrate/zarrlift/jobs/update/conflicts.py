"""What others have changed in a result, as far as an update would replace or remove it.

A document is compared with the one that the job wrote. Of local objects, the modification time tells: the job
writes an array's document after its objects. Stores are trusted, apart from their documents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import document
from zarrstack.core.paths import join, prefix_of

from ...archive.chunk_inventory import Indexes, take_inventory
from ...planning.plans import ArrayPlan, GroupPlan, Plan, Planned, Published
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow
from ..publisher import is_root_document

_NAMED: Final = 3
"""Keys named for each node."""
_ADVICE: Final = "Update with --force to replace it, or migrate to another place."


class Conflicts:
    """Compares the result of a job with what the job knows of it."""

    def __init__(self, job: Job, plan: Plan, source: Storage, destination: Storage) -> None:
        self._job = job
        self._plan = plan
        self._rows = {row.path: row for row in job.nodes()}
        self._source = source
        self._destination = destination
        self._linked = job.fact("link") == "hard"

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
        if content == document(earlier.document):
            return
        if content is not None and not row.path and is_root_document(self._job, content):
            return
        message = (
            "others have removed its document" if content is None else "others have changed its document"
        )
        yield _conflict(row.path, message, key)

    def of_objects(self, row: NodeRow, earlier: ArrayPlan, plan: ArrayPlan) -> Iterator[Problem]:
        """Documents and objects of an array that is partly replaced."""
        yield from self.of_document(row, earlier)
        assert plan.changes is not None
        yield from self._newer(row, plan, plan.changes.objects)
        if plan.changes.shape_before is not None:
            there = take_inventory(self._destination, plan.path, earlier.destination)
            yield from self._newer(row, earlier, there.indexes)

    def of_all(self, earlier: Planned) -> Iterator[Problem]:
        """Documents and objects of a node that is removed or replaced as a whole."""
        row = self._rows[earlier.path]
        if row.state != "done":
            return
        if isinstance(earlier, (ArrayPlan, GroupPlan)):
            yield from self.of_document(row, earlier)
        if isinstance(earlier, ArrayPlan) and not self._plan.in_place:
            there = take_inventory(self._destination, earlier.path, earlier.destination)
            yield from self._newer(row, earlier, there.indexes)

    def _newer(self, row: NodeRow, plan: ArrayPlan, objects: Indexes) -> Iterator[Problem]:
        """Local objects that were written after the array's document."""
        if row.published_ns is None or not isinstance(self._destination, LocalStorage):
            return
        layout = plan.destination
        found = []
        for place in layout.objects.coordinates_of(objects).tolist():
            key = layout.key(plan.path, tuple(place))
            with suppress(FileNotFoundError, NotADirectoryError):
                facts = os.lstat(self._destination.path(key))
                if facts.st_mtime_ns > row.published_ns and not self._shared(plan, tuple(place), facts):
                    found.append(key)
        if found:
            names = ", ".join(found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
            message = f"others have written {len(found)} of its objects"
            yield _conflict(plan.path, message, found[0], names)

    def _shared(self, plan: ArrayPlan, place: tuple[int, ...], facts: os.stat_result) -> bool:
        """Whether an object is the source's own file, so that writing to that has changed it."""
        if (
            not self._linked
            or not isinstance(self._source, LocalStorage)
            or plan.move.block_shape is not None
        ):
            return False
        with suppress(OSError):
            there = os.stat(self._source.path(plan.source.key(plan.path, place)))
            return os.path.samestat(facts, there)
        return False


def _conflict(node: str, message: str, key: str, found: str | None = None) -> Problem:
    return Problem(
        kind="result-changed",
        node=node,
        message=f"{message}, so it is kept",
        key=key,
        found=found,
        advice=_ADVICE,
    )

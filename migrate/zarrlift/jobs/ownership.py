"""Says what of a result is the job's own and unchanged; nothing else decides it.

A document is the job's by its content. An object of a directory is the job's by its time: a job writes the
document of an array after its objects, so that objects with a later time are of others. An update writes the
document again; the job file records the objects that were later before. Stores outside the local file system
do not provide such an order: nothing in them counts as later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, Literal, Self, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join, prefix_of

from ..archive.chunk_inventory import Indexes, take_inventory
from ..core.problems import JoinedProblems
from ..errors import JobError
from ..planning.inventories import digest
from ..planning.plans import ArrayPlan, Plan, Planned, Published, Refusal
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from ..transfer.tasks import rewritten
from .ledger.ledger import Job
from .ledger.schema import NodeRow
from .outcome import kept
from .update.objects import interrupted, with_earlier_shape

Whose: TypeAlias = Literal["current", "earlier", "consolidated", "others"]
"""`current`: what the job has published. `earlier`: what it may have before an update that was interrupted.
`consolidated`: what it has published, to which others have added consolidated metadata.
"""
OWN: Final = ("current", "earlier")
_BATCH: Final = 500
"""Number of documents read at a time."""
_NAMED: Final = 3
"""Keys named for each node."""
_FORCE: Final = "Update with --force to replace it, or migrate to another place."


def whose(job: Job, node: Published, content: bytes) -> Whose:
    """Whose a document of a node is.

    That of the root depends on the work done so far, if it has consolidated metadata.
    """
    if content == node.content:
        return "current"
    actual = digest(content)
    if not node.path and actual == job.fact("root_document"):
        return "current"
    if job.documents.has(node.path, actual):
        return "earlier"
    with suppress(ValueError):
        present = json.loads(content)
        if isinstance(present, dict) and "consolidated_metadata" in present:
            planned = {**node.document, "consolidated_metadata": None}
            if {**present, "consolidated_metadata": None} == planned:
                return "consolidated"
    return "others"


def documents(storage: Storage, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """(path, its `zarr.json` or None) of nodes; StorageError."""
    all_paths = list(paths)
    for start in range(0, len(all_paths), _BATCH):
        batch = all_paths[start : start + _BATCH]
        yield from zip(batch, storage.find_many([join(path, "zarr.json") for path in batch]), strict=True)


def done_paths(job: Job) -> list[str]:
    """Paths of the nodes that the job has published, sorted."""
    return [row.path for row in job.nodes() if row.state == "done"]


def note_root_document(job: Job, expected: str) -> None:
    """Record the digest of the root document that is about to be written; the earlier one stays the job's."""
    earlier = job.fact("root_document")
    if earlier is not None:
        job.documents.add("", earlier)
    job.note(root_document=expected)
    job.commit()


def keep_document(job: Job, row: NodeRow, earlier: Planned) -> None:
    """Record the document of an earlier plan, which may be at the destination until the new one is."""
    if isinstance(earlier, Refusal):
        return
    if row.state == "done":
        job.documents.forget(row.path)
    job.documents.add(row.path, digest(earlier.content))


def require_output(job: Job, destination: Storage) -> None:
    """Raise JobError if the job's output is missing at the destination, because it would not be rewritten.

    It was deleted or moved, or existed only in the memory of a process that has ended. The check looks for
    one published document and tests whether there is anything at all, but not every chunk.
    """
    if is_lost(job, destination):
        done = done_paths(job)
        key = join(done[0], "zarr.json") if done else ""
        found, advice = f"nothing at {destination.url}", "If it was moved, say where it is:"
        raise _gone_error(job, key, found, f"{advice} --destination (in place --source).")


def is_lost(job: Job, destination: Storage) -> bool:
    """Whether a job has published documents, or written objects, and none of them is at the destination."""
    if done := done_paths(job):
        # In most cases the first one is there, and no other is read.
        found = chain(documents(destination, done[:1]), documents(destination, done[1:]))
        return all(content is None for _, content in found)
    return has_written(job) and destination.is_empty()


def has_written(job: Job) -> bool:
    """Whether a job has recorded objects as written."""
    return any(total.chunks > total.dropped for total in job.totals().values())


def missing_documents(job: Job, destination: Storage, lacking: Iterable[Problem]) -> JobError | None:
    """The error if documents that the job has published are gone; it also names what arrays are `lacking`.

    Others deleted what is missing, or an update hid it that the job does not know, being an older copy.
    """
    done = done_paths(job)
    missing = [path for path, content in documents(destination, done) if content is None]
    if not missing:
        return None
    count = f"{len(missing)} of {len(done)} documents are missing at {destination.url}"
    found = JoinedProblems.of(lacking, before=f"{count}; " if lacking else count)
    advice = "An update writes them again if the source changed since."
    return _gone_error(job, join(missing[0], "zarr.json"), found, advice)


def is_restored(job: Job, plan: Plan, archive: Storage) -> bool:
    """Whether an archive is as it was before the job migrated it in place, without a document of the job.

    The documents that `finish` has kept in the job are those of the archive then, and may go with it.
    """
    if any(content is not None for _, content in documents(archive, done_paths(job))):
        return False
    pairs = [*plan.source_digests, *(pair for node in plan.published for pair in node.source_digests)]
    contents = archive.get_many([key for key, _ in pairs])
    return all(
        content is not None and digest(content) == expected
        for content, (_, expected) in zip(contents, pairs, strict=True)
    )


def _gone_error(job: Job, key: str, found: str, advice: str) -> JobError:
    again = f"Put it back, or delete the job file {job.path} and migrate again. {advice}"
    return JobError("what this job wrote is gone", key=key or None, found=found, advice=again)


@dataclass(frozen=True, slots=True)
class PresentDocuments:
    """The `zarr.json` documents that exist at a destination, sorted for `undo`.

    Where a document stays, all chunks of its array stay: without them readers would see fill values.
    """

    own: tuple[str, ...]
    """Paths of the nodes with a document of the job, sorted."""
    changed: Mapping[str, AbstractSet[str]]
    """By path of a node whose document others have changed: the arrays in its consolidated metadata."""
    arrays: AbstractSet[str]
    """Paths of all arrays of the job."""

    @classmethod
    def of(cls, job: Job, plan: Plan, storage: Storage) -> Self:
        """Read the document of each node of the job; StorageError."""
        arrays = {array.path for array in plan.arrays}
        nodes = {node.path: node for node in plan.published}
        own: list[str] = []
        changed: dict[str, AbstractSet[str]] = {}
        for path, content in documents(storage, nodes):
            if content is not None and whose(job, nodes[path], content) != "others":
                own.append(path)
            elif content is not None:
                changed[path] = {join(path, name) for name in _consolidated(content)} & arrays
        return cls(tuple(own), changed, arrays)

    @property
    def kept(self) -> AbstractSet[str]:
        """Paths of the nodes that remain visible, in their own document or in consolidated metadata."""
        return {*self.changed, *(path for arrays in self.changed.values() for path in arrays)}

    @property
    def removable(self) -> tuple[str, ...]:
        """Paths of the nodes whose document may be deleted, sorted."""
        remaining = self.kept
        return tuple(path for path in self.own if path not in remaining)

    def problems(self) -> Iterator[Problem]:
        """A refusal for each document that others have changed."""
        for path, arrays in self.changed.items():
            what = "so it is kept"
            if path in self.arrays:
                what = "so it is kept with all chunks of its array"
            elif arrays:
                what = f"so it is kept with the arrays in its consolidated metadata ({len(arrays)})"
            yield kept(
                f"changed after the job wrote it, {what}",
                path,
                join(path, "zarr.json"),
                "If it is not needed, delete it yourself.",
            )


def _consolidated(content: bytes) -> Iterator[str]:
    """Paths of the nodes in the consolidated metadata of a document, relative to its node."""
    with suppress(ValueError, AttributeError, TypeError, KeyError):
        yield from json.loads(content)["consolidated_metadata"]["metadata"]


class OwnObjects:
    """Compares objects at a destination with the time at which their node was published."""

    def __init__(self, job: Job, source: Storage | None, destination: Storage) -> None:
        """`source` is that of the job, if it can be opened; files that both share are changed through it."""
        self._storage = destination
        linked = job.record.link == "hard" and isinstance(source, LocalStorage)
        self._source = source if linked else None
        self._recorded = job.others.all()

    def of_node(self, node: Published, row: NodeRow) -> Iterator[tuple[str, bool]]:
        """(key, whether others have written it) of all objects of a node but its document."""
        if isinstance(node, ArrayPlan):
            yield from self.of_array(node, row, self.present(node))
            return
        for key in node.files:
            if self._storage.size(key) is not None:
                yield key, self._later(key, row) is not None

    def present(self, plan: ArrayPlan) -> Indexes:
        """The (n, ndim) positions of an array's objects, of those too that an update has not yet removed."""
        layout = with_earlier_shape(plan)
        return layout.objects.coordinates_of(take_inventory(self._storage, plan.path, layout).indexes)

    def of_array(self, plan: ArrayPlan, row: NodeRow, places: Indexes) -> Iterator[tuple[str, bool]]:
        """The same of objects of an array at positions in the destination's grid.

        Objects that interrupted updates were writing again are the job's.
        """
        own = np.zeros(len(places), dtype=np.bool_)
        if row.state != "done" and plan.changes is not None:
            own = np.isin(with_earlier_shape(plan).objects.indices_of(places), interrupted(plan))
        for place, is_own in zip(map(tuple, places.tolist()), own.tolist(), strict=True):
            key = plan.destination.key(plan.path, place)
            status = None if is_own else self._later(key, row)
            yield key, status is not None and not self._shared(plan, place, status)

    def _later(self, key: str, row: NodeRow) -> os.stat_result | None:
        """The status of a file that is later than the document of its node, if it is."""
        if row.published_ns is None or not isinstance(self._storage, LocalStorage):
            return None
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(self._storage.path(key))
            if status.st_mtime_ns > row.published_ns or key in self._recorded:
                return status
        return None

    def _shared(self, plan: ArrayPlan, place: tuple[int, ...], status: os.stat_result) -> bool:
        """Whether an object is the source's own file, so that writing to that has changed it."""
        if not isinstance(self._source, LocalStorage) or plan.move.block_shape is not None:
            return False
        with suppress(OSError):
            return os.path.samestat(status, os.stat(self._source.path(plan.source.key(plan.path, place))))
        return False


class Conflicts:
    """What others have changed in a result, as far as an update would replace or remove it.

    Stores are trusted, apart from their documents.
    """

    def __init__(self, job: Job, plan: Plan, source: Storage, destination: Storage) -> None:
        self._job = job
        self._plan = plan
        self._rows = {row.path: row for row in job.nodes()}
        self._destination = destination
        self._objects = OwnObjects(job, source, destination)

    def in_the_way(self, new: Planned) -> Iterator[Problem]:
        """Objects that already exist where a new node will be written."""
        if self._plan.in_place:
            key = join(new.path, "zarr.json")
            existing = [key] if self._destination.get(key) else []
        else:
            existing = list(islice(self._destination.list_prefix(prefix_of(new.path)), 1))
        for key in existing:
            yield _conflict(new.path, "others have put something where a new node comes", key)

    def of_document(self, row: NodeRow, earlier: Published) -> Iterator[Problem]:
        """A document that is not the job's."""
        key = join(row.path, "zarr.json")
        content = self._destination.get(key)
        if content is None:
            own, message = row.state != "done", "others have removed its document"
        else:
            owner, message = whose(self._job, earlier, content), "others have changed its document"
            own = owner == "current" or (row.state != "done" and owner in OWN)
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
        keys = [key for key, is_others in self._objects.of_array(plan, row, places) if is_others]
        if keys:
            names = ", ".join(keys[:_NAMED]) + (", ..." if len(keys) > _NAMED else "")
            message = f"others have written {len(keys)} of its objects"
            yield _conflict(plan.path, message, keys[0], names)


def _conflict(node: str, message: str, key: str, found: str | None = None) -> Problem:
    return Problem(
        kind="result-changed",
        node=node,
        message=f"{message}, so it is kept",
        key=key,
        found=found,
        advice=_FORCE,
    )

"""Checks, before a node is published, that its source is unchanged since planning.

For local files, timestamps are compared (a microsecond or two each) if they are reliable; files not older
than the plan are read or listed again. Stores are always queried again, and compared with the listings from
which the plan was made, which are stored in the job or in a file beside it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from zarrstack.core.errors import Problem, Severity, StorageError, ZarrstackError
from zarrstack.core.paths import join, parents
from zarrstack.system.this import system

from ..archive.chunk_inventory import Inventory
from ..archive.inventory_file import InventoryFile
from ..archive.local_scan import chunk_directories
from ..core.format_table import FORMATS
from ..formats.describe import describe
from ..formats.tree.documents import read_each
from ..formats.tree.walk import passed_over
from ..planning.inventories import Inventories, SourceInventory, changed_keys, digest, digests
from ..planning.plans import ArrayPlan, GroupPlan, Plan, Published
from ..storage.base import Storage
from ..storage.giving_up import Threads, result_of
from ..storage.local.files import exists
from ..storage.local.storage import LocalStorage
from ..storage.versions import Timestamp
from .ledger.ledger import Job
from .refusals import mounts

_SUFFIX: Final = ".inventory"
_AT_ONCE: Final = 8
"""Number of arrays of a store that are checked together."""
_RESUME: Final = "Stop all writers of the source, then resume: the node is planned again."
_UPDATE: Final = "To take over what has changed: zarrlift update DST. Or undo the job, and migrate again."

_OWN_CLOCK: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems whose times are set by the local kernel; network file systems have their own clocks."""
_STEP: Final = 100_000_000
_WHOLE: Final = 1_000_000_000
_WHOLE_STEP: Final = 2 * _WHOLE
"""Nanoseconds by which a timestamp may be too early: a few milliseconds on most file systems, up to a second
on those that store whole seconds.
"""

log: Final = logging.getLogger("zarrlift")

Found: TypeAlias = Problem | None


def source_changed(
    path: str,
    message: str = "the source changed since the plan was made",
    *,
    severity: Severity = "refusal",
    key: str | None = None,
    found: str | None = None,
    expected: str | None = None,
    advice: str | None = _UPDATE,
) -> Problem:
    """The problem for a node whose source changed since planning."""
    return Problem(
        kind="source-changed",
        node=path,
        message=message,
        severity=severity,
        key=key,
        found=found,
        expected=expected,
        advice=advice,
    )


class SourceCheck:
    """Compares the source of a plan with its present state; thread-safe."""

    def __init__(self, source: Storage, plan: Plan, inventories: Inventories) -> None:
        """`inventories` were made for the plan, or before."""
        self._source = source
        self._plan = plan
        self._inventories = inventories
        self._listed_again = SourceInventory(plan, source)
        self._times = FileTimes(source, inventories.began) if isinstance(source, LocalStorage) else None
        self._inlined = False

    def begin(self, plans: Sequence[ArrayPlan]) -> Callable[[], list[Found]]:
        """Start the checks, in the background if requests have latency.

        The returned function gives the problem of each array; it raises nothing.
        """
        if self._times is not None:
            return lambda: self._each(plans)
        futures = [self.threads.submit(self._array, plan, None) for plan in plans]
        return lambda: [result_of(future) for future in futures]

    @cached_property
    def threads(self) -> Threads:
        """What waits for requests."""
        return Threads(_AT_ONCE, "zarrlift-source")

    def close(self) -> None:
        """Release resources; no checks follow."""
        if "threads" in vars(self):
            self.threads.stop.set()
            self.threads.shutdown(wait=False, cancel_futures=True)

    def thoroughly(self, plan: ArrayPlan) -> Found:
        """The problem of an array, without relying on timestamps; raises nothing."""
        return self._array(plan, None)

    def _each(self, plans: Sequence[ArrayPlan]) -> list[Found]:
        assert self._times is not None
        self._times.forget()
        return [self._array(plan, self._times) for plan in plans]

    def _array(self, plan: ArrayPlan, times: FileTimes | None) -> Found:
        try:
            return self._documents(plan, times) or self._chunks(plan, times)
        except ZarrstackError as error:
            return error.at(node=plan.path).problem
        except OSError as error:
            return StorageError("cannot read", node=plan.path, found=error.strerror).problem

    def group(self, plan: GroupPlan) -> Found:
        """The problem of a group; raises nothing."""
        if self._times is not None:
            self._times.forget()
        try:
            return self._documents(plan, self._times)
        except ZarrstackError as error:
            return error.at(node=plan.path).problem

    # Documents

    def _documents(self, plan: Published, times: FileTimes | None) -> Found:
        if times is not None and times.untouched_node(plan.path, plan.source_digests):
            return None
        inlined = self._inlined  # once: another thread may change it
        pairs = dict(self._plan.source_digests if inlined else plan.source_digests)
        keys, message = list(pairs), "the document that describes the source changed"
        if not inlined:
            message = "a document of the source changed since the plan was made"
            name = FORMATS[self._plan.format].attributes
            if name is not None and join(plan.path, name) not in pairs:
                keys.append(join(plan.path, name))  # it may exist now
        difference = _changed(self._source, keys, pairs)
        if difference is None or (not inlined and self._is_inlined(plan)):
            return None
        if isinstance(difference, StorageError):
            return difference.at(node=plan.path).problem
        return source_changed(plan.path, message, key=difference, advice=_RESUME)

    def _is_inlined(self, plan: Published) -> bool:
        """Whether the documents come from consolidated metadata and are unchanged there."""
        if not self._plan.source_digests:
            return False
        archive = describe(self._source, format=self._plan.format, options=self._plan.reading)
        now = next((node.documents for node in archive.nodes if node.path == plan.path), ())
        self._inlined = bool(now) and digests(now) == plan.source_digests
        return self._inlined

    # Chunks

    def _chunks(self, plan: ArrayPlan, times: FileTimes | None) -> Found:
        if plan.route.name == "stay":
            return None  # the existing chunks are those of the result
        if times is not None and not plan.source.opaque:
            directories = chunk_directories(self._source, plan.path, plan.source)
            if all(map(times.untouched, directories)):
                return None
        now = self._listed_again(plan)
        if now.fingerprint == plan.fingerprint:
            return None
        before = self._inventories.stored(plan)
        return source_changed(
            plan.path,
            "chunks of the source were written, added or deleted after they were listed",
            found=f"{len(now.indexes)} chunks" if before is None else changed_keys(plan, before, now),
            advice=_RESUME,
        )

    # New nodes

    def added(self) -> Iterator[Problem]:
        """A refusal for each node added since planning; StorageError."""
        row = FORMATS[self._plan.format]
        documents = row.nodes
        if not row.directories or not self._source.can_list:
            return
        if self._times is not None:
            self._times.forget()
        planned = {node.path for node in self._plan.nodes} | set(self._plan.excluded)
        places = [
            group.path
            for group in self._plan.groups
            if self._times is None or not self._times.untouched(group.path)
        ]
        new = [
            path
            for place, entries in zip(places, self._source.list_dirs(places), strict=True)
            for entry in entries
            if entry.is_dir
            and not passed_over(entry.name)
            and (path := join(place, entry.name)) not in planned
        ]
        keys = [join(path, name) for path in new for name in documents]
        nodes = {
            key.rpartition("/")[0]
            for key, content in zip(keys, read_each(self._source, keys), strict=True)
            if content is not None
        }
        for path in sorted(nodes):
            yield source_changed(path, "the source has a node that did not exist when the plan was made")


def _changed(source: Storage, keys: Sequence[str], expected: dict[str, str]) -> str | StorageError | None:
    """The first document that differs from the expected one, or the error of an unreadable one."""
    for key, content in zip(keys, read_each(source, keys), strict=True):
        if isinstance(content, StorageError):
            return content.at(key=key)
        if (None if content is None else digest(content)) != expected.get(key):
            return key
    return None


class FileTimes:
    """Tells from timestamps alone whether local files and directories are unchanged since a given time.

    The system sets the change time (`st_ctime`) of a file on every write, and of a directory whenever an
    entry is added or removed; programs cannot set it back. A file whose change time is before the given time
    is therefore unchanged since then, provided that the clocks of the system and the file system are the same
    and have not been set back.
    """

    def __init__(self, storage: LocalStorage, since: Timestamp) -> None:
        self._storage = storage
        self._since = since
        self._latest, self._latest_whole = since.wall_ns - _STEP, since.wall_ns - _WHOLE_STEP
        self._prefix = storage.path("") + os.sep
        self._above: dict[str, bool] = {}
        """Whether the directories above a node are unchanged, by its parent."""
        self._device: int | None = None
        self._root: tuple[int, int] | None = None
        if _file_system(storage.real) in _OWN_CLOCK:  # which Linux alone tells
            with suppress(OSError):  # a missing source is reported when it is read
                facts = os.stat(storage.root)
                self._root = facts.st_dev, facts.st_ino
                self._device = facts.st_dev

    def forget(self) -> None:
        """Discard cached results; after the clock was set back, no timestamp is trusted."""
        self._above.clear()
        if self._since.clock_was_set_back():
            self._device = None

    def untouched(self, key: str) -> bool:
        """Whether a file or directory is provably unchanged."""
        return self._all_untouched((key,))

    def _all_untouched(self, keys: Iterable[str]) -> bool:
        # One loop without function calls: there are several keys for each of thousands of nodes.
        prefix, device, latest, latest_whole = self._prefix, self._device, self._latest, self._latest_whole
        if device is None:
            return False
        try:
            for key in keys:
                facts = os.stat(prefix + key)
                changed = facts.st_ctime_ns
                if changed >= (latest if changed % _WHOLE else latest_whole) or facts.st_dev != device:
                    return False
        except (OSError, ValueError):
            return False
        return True

    def untouched_node(self, path: str, documents: Iterable[tuple[str, str]]) -> bool:
        """Whether the documents of a node, its directory and the directories above are unchanged.

        The root only has to be the same directory: in place, the job itself adds and removes files there.
        """
        above = self._above.get(path[: path.rfind("/") + 1])
        if not (self._way(path) if above is None else above):
            return False
        return self._all_untouched([path, *(key for key, _ in documents)])

    def _way(self, path: str) -> bool:
        """Whether the directories above a node are unchanged."""
        untouched = all(self.untouched(above) if above else self._same_root() for above in parents(path))
        self._above[path[: path.rfind("/") + 1]] = untouched
        return untouched

    def _same_root(self) -> bool:
        try:
            facts = os.stat(self._storage.root)
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._root


def _file_system(path: str) -> str | None:
    """Type of the file system of a path; None if the system does not tell."""
    longest: tuple[str, str] | None = None
    for point, _, _, kind in mounts():
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (longest is None or len(point) >= len(longest[0])):
            longest = point, kind
    return None if longest is None else longest[1]


# The listings of the source, in the job or in a file beside it


def inventory_path(job: Path) -> Path:
    """The path of the inventory of the job in this file."""
    return job.with_name(job.name + _SUFFIX)


def has_inventory(job: Path) -> bool:
    """Whether the listings of a job are stored."""
    return exists(inventory_path(job))


def keep_inventory(job: Job, inventories: Inventories) -> None:
    """Keep the listings of a job for later runs of it: in its file, or in the file that they have."""
    if (content := inventories.to_keep()) is not None:
        job.listing.keep(content)
        job.commit()
    else:
        inventories.complete()


def _lists_slowly(source: Storage) -> bool:
    return source.requests is not None and source.can_list and not source.in_process


def remove_inventory(job: Path) -> None:
    """Delete the stored listings of a job; a failure is only logged."""
    path = inventory_path(job)
    try:
        for each in filter(os.path.lexists, (path, _later(job))):
            system.unlink(str(each))
    except OSError as error:
        log.warning("%s: cannot delete the stored listing of the source: %s", job, error)


def new_inventories(job: Path, id: str, source: Storage) -> Inventories:
    """Where the listings of a new job are put: in a file if the source is a store, where they take long.

    Those of other sources go into the job file in the end.
    """
    if _lists_slowly(source):
        return Inventories(InventoryFile.create(inventory_path(job), id))
    return Inventories(InventoryFile.temporary(id))


def later_inventories(job: Job, source: Storage) -> Inventories:
    """Where the listings of an update are put, until `replace_inventory`."""
    if _lists_slowly(source) or exists(inventory_path(job.path)):
        return Inventories(InventoryFile.create(_later(job.path), job.id))
    return Inventories(InventoryFile.temporary(job.id))


def _later(job: Path) -> Path:
    path = inventory_path(job)
    return path.with_name(path.name + ".new")


def replace_inventory(job: Job, inventories: Inventories) -> None:
    """Let the listings of an update take the place of earlier ones; a failure is only logged."""
    if exists(_later(job.path)) and inventories.complete():
        try:
            system.replace(str(_later(job.path)), str(inventory_path(job.path)))
        except OSError as error:
            log.warning("%s: cannot store the listing of the source: %s", job.path, error)
    keep_inventory(job, inventories)


def planned_inventories(job: Path, id: str) -> Inventories:
    """The listings of which the plan of a job was made, to read."""
    return Inventories(InventoryFile.open(inventory_path(job), id))


def last_inventories(job: Job) -> Inventories:
    """The same, of a job that may have them in its file."""
    if has_inventory(job.path):
        return planned_inventories(job.path, job.id)
    return Inventories(InventoryFile.temporary(job.id, job.listing.pieces()))


def earlier_inventories(job: Job, plan: Plan, source: Storage) -> Inventories:
    """The listings of an earlier run of a job.

    They replace listings that take long, if an object is compared with its listed version when it is read. An
    array whose source changed is listed again: another attempt would fail as the last one did.
    """
    file = InventoryFile.open(inventory_path(job.path), job.id, write=True)
    if file is None:
        return new_inventories(job.path, job.id, source)
    changed = {
        row.path
        for row in job.nodes("array")
        if any(problem.kind == "source-changed" for problem in row.problems)
    }
    usable = plan.arrays if source.tells_versions and _lists_slowly(source) else ()
    return Inventories(file, {array.path: array for array in usable if array.path not in changed})


def changed_objects(job: Job, plan: Plan, source: Storage) -> Iterator[Problem]:
    """A problem for each array of which objects changed since they were listed for the plan; StorageError.

    The source is listed again; without a stored inventory, nothing is compared.
    """
    listed_now = SourceInventory(plan, source)
    with closing(planned_inventories(job.path, job.id)) as inventories:
        for array in plan.arrays:
            before = inventories.stored(array)
            if before is None:
                continue
            try:
                now = listed_now(array)
            except ZarrstackError as error:
                raise error.at(node=array.path) from None
            yield from change_since(array, before, now)


def change_since(array: ArrayPlan, before: Inventory, now: Inventory) -> Iterator[Problem]:
    """The problem of an array of which objects changed since its plan was made from another listing."""
    if now.fingerprint != array.fingerprint:
        yield source_changed(
            array.path,
            "objects of the source were written, added or deleted since the plan was made",
            found=changed_keys(array, before, now),
        )

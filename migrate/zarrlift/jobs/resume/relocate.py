"""Where the source and the result of a job are now, and whether that is the job's result.

A result contains no name of its job. After a move it is recognized by the documents that the job has
published, and by their times: jobs of equal sources write equal documents.
"""

from __future__ import annotations

import os
import time
from typing import Final, Literal

from zarrstack.core.errors import ZarrstackError
from zarrstack.core.paths import join

from ...archive.chunk_inventory import take_inventory
from ...core.problems import command
from ...errors import JobError
from ...planning.inventories import SourceInventory, digest
from ...planning.plans import Plan
from ...recipe.options import (
    Moved,
    PathText,
    Places,
    Reading,
    Request,
    StorageOptions,
    require_readable,
    values,
)
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import open_storage
from ...storage.redact import redact
from ...storage.transformer_stack import with_layers
from ..endpoints import Endpoints
from ..ledger.job_places import SUFFIX, Source, existing, is_same_path, local_path, names_of
from ..ledger.ledger import Job
from ..overwrite import not_yet_aside
from ..ownership import OWN, Whose, documents, done_paths, has_written, is_lost, whose
from ..refusals import is_same_root, root_to_record
from .lost_tasks import lost_tasks

_LEGACY: Final = (".zarray", ".zgroup", ".zmetadata", "attributes.json")
"""Documents at the root of archives of other formats."""


def ends_of(
    job: Job,
    target: PathText,
    places: Places,
    moved: Moved = Moved(),  # noqa: B008 - frozen
    *,
    writes: bool = True,
) -> Endpoints:
    """Open both ends of the job that was found for a target, or those given because they have moved."""
    header = job.header
    in_place = header["in_place"]
    named = moved.source if in_place else moved.destination
    if moved == Moved():
        refuse_other_place(target, job)
    if writes and named is None:
        refuse_elsewhere(job)
    require_readable(header["format"])
    request = Request(
        in_place=in_place,
        source_through=job.record.source_through,
        dest_through=job.record.dest_through,
        **values(Reading.from_json(header), Reading),
    )
    source = source_of(job, places.storage_options).place if moved.source is None else moved.source
    goal = header["destination"] if moved.destination is None and not in_place else moved.destination
    ends = Endpoints.open(source, goal, request, places)
    if named is None and job.has_moved:
        require_result(job, job.plan(), ends.destination)
    return ends


def source_of(job: Job, options: StorageOptions) -> Source:
    """The source of a job: of two that exist, the first whose listing is the recorded one; JobError."""
    places = existing(job.sources)
    if len(places) == 1:
        return places[0]
    plan = job.plan()
    for place in places:
        if _is_listed(job, plan, place, options):
            return place
    first, second = (redact(place.place) for place in places)
    raise JobError(
        "the job file was moved or copied, and two sources may be meant",
        key=str(job.path),
        found=f"{first} and {second}, both of which have changed since",
        advice="Name the one that is meant, such as: " + command("resume", str(job.path), "--source", first),
    )


def _is_listed(job: Job, plan: Plan, place: Source, options: StorageOptions) -> bool:
    """Whether a source has the documents and the chunks that are recorded."""
    digests = dict(plan.source_digests)
    for node in plan.published:
        digests |= dict(node.source_digests)
    try:
        storage = open_storage(place.place, storage_options=options, follow_links=plan.reading.follow_links)
        storage = with_layers(storage, job.record.source_through)
        for key, content in zip(digests, storage.find_many(list(digests)), strict=True):
            if content is None or digest(content) != digests[key]:
                return False
        listed_now = SourceInventory(plan, storage)
        return all(listed_now(array).fingerprint == array.fingerprint for array in plan.arrays)
    except ZarrstackError:
        return False


def settle_result(job: Job, target: PathText, places: Places) -> None:
    """Check that the result of a job open for writing is where it is looked for; JobError."""
    refuse_other_place(target, job)
    refuse_elsewhere(job)
    if job.has_moved:
        header = job.header
        options = places.of_result(in_place=header["in_place"])
        place = open_storage(header["destination"], storage_options=options, mode="w")
        # The snapshots of a repository name their job.
        storage = place if place.on_branch else with_layers(place, job.record.dest_through)
        if not (place.on_branch or require_result(job, job.plan(), storage)):
            is_unpublished = _is_unpublished(job, storage)
            # An undo that was interrupted has noted before it removes the last directories.
            if (is_unpublished or job.fact("undoing") == "yes") and storage.is_empty():
                raise _not_found(job, header["destination"])
            if not is_unpublished:
                return
        _record_places(job, existing(job.sources)[0], header["destination"])


def _is_unpublished(job: Job, destination: Storage) -> bool:
    """Whether a job has published nothing yet, and what it has written is where it goes on."""
    return job.state != "undone" and not done_paths(job) and not is_lost(job, destination)


def _record_places(job: Job, source: Source, destination: str) -> None:
    job.note_places(source.url, destination, source.place)
    job.commit()


def refuse_elsewhere(job: Job) -> None:
    """Raise JobError if the file of a job apart from its result was moved or copied."""
    if not job.is_elsewhere:
        return
    header = job.header
    option = "--source" if header["in_place"] else "--destination"
    raise JobError(
        "the job file was moved or copied, so it is only read: another file may be of the same result",
        key=str(job.path),
        found=f"recorded as {job.fact('home') or 'NAME' + SUFFIX}",
        advice="If this is the job of the result, run: "
        + command("resume", str(job.path), option, redact(header["destination"])),
    )


def refuse_other_place(target: str | os.PathLike[str], job: Job) -> None:
    """Raise JobError if the place given to a command is not one of the job's."""
    text, header = os.fspath(target), job.header
    places = [header["destination"], *(name for source in job.sources for name in source)]
    if os.path.isfile(text) or names_of(text) & {name for place in places for name in names_of(place)}:
        return
    local, others = local_path(os.path.abspath(text)), map(local_path, places)
    if local is not None and any(other is not None and is_same_path(local, other) for other in others):
        return  # by another mount
    option = "--source" if header["in_place"] else "--destination"
    raise JobError(
        "the job belongs to another location",
        key=str(job.path),
        found=str(header["destination"]),
        expected=redact(text),
        advice="If it was moved, run: " + command("resume", str(job.path), option, redact(text)),
    )


def refuse_nothing_found(job: Job, plan: Plan, destination: Storage) -> None:
    """Raise JobError if the job has written objects and none of them exists, or in place no archive does."""
    is_undoing = job.fact("undoing") is not None  # which may have removed what is missing
    is_gone = plan.in_place and destination.is_empty()
    if is_gone or (not is_undoing and is_lost(job, destination)):
        raise _not_found(job, plan.destination)


def _not_found(job: Job, destination: str) -> JobError:
    if job.fact("undoing") == "yes" and job.has_moved:  # no document shows whose the rest is
        advice = "If only the job file was moved, put it back to where the output is"
    else:
        advice = "If it was moved, resume the job with --destination (in place --source) first"
    return JobError(
        "the output of this job was not found",
        key=str(job.path),
        found=f"nothing of it at {destination}",
        advice=f"{advice}; if it was deleted, delete the job file.",
    )


def follow(job: Job, ends: Endpoints) -> None:
    """Continue a job open for writing at other places; JobError if their content is not the job's."""
    header, destination = job.header, ends.destination
    is_there = header["destination"] == destination.url and is_same_root(job, ends.place)
    if is_there and header["source"] == ends.source.url and not (job.has_moved or job.is_elsewhere):
        return
    plan = job.plan()
    found = _found(job, plan, destination) if is_there and job.has_moved else "its own"
    if not is_there or found == "another":
        _require_own(job, plan, ends)
        if isinstance(destination, LocalStorage):
            _take_times(job, destination)
    if found != "nothing" or header["source"] != ends.source.url:
        job.note(root=root_to_record(ends.place))
        _record_places(job, Source(ends.source.url, ends.lasting_place), destination.url)


def _require_own(job: Job, plan: Plan, ends: Endpoints) -> None:
    """Raise JobError unless the documents at the destination are those of the job.

    Users may have changed some; an earlier document of the job shows that this is an old copy.
    """
    destination, is_undoing = ends.destination, job.fact("undoing") is not None
    published = {node.path: node for node in plan.published}
    done, owners = done_paths(job), set[Whose]()
    for path, content in documents(destination, done):
        if content is None:
            if is_undoing:
                continue  # it may have removed this one
            raise _not_own(job, destination, join(path, "zarr.json"), "nothing")
        owners.add(whose(job, published[path], content))
        if "earlier" in owners:
            raise _not_own(job, destination, join(path, "zarr.json"), "an earlier document of the job")
    if done and "current" not in owners:
        raise _not_own(job, destination, join(done[0], "zarr.json"), "another document")
    if plan.in_place or is_undoing:
        return
    _require_chunks(job, plan, ends)
    if done:
        return
    if not has_written(job):
        _require_unfinished(job, plan, destination)
        return
    totals = job.totals()
    rows = {row.path: row.id for row in job.nodes("array")}
    for array in plan.arrays:
        total = totals.get(rows[array.path])
        if total is None or total.chunks <= total.dropped:
            continue
        if not len(take_inventory(destination, array.path, array.destination).indexes):
            raise _not_own(job, destination, array.path, "no chunk")


def require_result(job: Job, plan: Plan, destination: Storage) -> bool:
    """Whether a place has something of the job; JobError if it has what others wrote, or the job later."""
    found = _found(job, plan, destination)
    if found != "another":
        return found == "its own"
    option = "--source" if plan.in_place else "--destination"
    raise JobError(
        "this is not the job's output as it was published",
        key=str(job.path),
        found=f"documents of other contents or times at {destination.url}",
        advice="If it is a copy without its times, run: "
        + command("resume", str(job.path), option, destination.url),
    )


def _found(job: Job, plan: Plan, destination: Storage) -> Literal["its own", "nothing", "another"]:
    """Whose result is at a place: its own has a document of the job as it was published.

    `nothing`: what is missing there is reported later.
    """
    if job.state == "undone" or not_yet_aside(job, destination):
        return "nothing"
    published = {node.path: node for node in plan.published}
    rows = [row for row in job.nodes() if row.state == "done" and row.path in published]
    done = {row.path: row.published_ns for row in rows}
    if not done and not plan.in_place and not has_written(job):
        _require_unfinished(job, plan, destination)
    exists = False
    for path, content in documents(destination, done):
        exists = exists or content is not None
        if content is not None and whose(job, published[path], content) in OWN:
            recorded_ns, modified_ns = done[path], _modified_ns(destination, path)
            if recorded_ns is None or modified_ns is None or _same_time(modified_ns, recorded_ns):
                return "its own"
    # What an interrupted undo has left may be others' alone.
    return "another" if exists and job.fact("undoing") is None else "nothing"


def _require_unfinished(job: Job, plan: Plan, destination: Storage) -> None:
    """Raise JobError if a place has anything but what a job that has recorded nothing may have written."""
    for name in _LEGACY:
        if destination.size(name) is not None:
            raise _not_own(job, destination, name, "another archive")
    planned = {node.path: node.content for node in plan.published}
    for path, content in documents(destination, planned):
        if content not in (None, planned[path]):
            raise _not_own(job, destination, join(path, "zarr.json"), "another document")


def _require_chunks(job: Job, plan: Plan, ends: Endpoints) -> None:
    """Raise JobError for an incomplete copy: that is not the whole of what the job has published.

    The expected chunks are derived from the source if it is unchanged.
    """
    done = {row.path: row.id for row in job.nodes("array") if row.state == "done"}
    listed_now = SourceInventory(plan, ends.source)
    for array in plan.arrays:
        if array.path not in done or not array.tasks:
            continue
        source = listed_now(array)
        if source.fingerprint != array.fingerprint:
            continue
        recorded = job.recorded(done[array.path])
        lost = lost_tasks(array, source, ends.destination, recorded)
        if lost:
            raise JobError(
                "some output of the job is missing",
                key=array.path,
                found=f"chunks of {len(lost)} of {array.tasks} tasks are missing at {ends.destination.url}",
                advice="Move or copy the rest too.",
            )


def _not_own(job: Job, destination: Storage, key: str, found: str) -> JobError:
    return JobError(
        "this is not the job's output",
        key=key,
        found=f"{found} at {destination.url}",
        expected=f"what the job {job.path} has published",
        advice="Name the place to which the job's destination was moved.",
    )


def _take_times(job: Job, destination: LocalStorage) -> None:
    """Record the current timestamps as the job's, because a copy may have new ones."""
    changed = []
    for row in job.nodes():
        if row.state != "done":
            continue
        modified_ns = _modified_ns(destination, row.path)
        if modified_ns is not None and modified_ns != row.published_ns:
            changed.append((row.id, max(modified_ns, time.time_ns())))
    if changed:
        job.record_published(changed)


def _modified_ns(destination: Storage, path: str) -> int | None:
    """The modification time of a local document; None if it has none."""
    if not isinstance(destination, LocalStorage):
        return None
    try:
        return os.stat(destination.path(join(path, "zarr.json"))).st_mtime_ns
    except OSError:
        return None


def _same_time(now_ns: int, recorded_ns: int) -> bool:
    """Whether times are equal; programs such as tar keep whole seconds."""
    return now_ns == recorded_ns or (now_ns % 10**9 == 0 and now_ns == recorded_ns // 10**9 * 10**9)

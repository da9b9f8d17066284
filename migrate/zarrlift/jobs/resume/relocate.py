"""Continues a job whose source or destination has moved since it began.

The places of a job are never changed on a guess: they were moved together with the job file (see
`settled_places`), `resume` is given the new ones, or `migrate` is called with them after the old ones are
gone. A destination is recognized by the documents that the job has published, because it contains no name of
the job.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import islice
from typing import Final

from zarrstack.core.paths import join

from ...archive.chunk_inventory import take_inventory
from ...core.json_document import document
from ...errors import JobError
from ...planning.plans import Plan
from ...planning.source_inventory import SourceInventory
from ...recipe.format_names import require_installed
from ...recipe.options import Moved, PathText, Places, Reading, Request, values
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import is_url, open_storage
from ...storage.redact import redact
from ...storage.transformer_stack import with_layers
from ..endpoints import Endpoints
from ..ledger.database import Home
from ..ledger.find_job import names_of
from ..ledger.ledger import Job
from ..ledger.move import SettledPlaces, is_same_place, move_of, settled
from ..ours import OWN, Whose, documents, done_paths, whose
from ..overwrite import not_yet_aside
from ..places import is_same_root, root_to_record
from ..reconcile import unchanged
from ..units import command
from .lost_tasks import lost_tasks

_LEGACY: Final = (".zarray", ".zgroup", ".zmetadata", "attributes.json")
"""Documents at the root of archives of other formats."""


def ends_of(
    job: Job,
    target: PathText,
    places: Places,
    moved: Moved = Moved(),  # noqa: B008 - frozen
) -> Endpoints:
    """Open both ends of the job that was found for a target, or those given because they have moved."""
    now = settled(job, moved)
    if moved == Moved():
        refuse_other_place(target, job, now)
    header = job.header
    require_installed(header["format"], header.get("package"))
    request = Request(
        in_place=header["in_place"],
        source_through=job.record.source_through,
        dest_through=job.record.dest_through,
        **values(Reading.from_json(header), Reading),
    )
    goal = moved.destination if request.in_place else now.destination
    ends = Endpoints.open(now.source, goal, request, places)
    if now.have_moved:
        require_result(job, job.plan(), ends.destination)
    return ends


def settle_result(job: Job, target: PathText, places: Places) -> None:
    """Record where the result of a job open for writing is now; JobError if that cannot be known."""
    now = settled(job, reads_source=False)
    refuse_other_place(target, job, now)
    if now.have_moved:
        options = places.of_result(in_place=job.header["in_place"])
        place = open_storage(now.destination, storage_options=options, mode="w")
        if not place.on_branch:  # whose snapshots name their job
            require_result(job, job.plan(), with_layers(place, job.record.dest_through))
            if isinstance(place, LocalStorage):
                _take_times(job, place)
        destination = now.source_url if job.header["in_place"] else now.destination
        job.note_header(source=now.source_url, destination=destination)
        job.note(source_place=str(now.source))
    settle_home(job)


def settle_home(job: Job) -> None:
    """Record where the file of a job open for writing is, once its places are settled."""
    if job.fact("home") is None or move_of(job) is not None:
        job.note(home=Home.of(job.path).to_text())
        job.commit()


def refuse_other_place(target: str | os.PathLike[str], job: Job, places: SettledPlaces) -> None:
    """Raise JobError if the place given to a command is not one of the job's.

    This happens if the place and the job file next to it were renamed.
    """
    text = os.fspath(target)
    names = {name for place in places.names for name in names_of(place)}
    if os.path.isfile(text) or names_of(text) & names:
        return
    if any(is_same_place(place, os.path.abspath(text)) for place in places.names):
        return  # by another mount
    header = job.header
    option = "--source" if header.get("in_place") else "--destination"
    raise JobError(
        "the job belongs to another location",
        key=str(job.path),
        found=str(header.get("destination")),
        expected=redact(text),
        advice="If it was moved, run: " + command("resume", str(job.path), option, redact(text)),
    )


def refuse_nothing_found(job: Job, plan: Plan, destination: Storage) -> None:
    """Raise JobError if the job has written objects and none of them exists."""
    if job.fact("undoing") is not None:
        return  # missing objects may have been removed by the interrupted undo
    if done := done_paths(job):
        exists = any(content is not None for _, content in documents(destination, done))
    else:
        exists = not _has_written(job) or any(True for _ in islice(destination.list_dir(""), 1))
    if not exists:
        raise JobError(
            "the output of this job was not found",
            key=str(job.path),
            found=f"nothing of it at {plan.destination}",
            advice="If it was moved, resume the job with --destination (in place --source) first; if it was"
            " deleted, delete the job file.",
        )


def follow(job: Job, ends: Endpoints) -> None:
    """Continue a job open for writing at other places; JobError if their content is not the job's."""
    header = job.header
    is_there = header["destination"] == ends.destination.url and is_same_root(job, ends.place)
    if is_there and header["source"] == ends.source.url:
        settle_home(job)
        return
    if not is_there:
        _require_own(job, job.plan(), ends)
        if isinstance(ends.destination, LocalStorage):
            _take_times(job, ends.destination)
    job.note_header(source=ends.source.url, destination=ends.destination.url)
    job.note(source_place=ends.lasting_place, root=root_to_record(ends.place))
    job.commit()
    settle_home(job)


def has_moved(job: Job, plan: Plan, ends: Endpoints) -> bool:
    """Whether the places given to `migrate` are those of this job under new names.

    The old places must be gone, the destination must contain what the job wrote, and the source of that must
    be unchanged.
    """
    if plan.in_place != ends.in_place or job.state == "undone":
        return False
    pairs = {(plan.source, ends.source.url), (plan.destination, ends.destination.url)}
    before = [old for old, new in pairs if old != new]
    if any(is_url(place) or os.path.lexists(place) for place in before):
        return False
    try:
        _require_own(job, plan, ends)
    except JobError:
        return False
    fresh, _ = replace(ends, reading=plan.reading).plan(plan.recipe, plan.format)
    return unchanged(job, plan, fresh)


def _require_own(job: Job, plan: Plan, ends: Endpoints) -> None:
    """Raise JobError unless the documents at the destination are those of the job.

    Users may have changed some; an earlier document of the job shows that this is an old copy.
    """
    destination = ends.destination
    published = {node.path: node for node in plan.published}
    done, owners = done_paths(job), set[Whose]()
    for path, content in documents(destination, done):
        if content is None:
            raise _not_own(job, destination, join(path, "zarr.json"), "nothing")
        owners.add(whose(job, published[path], content))
        if "earlier" in owners:
            raise _not_own(job, destination, join(path, "zarr.json"), "an earlier document of the job")
    if done and "current" not in owners:
        raise _not_own(job, destination, join(done[0], "zarr.json"), "another document")
    if plan.in_place:
        return
    _require_chunks(job, plan, ends)
    if done:
        return
    if not _has_written(job):
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


def require_result(job: Job, plan: Plan, destination: Storage) -> None:
    """Raise JobError unless a place has something of the job, whatever else was changed there since."""
    if job.state == "undone" or not_yet_aside(job, destination):
        return
    published = {node.path: node for node in plan.published}
    done = [path for path in done_paths(job) if path in published]
    if not done:
        if not plan.in_place and not _has_written(job):
            _require_unfinished(job, plan, destination)
        return
    exists = False
    for path, content in documents(destination, done):
        exists = exists or content is not None
        if content is not None and whose(job, published[path], content) in OWN:
            return
    if exists or job.fact("undoing") is None:
        key, what = join(done[0], "zarr.json"), "another document" if exists else "nothing"
        raise _not_own(job, destination, key, what)


def _require_unfinished(job: Job, plan: Plan, destination: Storage) -> None:
    """Raise JobError if a place has anything but what a job that has recorded nothing may have written."""
    for name in _LEGACY:
        if destination.size(name) is not None:
            raise _not_own(job, destination, name, "another archive")
    planned = {node.path: document(node.document) for node in plan.published}
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
        lost = lost_tasks(array, source, ends.source, ends.destination, recorded)
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
        try:
            modified_ns = os.stat(destination.path(join(row.path, "zarr.json"))).st_mtime_ns
        except OSError:
            continue
        if modified_ns != row.published_ns:
            changed.append((row.id, max(modified_ns, time.time_ns())))
    if changed:
        job.record_published(changed)


def _has_written(job: Job) -> bool:
    return any(total.chunks > total.dropped for total in job.totals().values())

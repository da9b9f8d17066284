"""A job whose source or destination is at another place than when it began.

The places that a job names are never changed on a guess: `resume` is told the new ones, or `migrate` is
called with them once the old ones are gone. The destination then has to hold what the job has published;
that is how it is recognised, since nothing in it bears the job's name.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from itertools import islice
from typing import Final

from zarrstack.core.errors import JobError
from zarrstack.core.json_text import document
from zarrstack.core.paths import join, names_below

from ...archive.chunk_inventory import take_inventory
from ...planning.plans import Plan
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import is_url
from ...storage.redact import redact
from ..endpoints import Ends, refuse_existing
from ..ledger.find_job import names_of, places_of
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow
from ..publisher import is_root_document
from .lost_tasks import lost_tasks
from .replan import unchanged

_BATCH: Final = 500
"""Documents that are compared at a time."""


def refuse_other_place(target: str | os.PathLike[str], job: Job) -> None:
    """JobError where the place that a command was given is not one that the job names.

    It has the job file beside it: someone moved both, or renamed what it is beside.
    """
    text = os.fspath(target)
    if os.path.isfile(text) or names_of(text) & {
        name for place in places_of(job) for name in names_of(place)
    }:
        return
    header = json.loads(job.fact("plan") or "{}")
    option = "--source" if header.get("in_place") else "--destination"
    raise JobError(
        "the job is of another place",
        key=str(job.path),
        found=str(header.get("destination")),
        expected=redact(text),
        advice="If it was moved, run: "
        + shlex.join(["zarrlift", "resume", str(job.path), option, redact(text)]),
    )


def refuse_nothing_found(job: Job, plan: Plan, destination: Storage) -> None:
    """JobError where the job has written something, and none of it is there."""
    if job.fact("undoing") is not None:
        return  # what is gone may have been removed by the undo that was stopped
    done = [join(row.path, "zarr.json") for row in _done(job)]
    if done:
        found = any(content is not None for keys in _batches(done) for content in destination.find_many(keys))
    else:
        found = not _has_written(job) or any(True for _ in islice(destination.list_dir(""), 1))
    if not found:
        raise JobError(
            "nothing that this job wrote is there",
            key=str(job.path),
            found=f"nothing of it at {plan.destination}",
            advice="If it was moved, resume the job with --destination (in place --source) first; if it was"
            " deleted, delete the job file.",
        )


def follow(job: Job, ends: Ends) -> None:
    """Let a job that is open for writing go on at other places; JobError where that is not its work."""
    header = json.loads(job.fact("plan") or "{}")
    if (header["source"], header["destination"]) == (ends.source.url, ends.destination.url):
        return
    if header["destination"] != ends.destination.url:
        _require_own(job, job.plan(), ends)
        if isinstance(ends.destination, LocalStorage):
            _take_times(job, ends.destination)
    header.update(source=ends.source.url, destination=ends.destination.url)
    job.note(plan=json.dumps(header), source_place=ends.lasting_place)
    job.commit()


def has_moved(job: Job, made: Plan, ends: Ends) -> bool:
    """Whether the places that `migrate` was called with are those of this job, by new names.

    Those by the old names are gone, the destination holds what the job wrote, and what that was made of is
    unchanged.
    """
    if made.in_place != ends.in_place or job.state == "undone":
        return False
    pairs = {(made.source, ends.source.url), (made.destination, ends.destination.url)}
    before = [old for old, new in pairs if old != new]
    if any(is_url(place) or os.path.lexists(place) for place in before):
        return False
    try:
        _require_own(job, made, ends)
    except JobError:
        return False
    fresh, _ = ends.plan(made.recipe, made.format, made.reading)
    return unchanged(job, made, fresh)


def _require_own(job: Job, plan: Plan, ends: Ends) -> None:
    """JobError unless the destination is as the job left it, as far as documents tell."""
    destination = ends.destination
    documents = {node.path: node.document for node in plan.published}
    done = [row.path for row in _done(job)]
    for paths in _batches(done):
        keys = [join(path, "zarr.json") for path in paths]
        for path, key, content in zip(paths, keys, destination.find_many(keys), strict=True):
            ours = content == document(documents[path])
            if not ours and not (content and path == "" and is_root_document(job, content)):
                found = "nothing" if content is None else "another document"
                raise _not_own(job, ends, key, found)
    if plan.in_place:
        return
    _require_chunks(job, plan, ends)
    if done:
        return
    if not _has_written(job):
        refuse_existing(destination)
        return
    totals = job.totals()
    rows = {row.path: row.id for row in job.nodes("array")}
    for array in plan.arrays:
        total = totals.get(rows[array.path])
        if total is None or total.chunks <= total.dropped:
            continue
        if not len(take_inventory(destination, array.path, array.destination).indexes):
            raise _not_own(job, ends, array.path, "no chunk")


def _require_chunks(job: Job, plan: Plan, ends: Ends) -> None:
    """JobError where a copy was cut short: an array that is done is not looked at again by a resume.

    Which chunks there have to be is known from the source, where that is unchanged.
    """
    done = {row.path: row.id for row in _done(job)}
    below = names_below(node.path for node in plan.nodes)
    for array in plan.arrays:
        if array.path not in done or not array.tasks:
            continue
        children = below.get(array.path, frozenset())
        links = plan.reading.follow_links
        source = take_inventory(ends.source, array.path, array.source, children=children, follow_links=links)
        if source.fingerprint != array.fingerprint:
            continue
        recorded = job.recorded(done[array.path])
        lost = lost_tasks(array, source, ends.source, ends.destination, recorded)
        if lost:
            raise JobError(
                "not all that the job wrote is there",
                key=array.path,
                found=f"chunks of {len(lost)} of {array.tasks} tasks are missing at {ends.destination.url}",
                advice="Move or copy the rest, too.",
            )


def _not_own(job: Job, ends: Ends, key: str, found: str) -> JobError:
    return JobError(
        "this is not what the job wrote",
        key=key,
        found=f"{found} at {ends.destination.url}",
        expected=f"what the job {job.path} has published",
        advice="Name the place to which the job's destination was moved.",
    )


def _take_times(job: Job, destination: LocalStorage) -> None:
    """A copy may have times of its own: what is there now counts as written by the job."""
    changed = []
    for row in _done(job):
        try:
            there = os.stat(destination.path(join(row.path, "zarr.json"))).st_mtime_ns
        except OSError:
            continue
        if there != row.published_ns:
            changed.append((row.id, max(there, time.time_ns())))
    if changed:
        job.record_published(changed)


def _done(job: Job) -> list[NodeRow]:
    return [row for row in job.nodes() if row.state == "done"]


def _has_written(job: Job) -> bool:
    return any(total.chunks > total.dropped for total in job.totals().values())


def _batches(items: list[str]) -> list[list[str]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]

"""`--overwrite`: renames the old tree first and deletes it last, so nothing is lost in between."""

from __future__ import annotations

import contextlib
import os
import stat

from zarrstack.core.errors import Problem
from zarrstack.system.this import system

from ..errors import JobError
from ..storage.base import Storage
from ..storage.local.files import storage_error
from ..storage.local.own_names import sibling
from ..storage.local.storage import LocalStorage
from .ledger.ledger import Job


def set_aside(job: Job, destination: Storage) -> None:
    """Rename the old tree to a name that contains the job's id. May be repeated.

    Does nothing for a job that was not created to overwrite. The intent is stored in the job when it is
    created: after a kill, the rename is repeated if it did not happen, and the new tree is kept if it did.
    """
    if not job.record.overwrite or job.fact("set_aside") is not None:
        return
    if not isinstance(destination, LocalStorage):
        if not destination.is_empty():
            raise JobError(
                "an object store cannot be set aside, so it cannot be overwritten",
                found=destination.url,
                advice="Delete it yourself, or choose another place.",
            )
    else:
        old = os.path.basename(_name(job, destination))
        try:
            folder, name = destination.opened.folder(), destination.root.name
            if folder.mode(old) is None and folder.mode(name) is not None:
                folder.rename(name, folder, old)
                destination.opened.forget()
        except OSError as error:
            raise storage_error("cannot set the old tree aside", str(destination.root), error) from error
    job.note(set_aside="yes")
    job.commit()  # otherwise a repeated rename could take the new tree for the old one


def restore_previous_tree(job: Job, destination: Storage) -> Problem | None:
    """Rename the old tree back; returns a refusal with the reason if that is impossible."""
    if not isinstance(destination, LocalStorage):
        return None
    old = _name(job, destination)
    if not os.path.lexists(old):
        return None
    found = f"{destination.root} is there"
    if not os.path.lexists(destination.root):
        try:
            folder = destination.opened.folder()
            folder.rename(os.path.basename(old), folder, destination.root.name)
        except OSError as error:
            found = error.strerror or str(error)
        else:
            destination.opened.forget()
            return None
    return Problem(
        kind="aside",
        message="the old tree cannot be renamed back",
        key=old,
        found=found,
        expected=f"nothing at {destination.root}",
        advice="Remove what is there, and rename the old tree yourself.",
    )


def remove_previous_tree(job: Job, destination: Storage) -> None:
    """Remove the old tree after the new one is complete."""
    if not job.record.overwrite or not isinstance(destination, LocalStorage):
        return
    # A partially deleted tree must not be restored; under its other name no restore finds it.
    with contextlib.suppress(OSError):
        folder = destination.opened.folder()
        old, gone = (os.path.basename(_name(job, destination, what)) for what in ("old", "gone"))
        folder.rename(old, folder, gone)
    remove_deleted_tree(job, destination)


def remove_deleted_tree(job: Job, destination: Storage) -> None:
    """Delete the rest of an old tree whose removal was interrupted."""
    if not job.record.overwrite or not isinstance(destination, LocalStorage):
        return
    name = os.path.basename(_name(job, destination, "gone"))
    with contextlib.suppress(OSError):
        folder = destination.opened.folder()
        if stat.S_ISDIR(folder.mode(name) or 0):
            system.remove_tree(folder.prefix + name, ignore_errors=True, dir_fd=folder.descriptor)
        else:
            folder.unlink(name)


def left_aside(job: Job, destination: Storage) -> Problem | None:
    """A note with the location of the old tree while any part of it exists; else None."""
    if not job.record.overwrite or not isinstance(destination, LocalStorage):
        return None
    leftover, what = _name(job, destination, "gone"), "remove it"
    message = "the old tree could not be removed"
    if not os.path.lexists(leftover):
        leftover, what = _name(job, destination), "rename it back"
        message = "the old tree is kept until the new one is complete"
    if not os.path.lexists(leftover):
        return None
    advice = f"Resume once the cause is gone, or {what} yourself."
    return Problem(kind="aside", severity="note", message=message, found=leftover, advice=advice)


def resolve_previous_tree(job: Job, destination: Storage) -> None:
    """Remove the old tree kept by a job that is about to be replaced, since no other job would know of it.

    Raises JobError if the job's own result is incomplete, because the old tree may still be needed.
    """
    if job.state == "done":
        remove_previous_tree(job, destination)
    if (aside := left_aside(job, destination)) is not None:
        raise JobError(
            "an earlier migration to this location keeps the old tree until it is complete",
            key=str(job.path),
            found=aside.found,
            advice="Resume or undo that one first.",
        )


def not_yet_aside(job: Job, destination: Storage) -> bool:
    """Whether a job was stopped before it renamed the old tree, so the destination has nothing of the job."""
    if not job.record.overwrite or job.fact("set_aside") is not None:
        return False
    return not isinstance(destination, LocalStorage) or not os.path.lexists(_name(job, destination))


def _name(job: Job, destination: LocalStorage, what: str = "old") -> str:
    return str(sibling(destination.root, f".zarrlift-{what}-{job.id}"))

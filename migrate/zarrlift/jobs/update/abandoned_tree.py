"""Takes in the new tree of an interrupted update that was made beside its result (the former `--atomic`).

Such an update wrote to a tree that began as hard links to the files of the result, and recorded its work in
the job. The files of the tree become those of the result, so that the records are true of the result.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from ...storage.base import Storage
from ...storage.local.scratch import is_own
from ...storage.local.storage import LocalStorage
from ...storage.local.system_errors import storage_error
from ...storage.writer_for import writer_for
from ..ledger.ledger import Job


def take_in_abandoned_tree(job: Job, destination: Storage) -> None:
    """Bring what an update left beside a result into it, and remove the rest. StorageError, DestinationError.

    May be repeated. Files that others have written to the result since the tree was made are kept.
    """
    if not isinstance(destination, LocalStorage):
        return
    root = str(destination.root)
    tree, partial, before = (f"{root}.zarrlift-{name}-{job.id}" for name in ("new", "making", "before"))
    try:
        for other in (tree, before):
            if os.path.lexists(other) and not os.path.lexists(root):  # killed between two renames
                os.rename(other, root)
        if os.path.lexists(tree):
            _take_in(job, tree, destination)
    except OSError as error:
        raise storage_error("cannot complete an earlier update", tree, error) from error
    for path in (tree, partial, before):
        if os.path.islink(path):
            with suppress(OSError):
                os.unlink(path)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _take_in(job: Job, tree: str, destination: LocalStorage) -> None:
    """Make the files of the result those of the tree; OSError, DestinationError.

    Documents that differ are deleted first and written last: no array is visible in between.
    """
    new, old = _files(tree), _files(str(destination.root))
    made = min((status.st_ctime_ns for status in new.values()), default=0)
    differing = {key for key in new.keys() | old.keys() if not _same(new.get(key), old.get(key))}
    # What is newer in the result was written by others, or by an earlier attempt.
    differing -= {key for key, status in old.items() if status.st_mtime_ns >= made}
    for key in sorted(differing, key=_is_document, reverse=True):
        if _is_document(key) or key not in new:
            destination.delete(key)
    writer = writer_for(destination, job.id, fsync=False, in_place=False)
    for key in sorted(differing & new.keys(), key=_is_document):
        with open(os.path.join(tree, key), "rb") as file:
            writer.write(key, file.read())
        times = new[key].st_atime_ns, new[key].st_mtime_ns
        os.utime(destination.path(key), ns=times)  # what the job knows of its documents includes their time
    writer.close()


def _files(root: str) -> dict[str, os.stat_result]:
    """The files below a directory by key, without those that a job is writing."""
    found = {}
    for directory, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not is_own(name)]
        for name in names:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, root).replace(os.sep, "/")] = os.lstat(path)
    return found


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] == "zarr.json"


def _same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Whether two files are one, or a copy of the other with its time."""
    if one is None or other is None:
        return False
    return os.path.samestat(one, other) or (one.st_size, one.st_mtime_ns) == (
        other.st_size,
        other.st_mtime_ns,
    )

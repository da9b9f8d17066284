"""`update --atomic`: the update is made in a new tree beside the result, which then takes its place.

The new tree begins as hard links to the files of the result. Files are only ever replaced, so that those of
the result stay as they are.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace

from zarrstack.core.errors import JobError, UsageError

from ...storage.local.storage import LocalStorage
from ...storage.local.system_errors import storage_error
from ...storage.transformer_stack import with_layers
from ..endpoints import Endpoints
from ..ledger.ledger import Job


class NewTree:
    """The new tree of a job's update, under a name that contains the job's id."""

    def __init__(self, job: Job, ends: Endpoints) -> None:
        """UsageError unless the result is a local copy."""
        if ends.in_place or ends.local_destination is None:
            raise UsageError(
                "a new tree can only take the place of a local directory",
                found=ends.destination.url,
                advice="Update without --atomic, or migrate to another place.",
            )
        self._ends = ends
        self._root = str(ends.local_destination)
        self._tree, self._partial, self._before = _names(self._root, job.id)

    @property
    def ends(self) -> Endpoints:
        """Source and destination of the update: the new tree if it exists, else the result."""
        if not os.path.lexists(self._tree):
            return self._ends
        made = LocalStorage(self._tree)
        made.document_bound = self._ends.destination.document_bound
        return replace(
            self._ends,
            destination=with_layers(made, self._ends.destination_through, written=True),
            destination_place=self._tree,
            local_destination=made.root,
        )

    def recover(self, *, complete: bool) -> None:
        """End what a killed process has begun; `complete`: the new tree may take its place. StorageError."""
        shutil.rmtree(self._partial, ignore_errors=True)
        if os.path.lexists(self._tree) and (complete or not os.path.lexists(self._root)):
            self.publish()
        shutil.rmtree(self._before, ignore_errors=True)

    def make(self) -> None:
        """Make the new tree, unless it exists; StorageError."""
        if os.path.lexists(self._tree):
            return
        try:
            shutil.copytree(self._root, self._partial, symlinks=True, copy_function=_share)
            os.rename(self._partial, self._tree)
        except (OSError, shutil.Error) as error:
            shutil.rmtree(self._partial, ignore_errors=True)
            if isinstance(error, shutil.Error):
                raise JobError("cannot make a new tree", key=self._tree, found=str(error)[:200]) from error
            raise storage_error("cannot make a new tree", self._tree, error) from error

    def publish(self) -> None:
        """Let the new tree take the place of the result; StorageError."""
        try:
            if os.path.lexists(self._root):
                os.rename(self._root, self._before)
            os.rename(self._tree, self._root)
        except OSError as error:
            raise storage_error("cannot rename the new tree", self._tree, error) from error
        shutil.rmtree(self._before, ignore_errors=True)


def _share(source: str, target: str) -> None:
    """Link a file, or copy it with its times where links are not possible; OSError."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def drop_new_tree(job: Job, destination: object) -> None:
    """Remove what an interrupted update has left beside a result that is undone."""
    if isinstance(destination, LocalStorage):
        for path in _names(str(destination.root), job.id):
            with suppress(OSError):
                shutil.rmtree(path)


def _names(root: str, job: str) -> tuple[str, str, str]:
    """The new tree, the same while it is made, and the result whose place it takes."""
    return f"{root}.zarrlift-new-{job}", f"{root}.zarrlift-making-{job}", f"{root}.zarrlift-before-{job}"

"""A local file that is kept in a store: this process works on a copy, and uploads it.

The object in the store counts. The copy is in a temporary directory, which is removed with the `StoredFile`;
a killed process loses what it has not uploaded.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import StorageError, UsageError

from ...errors import JobError
from ...storage.remote.stored_object import ObjectVersion, StoredObject

INTERVAL: Final = 30.0
"""Seconds between two uploads in the background."""
_SHARE: Final = 10
"""An upload takes at most this part of the time: one that takes 6 s is followed by 60 s without any."""
_ATTEMPTS: Final = 5
_ADVICE: Final = "Nothing is lost: what is not recorded in it is repeated by zarrlift resume."
_CHECK: Final = (
    "Check the permission to write there, and --storage-options job:KEY=VALUE. Nothing was written."
)

_folders: Final[set[str]] = set()
"""Directories of copies that are removed."""

log: Final = logging.getLogger("zarrlift")


class StoredFile(os.PathLike[str]):
    """A local copy of an object that one process at a time may replace.

    It serves as a path: `os.fspath` gives the copy, `str` the object's URL without secrets, for messages.

    - `fetch` makes the copy, `refresh` makes it again if the object has changed.
    - `save` uploads the copy and returns when the store has it, `save_sometimes` in the background, once in
      `INTERVAL`; `changed` chooses. They are called when the file is consistent: for SQLite, after a commit.
    - Every upload is conditional: the object must be the version that was fetched or uploaded last. The
      first one takes the object over (`owned`). A process from which it was taken over gets a JobError from
      its next upload and from all later ones (`lost`), and has replaced nothing. The contents of two
      processes must therefore differ: a job records its process before it does anything.

    Not safe for threads.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        """Nothing is requested yet. UsageError if the store cannot compare versions."""
        self._object = StoredObject(url, options)
        self.options: Final = dict(options or {})
        folder = tempfile.mkdtemp(prefix="zarrlift-job-")
        self._path = os.path.join(folder, url.rpartition("/")[2])
        _folders.add(folder)
        weakref.finalize(self, _remove, folder, os.getpid())
        self.owned = False
        """Whether this process has written the object last."""
        self.lost: JobError | None = None
        """The reason why this process may not write the object any more."""
        self._version: ObjectVersion | None = None
        self._stored: bytes | None = None
        """Digest of the object's content."""
        self._sent: set[bytes] = set()
        """Digests of uploads without a known result."""
        self._upload: tuple[Future[ObjectVersion | None], bytes, float] | None = None
        self._next = 0.0

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._object.url

    def fetch(self) -> bool:
        """Copy the object; False if there is none. StorageError if it cannot be read."""
        current = self._object.read()
        if current is not None:
            data, self._version = current
            self._stored = _digest(data)
            Path(self).write_bytes(data)
        return current is not None

    def refresh(self) -> None:
        """Copy the object again if it was changed; JobError if it was deleted."""
        version = self._version
        if self.owned or version is None or self._object.version() == version or self.fetch():
            return
        raise JobError("there is no such job file", key=str(self))

    def unlink(self) -> None:
        """Remove the copy; the object stays until it is replaced by the next upload."""
        os.unlink(self)

    def save(self) -> None:
        """Upload the copy, unless the store has it; JobError if the store has another version or fails."""
        with suppress(StorageError, UsageError):  # the failure of an upload in the background
            self._settle()
        try:
            for _ in range(_ATTEMPTS):
                data = Path(self).read_bytes()
                if self.owned and _digest(data) == self._stored:
                    return
                takes_over, created = not self.owned, self._version is None
                self._begin(data)
                self._settle()
                if takes_over and self._version and not self._object.is_compared(data, self._version):
                    if created:
                        self._object.delete()
                    raise self._mark_lost(_not_compared(str(self)))
            raise JobError("another process changes the job file at the same time", key=str(self))
        except (StorageError, UsageError) as error:
            problem = error.problem
            raise JobError(
                "cannot upload the job file",
                key=str(self),
                found=problem.found or problem.message,
                advice=_ADVICE if self.owned else _CHECK,
            ) from error

    def changed(self, *, now: bool = False) -> None:
        """Take note that the copy has changed: `save` for the first time or with `now`, else sometimes."""
        if now or not self.owned:
            self.save()
        else:
            self.save_sometimes()

    def save_sometimes(self) -> None:
        """Start to upload the copy if it is time; JobError if the store has another version.

        The failure of an upload is a warning in the log; the next one follows after `INTERVAL`.
        """
        if self._upload is not None:
            if not self._upload[0].done():
                return
            try:
                self._settle()
            except (StorageError, UsageError) as error:
                log.warning("%s: the job file cannot be uploaded now: %s", self, error)
        if self.lost is not None:
            raise self.lost
        if time.monotonic() >= self._next and _digest(data := Path(self).read_bytes()) != self._stored:
            self._begin(data)

    def end(self) -> None:
        """Upload what this process has changed; JobError if that fails, and then the copy is kept."""
        if not self.owned or self.lost is not None:
            return
        try:
            self.save()
        except JobError as error:
            if self.lost is None:
                _folders.discard(os.path.dirname(self._path))
                advice = f"{_ADVICE} The copy is kept: {self._path}"
                raise JobError.of(replace(error.problem, advice=advice)) from error
            raise

    def send_beside(self, path: Path) -> None:
        """Upload a file next to the copy, whose name has a suffix; another process may replace it.

        Its content must therefore say to what it belongs. StorageError.
        """
        self._object.send_beside(self._suffix(path), path)

    def fetch_beside(self, path: Path) -> None:
        """Copy such a file from the store, if it exists; StorageError."""
        self._object.fetch_beside(self._suffix(path), path)

    def delete_beside(self, path: Path) -> None:
        """Delete such a file in the store, which may be absent; StorageError."""
        self._object.delete_beside(self._suffix(path))

    def _suffix(self, path: Path) -> str:
        return path.name.removeprefix(os.path.basename(self._path))

    def _begin(self, data: bytes) -> None:
        if self.lost is not None:
            raise self.lost
        digest = _digest(data)
        self._sent.add(digest)
        self._next = time.monotonic() + INTERVAL
        self._upload = (self._object.replace(data, self._version), digest, time.monotonic())

    def _settle(self) -> None:
        """Take the result of the last upload; JobError if it was refused, StorageError if it failed."""
        if self._upload is None:
            return
        future, digest, began = self._upload
        self._upload = None
        version = future.result()
        now = time.monotonic()
        self._next = max(self._next, now + (now - began) * _SHARE)
        if version is None:
            version, digest = self._own_upload()
        self._version, self._stored, self.owned = version, digest, True
        self._sent.clear()

    def _own_upload(self) -> tuple[ObjectVersion, bytes]:
        """The object, if it is from an upload whose answer did not arrive; JobError if it is not."""
        current = self._object.read()
        if current is not None and (digest := _digest(current[0])) in self._sent:
            return current[1], digest
        if current is None:
            message, what = "the job file was deleted while this process used it", "no such object"
        elif self.owned:
            message, what = "another process has taken over this job", "a version that it has uploaded"
        else:
            message, what = "another process changed the job file at the same time", "a newer version"
        advice = "This process stops. Do not run both; to continue with this one, run the command again."
        raise self._mark_lost(JobError(message, key=str(self), found=what, advice=advice))

    def _mark_lost(self, error: JobError) -> JobError:
        self.lost, self.owned = error, False
        return error


JobPath: TypeAlias = Path | StoredFile
"""A job file: a local one, or one that is kept in a store."""


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def remove_copies() -> None:
    """Remove the copies of this process, for one that ends without running finalizers."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process and folder in _folders:  # a fork has the same finalizers
        _folders.discard(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _not_compared(url: str) -> JobError:
    return JobError(
        "the store replaces a job file without comparing its version",
        key=url,
        found="a request with If-Match for another version was accepted",
        expected="HTTP status 412",
        advice="Two runs could overwrite each other's records. Keep the job file in a local directory.",
    )

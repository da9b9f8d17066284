"""Storage as the engine sees it: synchronous, keyed by paths relative to one root.

`LocalStorage` goes straight to the file system, which is where archives of many small
chunks spend their time. Every other place is reached through zarr's own `Store`
interface (`storage_zarr.StoreStorage`), so that a source or destination may be any
stack of transformers. None means *proven absent*, never *could not read*.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import StorageError, UsageError

if TYPE_CHECKING:
    from zarr.abc.store import Store

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Entry:
    """One name directly under a prefix."""

    name: str
    is_dir: bool
    link: str | None = None
    """Where a symbolic link leads, resolved to an absolute path; None for anything else."""


class Storage(ABC):
    """A place that holds objects by key."""

    url: str
    can_list: bool = True

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The whole object, or None if it is proven absent; StorageError otherwise."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object, so that a reader sees the old one or the new one."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; fine if it is absent."""

    @abstractmethod
    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """The names directly under a prefix ("" is the root), in any order; none if absent."""

    @abstractmethod
    def zarr_store(self) -> Store:
        """The same place as zarr-python sees it; independent readers come in through it."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Several whole objects; remote stores fetch them concurrently."""
        return [self.get(key) for key in keys]


class LocalStorage(Storage):
    """A directory. Keys never escape it: `..` and absolute keys are refused."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)
        self._prefix = str(self.root) + os.sep

    def path(self, key: str) -> str:
        """Where an object lies in the file system."""
        if key.startswith("/") or ".." in key and ".." in key.split("/"):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key if key else str(self.root)

    def get(self, key: str) -> bytes | None:
        """The file's content; a directory in its place counts as absent."""
        try:
            with open(self.path(key), "rb", buffering=0) as file:
                return file.readall()
        except OSError as error:
            if error.errno in _ABSENT or error.errno == errno.EISDIR:
                return None
            raise storage_error("cannot read", key, error) from error

    def put(self, key: str, data: bytes) -> None:
        """Write beside and rename, so that a killed process leaves no half document."""
        path = self.path(key)
        temporary = f"{path}.{os.getpid()}.partial"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError as error:
            raise storage_error("cannot write", key, error) from error

    def delete(self, key: str) -> None:
        """Unlink the file."""
        try:
            os.unlink(self.path(key))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise storage_error("cannot delete", key, error) from error

    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """The directory's entries; links are resolved so that the caller can judge them."""
        path = self.path(prefix)
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    link = os.path.realpath(entry.path) if entry.is_symlink() else None
                    yield Entry(entry.name, entry.is_dir(), link)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise storage_error("cannot list", prefix, error) from error

    def zarr_store(self) -> Store:
        """A `LocalStore`; zarr is imported here, since moving bytes does not need it."""
        from zarr.storage import LocalStore

        return LocalStore(self.root)


def storage_error(what: str, key: str, error: OSError) -> StorageError:
    """A StorageError that says what the operating system said."""
    advice = {
        errno.ENOSPC: "Free some space and resume.",
        errno.EACCES: "Check the permissions and resume.",
        errno.EROFS: "The file system is read-only.",
    }.get(error.errno or 0)
    return StorageError(what, key=key, found=error.strerror or str(error), advice=advice)

"""A local directory as storage, by direct access to the file system."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError
from zarrstack.system.this import system

from ..base import CLAIM, DirectoryEntry, ObjectPart, Storage
from ..versions import Version, require_version, version_of
from .file_copy import write_all
from .files import (
    ReadLimit,
    is_dir,
    is_directory,
    not_regular,
    open_regular,
    read_at,
    read_file,
    storage_error,
)
from .open_directories import OpenDirectories
from .own_names import directory_of
from .partial_files import create_file, partial_name

if TYPE_CHECKING:
    from zarr.abc.store import Store


_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


_SEPARATOR: Final[str] = os.sep


class LocalStorage(Storage):
    """A directory. Keys cannot leave it: `..` and absolute keys are refused."""

    exclusive = True
    tells_versions = system.entries_tell

    def __init__(self, root: str | os.PathLike[str], *, resolved: bool = False) -> None:
        """`resolved`: there are no links in the path, and none is followed that is put there."""
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)
        self._prefix = system.long_path(str(self.root)).rstrip(os.sep) + os.sep
        self.opened = OpenDirectories(system.long_path(str(self.root)), resolved=resolved)
        """What is written and deleted goes through these."""

    @property
    def real(self) -> str:
        """The root with links resolved, with which targets of links are compared."""
        return self.opened.real

    def path(self, key: str) -> str:
        """The path of an object in the file system."""
        if _SEPARATOR != "/":
            key = _as_path(key)
        if key.startswith(_SEPARATOR) or ".." in key and ".." in key.split(_SEPARATOR):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key if key else str(self.root)

    def get(
        self, key: str, limit: ReadLimit | None = None, *, version: Version | None = None
    ) -> bytes | None:
        """The file's content; a directory in its place counts as absent.

        A broken link is an error rather than an absence: the object exists elsewhere (git-annex uses such
        links for content that is not fetched).
        """
        path = self.path(key)
        try:
            return read_file(path, limit or self.document_limit, version)
        except ZarrstackError as error:
            raise error.at(key=key) from None
        except OSError as error:
            if not is_directory(path, error):
                self._require_absence(key, error)
            return None

    def find_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Like `get_many`, with one `lstat` per missing object, which `get` would need in addition."""
        return [self.get(key) if os.path.lexists(self.path(key)) else None for key in keys]

    def get_part(self, key: str, start: int, length: int, *, version: Version | None = None) -> bytes | None:
        """One read; see `get` for absent objects."""
        end = self.get_end(key, start, length, version=version)
        return None if end is None else end.data

    def get_end(
        self, key: str, start: int, length: int, *, version: Version | None = None
    ) -> ObjectPart | None:
        path = self.path(key)
        try:
            descriptor, facts = open_regular(path)
            try:
                size = facts.st_size
                data = read_at(descriptor, min(length, size), max(size - length, 0) if start < 0 else start)
                require_version(descriptor, version)
                return ObjectPart(data, size, version_of(facts) if self.tells_versions else None)
            finally:
                os.close(descriptor)
        except StorageError as error:
            raise error.at(key=key) from None
        except OSError as error:
            if not is_directory(path, error):
                self._require_absence(key, error)
            return None

    def size(self, key: str) -> int | None:
        try:
            facts = os.stat(self.path(key))
        except OSError as error:
            self._require_absence(key, error)
            return None
        if stat.S_ISREG(facts.st_mode):
            return facts.st_size
        if stat.S_ISDIR(facts.st_mode):
            return None
        raise not_regular(facts.st_mode).at(key=key)

    def hold(self, *, make: bool = False) -> None:
        """Open the root if it exists; what its path leads to later is not written to. StorageError."""
        try:
            if make or os.path.isdir(self.real):
                self.opened.root(make=make)
        except OSError as error:
            raise storage_error("cannot write", self.url, error) from error

    def make_directory(self, name: str) -> None:
        """Make a directory in the root, unless there is one; StorageError."""
        self.hold(make=True)
        try:
            self.opened.root().make(name)
        except OSError as error:
            raise storage_error("cannot write", name, error) from error

    def put(self, key: str, data: bytes) -> None:
        """Write a temporary file and rename it, so a killed process leaves no partial document."""
        directory, name = self._split(key)
        try:
            at = self.opened.at(directory, make=True, fresh=True)
            temporary = partial_name(name)
            descriptor = at.create(temporary)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
            at.rename(temporary, at, name)
        except OSError as error:
            raise storage_error("cannot write", key, error) from error

    def create(self, key: str, data: bytes) -> bool:
        directory, name = self._split(key)
        try:
            return create_file(self.opened.at(directory, make=True, fresh=True), name, data)
        except OSError as error:
            raise storage_error("cannot write", key, error) from error

    def delete(self, key: str) -> None:
        directory, name = self._split(key)
        self.opened.require_same()  # what is to be deleted was chosen by paths
        try:
            self.opened.at(directory).unlink(name)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise storage_error("cannot delete", key, error) from error

    def delete_empty(self, key: str) -> None:
        """Remove an empty directory ("" is the root itself); OSError, StorageError."""
        directory, name = self._split(key)
        self.opened.require_same()
        at = self.opened.at(directory) if name else self.opened.folder()
        name = name or self.root.name
        os.rmdir(at.prefix + name, dir_fd=at.descriptor)

    def delete_tree(self, key: str) -> None:
        """Remove a directory with its content, which may be absent; StorageError.

        Links in it are removed, and not their targets.
        """
        directory, name = self._split(key)
        try:
            at = self.opened.at(directory, fresh=True)
            if at.mode(name) is not None:
                system.remove_tree(at.prefix + name, dir_fd=at.descriptor)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise storage_error("cannot delete", key, error) from error

    def attach(self, job_id: str, *, worker: bool = False) -> None:
        """Let a worker open the root only if it has the directory that its job has made there."""
        if worker:
            self.opened.marker = directory_of(job_id)

    def _split(self, key: str) -> tuple[str, str]:
        """The key of the directory of an object, and its name in it; UsageError as from `path`."""
        self.path(key)
        directory, _, name = key.rpartition("/")
        return directory, name

    def scandir(self, prefix: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """The entries of a directory; OSError."""
        return os.scandir(self.path(prefix))

    def list_dir(self, prefix: str) -> Iterator[DirectoryEntry]:
        """The directory's entries; links are resolved for the caller's decision."""
        path = self.path(prefix)
        try:
            with self.scandir(prefix) as entries:
                for entry in entries:
                    if not prefix and entry.name.startswith(CLAIM):
                        continue
                    if entry.is_symlink():
                        # os.path.isdir returns False where DirEntry.is_dir raises: for a link to itself.
                        yield DirectoryEntry(
                            entry.name, os.path.isdir(entry.path), os.path.realpath(entry.path)
                        )
                    else:
                        yield DirectoryEntry(entry.name, entry.is_dir())
        except OSError as error:
            if error.errno not in _ABSENT or os.path.islink(path):
                raise storage_error("cannot list", prefix, error) from error

    def directories(self, prefix: str) -> list[str]:
        """Names of the subdirectories of a directory, faster than `list_dir` among many files.

        Empty if the directory does not exist.
        """
        try:
            with self.scandir(prefix) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error("cannot list", prefix, error) from error

    def link(self, key: str) -> str | None:
        """One `lstat` for an object that is not a link."""
        path = self.path(key)
        return os.path.realpath(path) if os.path.islink(path) else None

    def leaves_root(self, link: str | None) -> bool:
        """Compares resolved paths, so links in the path of the root itself do not matter."""
        if link is None or link == self.real:
            return False
        return not link.startswith(self.real.rstrip(os.sep) + os.sep)

    def refuse_links(self, key: str) -> None:
        """Raise StorageError if a link that is not followed is in place of a directory."""
        try:
            self.opened.at(key, fresh=True)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise storage_error("cannot list", key, error) from error

    def require_absent(self, key: str) -> None:
        """One `lstat`; zarr-python treats a broken link as an absence."""
        path = self.path(key)
        if os.path.islink(path) and not os.path.isdir(path):
            raise StorageError(
                "a link leads nowhere",
                key=key,
                found=f"a link to {os.readlink(path)}",
                expected="a link to a file",
                advice="Fetch its target; in an archive of git-annex or DataLad, with `git annex get`.",
            )

    def _require_absence(self, key: str, error: OSError) -> None:
        """Raise StorageError unless the error of a read means that the object is absent."""
        if error.errno not in _ABSENT:
            raise storage_error("cannot read", key, error) from error
        self.require_absent(key)

    def zarr_store(self) -> Store:
        """A `LocalStore`; zarr is imported here, because moving bytes does not need it.

        If the directory does not exist yet, an empty store: zarr-python 3.1.6 and 3.4.2 refuse to read below
        a missing directory, although an array without chunks needs no more.
        """
        from zarr.storage import LocalStore, MemoryStore

        return LocalStore(self.path("")) if is_dir(self.root) else MemoryStore()


def _as_path(key: str) -> str:
    """A key for systems with other separators; UsageError for one that would name another object there."""
    if _SEPARATOR in key or ":" in key:
        expected = f"no {_SEPARATOR} and no :"
        raise UsageError("this system cannot store the key", key=key, expected=expected)
    return key.replace("/", _SEPARATOR)


def sync(storage: Storage) -> bool:
    """Flush the file system of a directory to disk; False if it is none, or the system cannot do this."""
    return isinstance(storage, LocalStorage) and system.sync(str(storage.root))

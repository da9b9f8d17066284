"""Storage as the engine sees it: synchronous, keyed by paths relative to one root.

`LocalStorage` goes straight to the file system, which is where archives of many small
chunks spend their time. Every other place is reached through zarr's own `Store`
interface (`storage.remote.zarr_store.StoreStorage`), so that a source or destination may be any
stack of transformers. None means *proven absent*, never *could not read*.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from zarrstack.core.errors import Problem, StorageError, UsageError, ZarrstackError

from .listed_versions import FILES_TELL, held, require_same, require_version
from .listing import L, Listed
from .local.files import DOCUMENT, Bound, is_directory, not_regular, open_regular, read_at, read_file
from .local.partial_files import create_file, partial_name

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from .remote.async_requests import Soon


CLAIM: Final = ".zarrlift-claim"
"""How the names in a root begin by which a job keeps others away (`claiming`); they are in no listing."""

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_SEPARATOR: Final[str] = os.sep
CREATING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
"""For `os.open`. Windows would turn line ends of what is written so."""


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
    scratch: str | None = None
    """A local directory with what writers have half-written, which is removed while there are none."""
    in_process: bool = False
    """Whether what lies here lives and dies with this process."""
    exclusive: bool = False
    """Whether `create` is one operation, so that of many who try one succeeds."""
    soon: Soon | None = None
    """Requests that are answered later, of places where an answer takes time; None elsewhere."""
    document_bound: Bound = DOCUMENT
    """What is read of an object where the caller says no other bound."""
    tells_versions: bool = False
    """Whether what is read can be held against the version that a listing told."""
    beneath: Storage | None = None
    """Where layers stand over a place and change neither its keys nor its bytes: that place."""

    @abstractmethod
    def get(self, key: str, bound: Bound | None = None) -> bytes | None:
        """The whole object, or None if it is proven absent; StorageError otherwise.

        Of a larger one than `bound` (else `document_bound`) no more is read: ChunkError, BadObjectError.
        """

    def get_part(self, key: str, start: int, length: int) -> bytes | None:
        """Bytes of an object from `start` on, or its last ones where `start` is -`length`.

        Shorter where the object ends; None if it is proven absent. StorageError otherwise.
        """
        data = self.get(key)
        if data is None:
            return None
        return data[max(len(data) - length, 0) :] if start < 0 else data[start : start + length]

    def size(self, key: str) -> int | None:
        """Bytes of an object; None if it is proven absent. StorageError otherwise."""
        data = self.get(key)
        return None if data is None else len(data)

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object, so that a reader sees the old one or the new one."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a whole object where none is; False if there is one.

        Where the place is not `exclusive`, the last one of several who try at once has it, mostly.
        """
        if self.get(key) is not None:
            return False
        self.put(key, data)
        return self.get(key) == data

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """Write the `size` bytes of an open file as one object; stores that can, take it in pieces."""
        data = file.read()
        if len(data) != size:
            raise StorageError("a temporary file ended early", key=key, found=f"{len(data)} of {size} bytes")
        self.put(key, data)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; fine if it is absent."""

    @abstractmethod
    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """The names directly under a prefix ("" is the root), in any order; none if absent."""

    @abstractmethod
    def zarr_store(self) -> Store:
        """The same place as zarr-python sees it; independent readers come in through it."""

    def get_many(self, keys: Sequence[str], bound: Bound | None = None) -> list[bytes | None]:
        """Several whole objects, each as `get` gives it; remote stores fetch them concurrently."""
        return [self.get(key, bound) for key in keys]

    def find_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """As `get_many`, where most objects are not expected to be there."""
        return self.get_many(keys)

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Several whole objects; remote stores write them concurrently."""
        for key, data in items:
            self.put(key, data)

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[Entry]]:
        """`list_dir` of several prefixes; remote stores list them concurrently."""
        return [list(self.list_dir(prefix)) for prefix in prefixes]

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Every key that starts with `prefix`, which is "" or ends with "/", in any order."""
        pending = [prefix.rstrip("/")]
        while pending:
            directory = pending.pop()
            for entry in self.list_dir(directory):
                key = f"{directory}/{entry.name}" if directory else entry.name
                if entry.is_dir:
                    pending.append(key)
                else:
                    yield key

    def list_objects(self, prefix: str, new: Callable[[], L]) -> L:
        """As `list_prefix`, with what a listing tells of each object at no further cost.

        `new` makes what takes them, once more where a listing has to begin again; the last one is given.
        """
        taken = new()
        taken.take(map(Listed, self.list_prefix(prefix)))
        return taken

    def link(self, key: str) -> str | None:
        """Where `key` leads if it is a symbolic link, resolved; None for anything else."""
        return None

    def leaves_root(self, link: str | None) -> bool:
        """Whether a link (`Entry.link`, or what `link` gave) leads out of this place."""
        return False

    def require_absent(self, key: str) -> None:  # noqa: B027 - nothing to look for where there are no links
        """StorageError where an object that another reader did not find is a link that leads nowhere."""


class LocalStorage(Storage):
    """A directory. Keys never escape it: `..` and absolute keys are refused."""

    exclusive = True
    tells_versions = FILES_TELL

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)
        self._prefix = str(self.root).rstrip(os.sep) + os.sep
        self.real = os.path.realpath(self.root)
        """The root without links on the way to it; what links are judged against."""

    def path(self, key: str) -> str:
        """Where an object lies in the file system."""
        if _SEPARATOR != "/":
            key = _as_path(key)
        if key.startswith(_SEPARATOR) or ".." in key and ".." in key.split(_SEPARATOR):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key if key else str(self.root)

    def get(self, key: str, bound: Bound | None = None) -> bytes | None:
        """The file's content; a directory in its place counts as absent.

        A link that leads nowhere is no absence: an object lies somewhere else (git-annex keeps
        what it has not fetched like this), so it is an error.
        """
        path = self.path(key)
        try:
            return read_file(path, bound or self.document_bound, held(self, key))
        except ZarrstackError as error:
            raise error.at(key=key) from None
        except OSError as error:
            if not is_directory(path, error):
                self._require_absence(key, error)
            return None

    def find_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """One `lstat` for what is not there, which `get` would need besides."""
        return [self.get(key) if os.path.lexists(self.path(key)) else None for key in keys]

    def get_part(self, key: str, start: int, length: int) -> bytes | None:
        """One read; see `get` for what counts as absent."""
        path = self.path(key)
        try:
            descriptor, facts = open_regular(path)
            try:
                data = read_at(descriptor, length, max(facts.st_size - length, 0) if start < 0 else start)
                require_version(descriptor, held(self, key))
                return data
            finally:
                os.close(descriptor)
        except StorageError as error:
            raise error.at(key=key) from None
        except OSError as error:
            if not is_directory(path, error):
                self._require_absence(key, error)
            return None

    def size(self, key: str) -> int | None:
        """One `stat`."""
        try:
            facts = os.stat(self.path(key))
        except OSError as error:
            self._require_absence(key, error)
            return None
        if stat.S_ISREG(facts.st_mode):
            require_same(facts, held(self, key))
            return facts.st_size
        if stat.S_ISDIR(facts.st_mode):
            return None
        raise not_regular(facts.st_mode).at(key=key)

    def put(self, key: str, data: bytes) -> None:
        """Write beside and rename, so that a killed process leaves no half document."""
        path = self.path(key)
        temporary = partial_name(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError as error:
            raise storage_error("cannot write", key, error) from error

    def create(self, key: str, data: bytes) -> bool:
        """Write beside and link."""
        path = self.path(key)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return create_file(path, data)
        except OSError as error:
            raise storage_error("cannot write", key, error) from error

    def delete(self, key: str) -> None:
        """Unlink the file."""
        try:
            os.unlink(self.path(key))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise storage_error("cannot delete", key, error) from error

    def scandir(self, prefix: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """A directory as the system lists it; OSError."""
        return os.scandir(self.path(prefix))

    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """The directory's entries; links are resolved so that the caller can judge them."""
        path = self.path(prefix)
        try:
            with self.scandir(prefix) as entries:
                for entry in entries:
                    if not prefix and entry.name.startswith(CLAIM):
                        continue
                    if entry.is_symlink():
                        # os.path.isdir is False where DirEntry.is_dir raises: a link to itself.
                        yield Entry(entry.name, os.path.isdir(entry.path), os.path.realpath(entry.path))
                    else:
                        yield Entry(entry.name, entry.is_dir())
        except OSError as error:
            if error.errno not in _ABSENT or os.path.islink(path):
                raise storage_error("cannot list", prefix, error) from error

    def directories(self, prefix: str) -> list[str]:
        """Names of the directories directly below one, faster than `list_dir` among many files.

        An empty list where there is no such directory.
        """
        try:
            with self.scandir(prefix) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error("cannot list", prefix, error) from error

    def link(self, key: str) -> str | None:
        """One `lstat` for what is no link."""
        path = self.path(key)
        return os.path.realpath(path) if os.path.islink(path) else None

    def leaves_root(self, link: str | None) -> bool:
        """Judged on real paths, so that links on the way to the root itself do not matter."""
        if link is None or link == self.real:
            return False
        return not link.startswith(self.real.rstrip(os.sep) + os.sep)

    def require_absent(self, key: str) -> None:
        """One `lstat`; zarr-python takes a link that leads nowhere for an absence."""
        path = self.path(key)
        if os.path.islink(path) and not os.path.isdir(path):
            raise StorageError(
                "a link leads nowhere",
                key=key,
                found=f"a link to {os.readlink(path)}",
                expected="a link to a file",
                advice="Fetch what it leads to; in an archive of git-annex or DataLad, with `git annex get`.",
            )

    def _require_absence(self, key: str, error: OSError) -> None:
        """StorageError unless a failed read means that nothing is there."""
        if error.errno not in _ABSENT:
            raise storage_error("cannot read", key, error) from error
        self.require_absent(key)

    def zarr_store(self) -> Store:
        """A `LocalStore`; zarr is imported here, since moving bytes does not need it.

        Before the first object is written it is an empty store: zarr-python 3.1.6 and 3.4.2 refuse
        to read below a directory that does not exist, where an array without chunks is all there is.
        """
        from zarr.storage import LocalStore, MemoryStore

        return LocalStore(self.root) if self.root.is_dir() else MemoryStore()


def _as_path(key: str) -> str:
    """A key where paths have other separators; UsageError for one that would name something else there."""
    if _SEPARATOR in key or ":" in key:
        expected = f"no {_SEPARATOR} and no :"
        raise UsageError("a key that this system cannot keep", key=key, expected=expected)
    return key.replace("/", _SEPARATOR)


def system_refused(error: OSError) -> Problem:
    """An error of the operating system that came without a key, through a library."""
    key = "" if error.filename is None else os.fsdecode(error.filename)
    return storage_error("reading or writing failed", key, error).problem


def storage_error(what: str, key: str, error: OSError) -> StorageError:
    """A StorageError that says what the operating system said."""
    advice = {
        errno.ENOSPC: "Free some space and resume.",
        errno.EACCES: "Check the permissions, then try again or resume.",
        errno.EROFS: "Mount it so that it can be written and resume, or choose another place.",
    }.get(error.errno or 0)
    return StorageError(what, key=key, found=error.strerror or str(error), advice=advice)

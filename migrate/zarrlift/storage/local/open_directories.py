"""Open directories below a root, so that nothing outside it is written or deleted.

A root is resolved once, when its storage is opened. From then on each directory of its real path, and below
it, is opened in the one above it, without following links. Whatever is renamed or replaced by a link
afterwards, an open directory remains the same one: an open inode is not given to another directory, and file
systems whose inodes change (FUSE) keep that of an open one. Where the system has no such calls (Windows),
paths are used, and each directory is checked before.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from zarrstack.system.this import system

from ..writer import DestinationError
from .files import CREATING

Links: TypeAlias = Literal["refused", "inside", "followed"]
"""Links in place of directories below the root: `inside` follows those whose targets are inside it."""

BY_DESCRIPTOR: Final = {os.open, os.mkdir, os.unlink, os.rename, os.stat, os.link} <= os.supports_dir_fd
"""Whether the system opens names within an open directory."""
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""For `os.open`: an error for a link."""
_ANY_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: Final = os.O_RDONLY | _ANY_DIRECTORY
_ABOVE: Final = _ANY_DIRECTORY | getattr(os, "O_PATH", 0)
"""Directories above a root need no permission to list them, where the system can open them without it."""
_LINK: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""Errors of systems for a link that is not followed (EMLINK on FreeBSD)."""


class OpenDirectory:
    """A directory in which names are used, also as `os.rmdir(at.prefix + name, dir_fd=at.descriptor)`."""

    __slots__ = ("descriptor", "prefix")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self.prefix = "" if descriptor is not None else path.rstrip(os.sep) + os.sep

    def __del__(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    @property
    def listed(self) -> int | str:
        """What `os.listdir` takes for this directory."""
        return self.prefix if self.descriptor is None else self.descriptor

    def mode(self, name: str) -> int | None:
        """The mode of an entry, which may be a link; None if it is absent. OSError."""
        try:
            return os.stat(self.prefix + name, dir_fd=self.descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def open(self, name: str, *, follow: bool = False, flags: int = _DIRECTORY) -> OpenDirectory:
        """A directory in this one; OSError, with a text of its own for a link."""
        path = self.prefix + name
        try:
            if self.descriptor is None:
                if not follow and _is_link(path):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))  # noqa: TRY301
                if not stat.S_ISDIR(os.stat(path).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                return OpenDirectory(path, None)
            flags |= 0 if follow else NO_LINK
            return OpenDirectory(path, os.open(path, flags, dir_fd=self.descriptor))
        except OSError as error:
            if error.errno in _LINK and (target := self._target(name)) is not None:
                raise OSError(errno.ELOOP, f"a link to {target} in place of the directory {name}") from error
            raise

    def make(self, name: str) -> bool:
        """Make a directory in this one; False if there is something of this name. OSError."""
        try:
            os.mkdir(self.prefix + name, dir_fd=self.descriptor)
        except FileExistsError:
            return False
        return True

    def open_or_make(self, name: str, *, durable: bool = False, flags: int = _DIRECTORY) -> OpenDirectory:
        """A directory in this one, which is made if there is none; OSError."""
        try:
            return self.open(name, flags=flags)
        except FileNotFoundError:
            if self.make(name) and durable:  # another thread may be faster
                self.fsync()
            return self.open(name, flags=flags)

    def create(self, name: str, *, exclusive: bool = False) -> int:
        """The descriptor of a new file, which replaces the content of one unless `exclusive`; OSError."""
        flags = CREATING | os.O_EXCL if exclusive else CREATING
        return os.open(self.prefix + name, flags, 0o666, dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file or a link; OSError."""
        system.unlink(self.prefix + name, dir_fd=self.descriptor)

    def rename(self, name: str, to: OpenDirectory, new: str) -> None:
        """Rename an entry to `new` in another directory, where it replaces a file; OSError."""
        system.replace(
            self.prefix + name, to.prefix + new, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor
        )

    def fsync(self) -> None:
        """Make the names in this directory durable; on Windows they are. OSError."""
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def _target(self, name: str) -> str | None:
        try:
            return os.readlink(self.prefix + name, dir_fd=self.descriptor)
        except OSError:
            return None


class _Position(NamedTuple):
    """The directory that a thread has used last, and those above it, from the root."""

    key: str
    names: tuple[str, ...]
    directories: tuple[OpenDirectory, ...]


class OpenDirectories:
    """Opens directories below one root. Each thread keeps the directories above its last one open."""

    def __init__(self, path: str, *, resolved: bool = False) -> None:
        """`resolved`: there are no links in `path`, and none is followed that is put there."""
        self.links: Links = "refused"
        self.marker: str | None = None
        """A directory that the root must contain: without it, the root was replaced by another directory."""
        self.durable = False
        """Whether new directories are on disk before they are used."""
        self.real = path if resolved else os.path.realpath(path)
        """The path of the root with links resolved, at which it is opened."""
        self._path = path
        self.real_folder = os.path.dirname(path) if resolved else os.path.realpath(os.path.dirname(path))
        """That of the directory that has the name of the root, which may be a link."""
        self._root: OpenDirectory | None = None
        self._facts: os.stat_result | None = None
        self._lock = threading.Lock()
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the directories itself.
        own = ("_root", "_facts", "_lock", "_local")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_path"])  # type: ignore[misc]
        vars(self).update(state)

    def forget(self) -> None:
        """Resolve and open the root again at the next use: the job itself has renamed or removed it."""
        self._root, self.real = None, os.path.realpath(self._path)
        self._local = threading.local()

    def root(self, *, make: bool = False) -> OpenDirectory:
        """The root; OSError if it is missing, unless it is to be made."""
        root = self._root
        if root is None:
            with self._lock:
                root = self._root = self._root or self._opened(make=make)
        return root

    def _opened(self, *, make: bool) -> OpenDirectory:
        root = _open_real(self.real, make=make and self.marker is None)
        if self.marker is not None and not stat.S_ISDIR(root.mode(self.marker) or 0):
            raise OSError(
                errno.ENOENT, f"another directory at {self._path}: {self.marker} of this job is not in it"
            )
        self._facts = os.stat(self.real) if root.descriptor is None else os.fstat(root.descriptor)
        return root

    def require_same(self) -> None:
        """Raise DestinationError if the root is open, and its path does not lead to it any more."""
        if self._root is None or self._facts is None:
            return
        found = "another directory"
        try:
            if os.path.samestat(os.stat(self._path), self._facts):
                return
        except OSError as error:
            found = error.strerror or str(error)
        raise DestinationError(
            "the destination was moved, deleted or replaced while the job was writing to it",
            key=self._path,
            found=found,
            expected="the directory in which the run began",
            advice="Put it back, then resume; if it was deleted, delete the job file and migrate again.",
        )

    def folder(self) -> OpenDirectory:
        """The directory that has the name of the root; OSError."""
        return _open_real(self.real_folder)

    def at(self, key: str, *, make: bool = False, fresh: bool = False) -> OpenDirectory:
        """The directory with a key ("" is the root); OSError. `fresh`: opened again from the root."""
        position: _Position | None = getattr(self._local, "position", None)
        if position is not None and position.key == key and not fresh:
            return position.directories[-1]
        return self._move(None if fresh else position, key, make=make)

    def _move(self, before: _Position | None, key: str, *, make: bool) -> OpenDirectory:
        names = tuple(key.split("/")) if key else ()
        directories = [self.root(make=make)]
        if before is not None:
            for name, earlier, directory in zip(names, before.names, before.directories[1:], strict=False):
                if name != earlier:
                    break
                directories.append(directory)
        for name in names[len(directories) - 1 :]:
            directories.append(self._below(directories[-1], name, names[: len(directories)], make=make))
        self._local.position = _Position(key, names, tuple(directories))
        return directories[-1]

    def _below(self, above: OpenDirectory, name: str, names: tuple[str, ...], *, make: bool) -> OpenDirectory:
        try:
            try:
                return above.open(name, follow=self.links == "followed")
            except FileNotFoundError:
                if not make:
                    raise
                return above.open_or_make(name, durable=self.durable)
        except OSError as error:
            if error.errno != errno.ELOOP or self.links != "inside":
                raise
            return self._inside(names, error)

    def _inside(self, names: tuple[str, ...], refused: OSError) -> OpenDirectory:
        """The target of a link within the root, opened without following other links."""
        try:
            target = os.path.relpath(os.path.realpath(os.path.join(self.real, *names)), self.real)
        except ValueError:  # on another drive of Windows
            raise refused from None
        if target == os.curdir or target.split(os.sep)[0] == os.pardir or os.path.isabs(target):
            raise refused
        directory = self.root()
        for name in target.split(os.sep):
            directory = directory.open(name)
        return directory


def _open_real(path: str, *, make: bool = False) -> OpenDirectory:
    """The directory at a path without links, which is made if there is none; OSError for a link."""
    drive, rest = os.path.splitdrive(path)
    above, names = drive + os.sep, list(filter(None, rest.split(os.sep)))
    at = OpenDirectory(above, os.open(above, _ABOVE if names else _DIRECTORY) if BY_DESCRIPTOR else None)
    for number, name in enumerate(names, 1):
        flags = _DIRECTORY if number == len(names) else _ABOVE
        at = at.open_or_make(name, flags=flags) if make else at.open(name, flags=flags)
    return at


def _is_link(path: str) -> bool:
    """Whether a path of Windows is a link or a junction."""
    reparse = getattr(os.lstat(path), "st_reparse_tag", 0)
    return os.path.islink(path) or reparse == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)

"""Files that appear complete or not at all: created under a name that identifies the process, then renamed.

The next process that creates the same file removes what a killed process has left under such a name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from zarrstack.system.this import system

from .open_directories import OpenDirectory
from .own_names import with_suffix
from .owner_process import OwnerProcess, state_of

_NAME: Final = re.compile(
    r"\.(?P<place>[0-9a-f]+)-(?P<boot>[0-9a-f]*)-(?P<pid>[0-9]+)-(?P<started>[0-9]*)\.partial(-journal|-wal|-shm|-\w{8})?"
)
"""Suffix of the file's own name; SQLite and `trial_folder` add to it."""
_KEPT: Final = 160
"""Bytes of the longest name to which the suffix is added, which has up to 95 with SQLite's."""
_ABANDONED: Final = 86400.0
"""Seconds after which nothing is still creating a file. Whether a process of another boot has ended is not
known: it may be on another host of the same name.
"""
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
"""Errors of systems without hard links: FAT (EINVAL on Windows), and some network and user-space ones."""


def partial_name(path: str) -> str:
    """The temporary path, in the same directory, at which this process creates the file."""
    here = OwnerProcess.of_this_process()
    directory, name = os.path.split(path)
    suffix = f".{here.place}-{_hexadecimal(here.boot)}-{here.pid}-{here.started}.partial"
    return os.path.join(directory, with_suffix(name, suffix, _KEPT))


def sweep_partial(path: str) -> None:
    """Remove files left by ended processes of this host that were creating this file."""
    directory, name = os.path.split(path)
    name = with_suffix(name, "", _KEPT)
    place = OwnerProcess.of_this_process().place
    try:
        with os.scandir(directory or ".") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(name + ".")]
    except OSError:
        return
    for other in names:
        parts = _NAME.fullmatch(other, len(name))
        if parts is not None and parts["place"] == place:
            with contextlib.suppress(OSError):
                if _ended(parts, partial := os.path.join(directory, other)):
                    _remove(partial)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        system.remove_tree(path)
    else:
        system.unlink(path)


def replace_file(path: str, data: bytes) -> None:
    """Write a file, which appears complete, also in the place of another one. OSError."""
    partial = partial_name(path)
    sweep_partial(path)
    try:
        with open(partial, "wb") as file:
            file.write(data)
        system.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def create_file(at: OpenDirectory, name: str, data: bytes) -> bool:
    """Create a file if there is none; False if there is one. Of several callers, one succeeds. OSError."""
    partial = partial_name(name)
    try:
        with open(at.create(partial), "wb") as file:
            file.write(data)
        try:
            os.link(at.prefix + partial, at.prefix + name, src_dir_fd=at.descriptor, dst_dir_fd=at.descriptor)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _create_slowly(at, name, data)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            at.unlink(partial)


@contextlib.contextmanager
def trial_folder(directory: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary folder in a directory, in which to try what its file system can do. OSError."""
    import tempfile

    path = os.path.join(directory, ".zarrlift-trial")
    sweep_partial(path)
    prefix = os.path.basename(partial_name(path)) + "-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory) as folder:
        yield folder


def may_link_in(directory: str | os.PathLike[str]) -> bool:
    """Whether the file system of a directory has hard links that can be read, which is tried there.

    Linux 6.1 makes hard links over SMB, and cannot open some of them.
    """
    try:
        with trial_folder(directory) as folder:
            name, link = os.path.join(folder, "1"), os.path.join(folder, "2")
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
            os.link(name, link)
            os.close(os.open(link, os.O_RDONLY))
    except OSError as error:
        return error.errno not in _NO_LINKS
    return True


def _create_slowly(at: OpenDirectory, name: str, data: bytes) -> bool:
    """Like `create_file`, except that the file is briefly visible without content."""
    try:
        descriptor = at.create(name, exclusive=True)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(data)
    return True


def _ended(parts: re.Match[str], path: str) -> bool:
    """Whether the process that creates a file has ended; OSError."""
    here = OwnerProcess.of_this_process()
    if parts["boot"] != _hexadecimal(here.boot):
        return time.time() - os.lstat(path).st_mtime > _ABANDONED
    return state_of(int(parts["pid"]), parts["started"], here.boot) == "ended"


def _hexadecimal(boot: str) -> str:
    return boot.partition("-")[0]


_PLAIN: Final = re.compile(
    r"[A-Za-z0-9_\-+=@~,;()\[\]{}!#$%&'^`]+([ .][A-Za-z0-9_\-+=@~,;()\[\]{}!#$%&'^`]+)*"
)
"""Names that every file system holds, if no other differs from them by case alone and they are short."""
_SHORT: Final = 100
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Reserved on Windows (https://learn.microsoft.com/windows/win32/fileio/naming-a-file)."""


def not_held(directory: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Paths that cannot exist in a directory, with the reason; tried in a temporary directory in it.

    Only names that some file system cannot hold are tried, so mostly nothing is. OSError if nothing can be
    created there.
    """
    siblings: dict[str, list[tuple[str, str]]] = {}
    for path in filter(None, paths):
        above, _, name = path.rpartition("/")
        siblings.setdefault(above, []).append((name, path))
    for names in siblings.values():
        if doubtful := _doubtful(names):
            yield from _tried(directory, doubtful)


def _doubtful(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    folded = [_folded(name) for name, _ in names]
    counts = Counter(folded)
    return [
        (name, path)
        for (name, path), alike in zip(names, folded, strict=True)
        if counts[alike] > 1 or len(name) > _SHORT or not _PLAIN.fullmatch(name) or _DEVICES.fullmatch(name)
    ]


def _tried(directory: Path, names: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    created: dict[str, tuple[str, str]] = {}
    with trial_folder(directory) as folder:
        for name, path in names:
            try:
                os.mkdir(os.path.join(folder, name))
            except FileExistsError:
                other, _ = created.get(_folded(name), ("another one", ""))
                yield path, f"the same name as {other!r} there"
            except (OSError, ValueError) as error:
                yield path, getattr(error, "strerror", None) or str(error)
            else:
                created[_folded(name)] = name, path
        listed = set(map(_folded, os.listdir(folder)))
    for folded, (_, path) in created.items():
        if folded not in listed:
            yield path, "it gets another name there"  # Windows drops dots and spaces at the end


def _folded(name: str) -> str:
    """The same text for names that some file system takes for one."""
    return unicodedata.normalize("NFC", name).casefold()

"""The files and directories that hold an archive inside, zip files and databases, and how each is recognized.

They are recognized by content, never by name alone. The module of a database is imported when it is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from zarrstack.core.errors import StorageError

from ..base import Storage
from ..local.files import is_dir, is_file

if TYPE_CHECKING:
    from ..base import ObjectPart
    from ..remote.remote_storage import RemoteStorage

HEAD: Final = 4096
"""Bytes from the start of a file by which its kind is recognized."""


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """Where a container is on this machine."""

    path: Path
    inside: str | None = None
    """The directory within it that is the archive; None to look for it."""


@dataclass(frozen=True, slots=True)
class StoredContainer:
    """A file in a store that may be a container."""

    storage: RemoteStorage
    """The storage at its URL; its path is the place of the file."""
    start: ObjectPart = field(repr=False)
    """Its first bytes (`HEAD` or fewer), its size and version."""
    inside: str | None = None
    """As above."""


@dataclass(frozen=True, slots=True)
class _Database:
    module: str
    """The module of this folder, whose `connect` opens it."""
    file: Callable[[bytes], bool]
    """Whether a file that starts with these bytes (`HEAD` or fewer) is of this kind."""
    directory: Callable[[Path], bool] = lambda path: False  # noqa: ARG005
    """Whether a directory is of this kind, told by one or two names in it."""


def _is_lmdb(page: bytes) -> bool:
    """Whether bytes start as a file of LMDB: a page's header of 16 bytes, then `MDB_MAGIC` (lmdb's mdb.c)."""
    return page[16:20] in (b"\xde\xc0\xef\xbe", b"\xbe\xef\xc0\xde")


_DUMB: Final = re.compile(rb"'[^'\n]+', \(\d+, \d+\)\r?\n")
"""First line of the index of a `dbm.dumb` database (CPython `dbm/dumb.py`), with a key of Zarr."""
_GDBM: Final = frozenset({0x13579ACD, 0x13579ACE, 0x13579ACF})
_BERKELEY: Final = 0x00061561
"""Magic numbers of gdbm, at 0, and of Berkeley DB, with which ndbm is often built, at 12 (CPython
`dbm.whichdb`).
"""
_ORDERS: Final[tuple[Literal["little", "big"], ...]] = ("little", "big")


def dbm_module(head: bytes) -> str | None:
    """The module of Python's dbm for a file that starts with these bytes; None if it is no such database."""
    if _DUMB.match(head):
        return "dbm.dumb"
    for order in _ORDERS:
        if int.from_bytes(head[:4], order) in _GDBM:
            return "dbm.gnu"
        if int.from_bytes(head[12:16], order) == _BERKELEY:
            return "dbm.ndbm"
    return None


def index_of(path: Path) -> Path:
    """The index of a `dbm.dumb` database that is given by its name, or by its data; other paths unchanged."""
    index = path.with_suffix(".dir") if path.suffix == ".dat" else path.with_name(f"{path.name}.dir")
    if (path.suffix == ".dat" or not os.path.lexists(path)) and index.is_file():
        return index
    return path


SUFFIXES: Final = (".zip", ".ozx")
"""Names of zip files end with these."""
_DATABASES: Final = (
    _Database("sqlite_file", lambda head: head.startswith(b"SQLite format 3\0")),
    _Database("lmdb_file", _is_lmdb, directory=lambda path: is_file(path / "data.mdb")),
    _Database("dbm_files", lambda head: dbm_module(head) is not None),
)


def open_container(place: ContainerPlace) -> Storage | None:
    """The archive inside a file or directory; None for a directory that is none of these.

    Raises UsageError for a file that is no container, StorageError for one that cannot be read.
    """
    path = place.path
    in_directory = is_dir(path)
    if in_directory:
        try:
            kinds = [kind for kind in _DATABASES if kind.directory(path)]
        except PermissionError as error:  # it would name a file that may not exist
            raise StorageError("cannot read the directory", found=f"{path}: {error.strerror}") from error
    else:
        try:
            with path.open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise StorageError("cannot read the file", found=f"{path}: {error.strerror}") from error
        _refuse_tar(str(path), head)
        kinds = [kind for kind in _DATABASES if kind.file(head)]
    if kinds:
        from .database import DatabaseStorage

        module: Any = import_module(f".{kinds[0].module}", __package__)
        return DatabaseStorage(path, module.connect, place.inside)
    if in_directory:
        return None
    # APPNOTE.TXT 4.3.6: a record at its end makes a zip file, which may begin with anything. So it comes
    # last, and its module says what a file is that has no such record.
    from .zip_storage import open_local

    return open_local(place.path, place.inside)


def open_stored(place: StoredContainer, *, named: bool = False) -> Storage | None:
    """The archive inside a file in a store; None if it is not known to be a zip file.

    A file that is called one (by its name, or with `named`) is one, or an error. Raises UsageError, also for
    a file of another known kind, and StorageError.
    """
    from ..not_an_archive import is_foreign, not_a_container

    head, name = place.start.data, place.storage.url.partition("?")[0].lower()
    _refuse_tar(place.storage.url, head)
    if named or name.endswith(SUFFIXES) or is_zip(head):
        from .zip_storage import open_remote

        return open_remote(place.storage, place.start, place.inside)
    if is_foreign(head):
        raise not_a_container(place.storage.url, head)
    return None


def is_zip(head: bytes) -> bool:
    """Whether a file that starts with these bytes is certainly a zip file, which may begin with anything."""
    # APPNOTE.TXT 4.3.7 and 4.3.16: a local header, or the end record of an empty file.
    return head.startswith((b"PK\3\4", b"PK\5\6"))


def _refuse_tar(shown: str, head: bytes) -> None:
    """Raise UsageError for a tar file: one of its members may be a zip file, whose record is near its end."""
    if head[257:262] == b"ustar":
        from ..not_an_archive import not_a_container

        raise not_a_container(shown, head)

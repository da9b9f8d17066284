"""The kinds of files and directories that hold an archive inside, and how each is recognized.

A kind is recognized by content, never by its name alone. Its module is imported when it is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from zarrstack.core.errors import StorageError

from ..base import Storage
from ..local.presence import is_dir, is_file
from .places import HEAD, ContainerPlace, StoredContainer

_TAR_BLOCK: Final = 512


@dataclass(frozen=True, slots=True)
class _Kind:
    module: str
    """The module of this folder. It has `connect` for a database, and `load` for a file that has members."""
    file: Callable[[bytes], bool] = lambda head: False  # noqa: ARG005
    """Whether a file that starts with these bytes (`HEAD` or fewer) is of this kind."""
    directory: Callable[[Path], bool] = lambda path: False  # noqa: ARG005
    """Whether a directory is of this kind, told by one or two names in it."""
    suffixes: tuple[str, ...] = ()
    """Names end with these if it is a file that has members, not a database; it is read in stores too."""


def _is_tar(head: bytes) -> bool:
    """Whether a file with this start is a tar file: the magic at 257, or an old header with its checksum.

    POSIX.1-2017, pax, "ustar Interchange Format".
    """
    if len(head) < _TAR_BLOCK:
        return False
    if head[257:262] == b"ustar":
        return True
    try:
        checksum = int(head[148:156].strip(b"\0 "), 8)
    except ValueError:
        return False
    return checksum == sum(head[:148]) + 8 * 32 + sum(head[156:_TAR_BLOCK]) and head[0] != 0


def _is_lmdb(page: bytes) -> bool:
    """Whether bytes start as a file of LMDB: a page's header of 16 bytes, then `MDB_MAGIC` (lmdb's mdb.c)."""
    return page[16:20] in (b"\xde\xc0\xef\xbe", b"\xbe\xef\xc0\xde")


_DUMB: Final = re.compile(rb"'[^'\n]+', \(\d+, \d+\)\n")
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


_ZIP: Final = (".zip", ".ozx")
_KINDS: Final = (
    _Kind("tar_file", file=_is_tar, suffixes=(".tar",)),
    _Kind("sqlite_file", file=lambda head: head.startswith(b"SQLite format 3\0")),
    _Kind("lmdb_file", file=_is_lmdb, directory=lambda path: is_file(path / "data.mdb")),
    _Kind("dbm_files", file=lambda head: dbm_module(head) is not None),
    # APPNOTE.TXT 4.3.6: a record at its end makes a zip file, which may begin with anything. So it comes
    # last, and its module says what a file is that has no such record.
    _Kind("zip_file", file=lambda head: True, suffixes=_ZIP),  # noqa: ARG005
)
SUFFIXES: Final = tuple(suffix for kind in _KINDS for suffix in kind.suffixes)
"""Names of files that are read in stores end with these."""


def open_container(place: ContainerPlace) -> Storage | None:
    """The archive inside a file or directory; None for a directory that is none of these.

    Raises UsageError for a file that is no container, StorageError for one that cannot be read.
    """
    path = place.path
    if is_dir(path):
        try:
            kinds = iter([kind for kind in _KINDS if kind.directory(path)])
        except PermissionError as error:  # it would name a file that may not exist
            raise StorageError("cannot read the directory", found=f"{path}: {error.strerror}") from error
    else:
        try:
            with path.open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise StorageError("cannot read the file", found=f"{path}: {error.strerror}") from error
        kinds = (kind for kind in _KINDS if kind.file(head))
    kind = next(kinds, None)
    if kind is None:
        return None
    module: Any = import_module(f".{kind.module}", __package__)
    if kind.suffixes:
        from .members import open_local

        return open_local(place, module.load)
    from .database import open_database

    return open_database(place.path, place.inside, module.connect)


def open_stored(place: StoredContainer, kind: str | None = None) -> Storage | None:
    """The archive inside a file in a store; None if it is not known to be a container.

    A file that is called one (by its name, or as `kind`, "zip" or "tar") is one, or an error. Raises
    UsageError, also for a file of another known kind, and StorageError.
    """
    from ..foreign_files import is_foreign, not_a_container

    head, name = place.head, place.storage.url.partition("?")[0].lower()
    detected = kind_of(head)
    if kind == "zip" or (kind is None and detected is None and name.endswith(_ZIP)):
        detected = "zip"  # which may begin with anything
    if detected is not None and kind in (None, detected):
        from .members import open_remote

        return open_remote(place, import_module(f".{detected}_file", __package__).load, detected)
    if kind is not None or name.endswith(SUFFIXES) or is_foreign(head):
        raise not_a_container(place.storage.url, head)
    return None


def kind_of(head: bytes) -> str | None:
    """The kind of a container that is known by its first bytes, "zip" or "tar"; None for another file."""
    # APPNOTE.TXT 4.3.7 and 4.3.16: a local header, or the end record of an empty file.
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return "zip"
    return "tar" if _is_tar(head) else None

"""The kinds of files and directories that hold an archive inside, and how each is recognized.

A kind is recognized by content, never by its name alone. Its module is imported when it is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from zarrstack.core.errors import StorageError

from ..base import Storage

HEAD: Final = 512
"""Bytes from the start of a file by which its kind is recognized."""


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """Where a container lies on this machine."""

    path: Path
    inside: str | None = None
    """The directory within it that is the archive; None to look for it."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """`storage_options` as given; they may contain secrets."""


class _Module(Protocol):
    """What the module of a kind provides."""

    def open_container(self, place: ContainerPlace) -> Storage:
        """The archive inside, read-only; UsageError or StorageError."""


@dataclass(frozen=True, slots=True)
class _Kind:
    module: str
    """The module of this folder that opens it."""
    file: Callable[[bytes], bool] = lambda head: False  # noqa: ARG005
    """Whether a file that starts with these bytes (`HEAD` or fewer) is of this kind."""
    directory: Callable[[Path], bool] = lambda path: False  # noqa: ARG005
    """Whether a directory is of this kind, told by one or two names in it."""


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


_KINDS: Final = (
    _Kind("sqlite_file", file=lambda head: head.startswith(b"SQLite format 3\0")),
    _Kind("lmdb_file", file=_is_lmdb, directory=lambda path: (path / "data.mdb").is_file()),
    _Kind("dbm_files", file=lambda head: dbm_module(head) is not None),
    # APPNOTE.TXT 4.3.6: a record at its end makes a zip file, which may begin with anything. So it comes
    # last, and its module says what a file is that has no such record.
    _Kind("zip_file", file=lambda head: True),  # noqa: ARG005
)


def open_container(place: ContainerPlace) -> Storage | None:
    """The archive inside a file or directory; None for a directory that is none of these.

    Raises UsageError for a file that is no container, StorageError for one that cannot be read.
    """
    path = place.path
    if path.is_dir():
        kinds = (kind for kind in _KINDS if kind.directory(path))
    else:
        try:
            with path.open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise StorageError("cannot read the file", found=f"{path}: {error.strerror}") from error
        kinds = (kind for kind in _KINDS if kind.file(head))
    for kind in kinds:
        return cast("_Module", import_module(f".{kind.module}", __package__)).open_container(place)
    return None

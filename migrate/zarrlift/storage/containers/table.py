"""The kinds of files and directories that hold an archive inside, and how each is recognized.

A kind is recognized by content, never by its name alone. Its module is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

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


def _is_object(head: bytes) -> bool:
    """Whether a file may be JSON with an object, plain or in a Zstandard frame (RFC 8878, 3.1.1)."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"\x28\xb5\x2f\xfd"))


def _has_records(path: Path) -> bool:
    """Whether `.zmetadata` is that of references in Parquet; a directory of Zarr v2 has another one."""
    place = path / ".zmetadata"
    if (path / ".zgroup").exists() or (path / ".zarray").exists() or not place.is_file():
        return False
    try:
        return b'"record_size"' in place.read_bytes()
    except OSError as error:
        raise StorageError("cannot read the file", found=f"{place}: {error.strerror}") from error


_KINDS: Final = (
    _Kind("references", file=_is_object, directory=_has_records),
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

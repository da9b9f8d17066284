"""Files and directories that may be containers, on this machine and in stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...core.format_table import DOCUMENT_NAMES

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


_PACKING: Final = frozenset({"__MACOSX", ".DS_Store"})
"""Names that archivers add next to an archive."""


def archive_root(children: Callable[[str], Mapping[str, bool]]) -> str:
    """The directory of a container that is the archive: its root, or a single directory in it.

    `children` gives the names in a directory ("" is the root), and whether each is a directory.
    """
    prefix: list[str] = []
    while True:
        here = children("/".join(prefix))
        here = {name: is_dir for name, is_dir in here.items() if name and name not in _PACKING}
        if DOCUMENT_NAMES & here.keys():
            return "/".join(prefix)
        # A root without documents and with a single child is probably an archive packed with its directory;
        # in either case, the child with everything in it is an archive.
        if len(here) != 1 or not all(here.values()):
            return ""
        prefix.append(next(iter(here)))

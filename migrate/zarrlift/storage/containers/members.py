"""The members of one file, as its directory tells them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, NamedTuple

from zarrstack.core.errors import UsageError

from ..documents import archive_root
from ..remote.store_listing import tree_of
from .ranges import Ranges


class Member(NamedTuple):
    """Where the bytes of a member are."""

    start: int
    """Offset in the file: of its local header in a zip file, of its bytes in a tar file."""
    stored: int
    """Bytes in the file."""
    size: int
    """Bytes after decompression."""
    method: int = 0
    """Compression method of a zip file (APPNOTE.TXT 4.4.5)."""
    crc: int = 0
    """CRC-32 of a zip file's member."""


class Members(ABC):
    """The members of one version of a file."""

    called: str
    """Name of such a file with its article, for messages."""

    def __init__(self, state: str, members: dict[str, Member], directories: Iterable[str]) -> None:
        """`state` is that of the file; `directories` are those with entries of their own."""
        self.state = state
        self._members = members
        self._directories = tuple(directories)

    def get(self, key: str) -> Member | None:
        """What is known of a member; None if there is none."""
        return self._members.get(key)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all members, sorted."""
        return sorted(self._members)

    @cached_property
    def tree(self) -> dict[str, dict[str, bool]]:
        """Directory -> its names -> whether each is a directory; "" is the root."""
        return tree_of([*(f"{name}/" for name in self._directories), *self._members])

    @abstractmethod
    def version(self, member: Member) -> str:
        """A text that is different if the member is rewritten."""

    @abstractmethod
    async def read(self, ranges: Ranges, key: str, member: Member, start: int, stop: int) -> bytes:
        """Bytes of a member of the file, in the storage's loop; BadObjectError if they are damaged."""

    def archive_root(self) -> str:
        """The directory that is the archive: the root, or a single directory in it."""
        return archive_root(lambda directory: self.tree.get(directory, {}))


Loader = Callable[[Ranges], Members]
"""Reads the directory of a file; UsageError or StorageError. From any thread but the loop's."""

_lock: Final = threading.Lock()
_known: Final[dict[tuple[Loader, str, str], Members]] = {}
_MOST_KNOWN: Final = 2


def members_of(ranges: Ranges, load: Loader) -> Members:
    """The members of a file; the last files of this process, and of the one it was forked from, are known."""
    place = load, ranges.place, ranges.state
    with _lock:
        members = _known.get(place) if ranges.state else None
    if members is None:
        members = load(ranges)
        with _lock:
            _known.pop(place, None)
            _known[place] = members
            while len(_known) > _MOST_KNOWN:
                del _known[next(iter(_known))]
    return members


def clean_name(name: str, kind: str) -> str:
    """The key of a member with this name; UsageError for one that leaves the archive."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    if name.startswith("/") or ".." in name and ".." in name.split("/"):
        raise UsageError(
            f"{kind} has a member whose name leads out of it",
            found=repr(name[:200]),
            advice="Unpack it with a program that refuses or repairs such names, and check what it makes.",
        )
    return name

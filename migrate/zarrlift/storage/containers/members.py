"""The members of one file with an archive inside, as its directory tells them, and the file as a storage."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from zarrstack.core.errors import StorageError, UsageError

from ..documents import archive_root
from ..listing import ListedPage
from ..remote.store_listing import tree_of
from ..source import ALL, Source
from .ranges import LocalRanges, Ranges, StoreRanges

if TYPE_CHECKING:
    from ..listed_versions import Version
    from ..local.files import ReadLimit
    from ..remote.backend import ObjectState
    from ..remote.zarr_store import StoreStorage
    from .places import ContainerPlace, StoredContainer


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


class MemberSource(Source):
    """The members of a file, as they were when it was opened; its ranges are those of the same version."""

    def __init__(self, ranges: Ranges, load: Loader) -> None:
        self._ranges, self._load, self.shown = ranges, load, ranges.shown
        self.members = members_of(ranges, load)

    async def state(self, key: str) -> ObjectState | None:
        member = self.members.get(key)
        return None if member is None else (member.size, self.members.version(member))

    async def content(
        self, key: str, part: slice = ALL, bound: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """Bytes of a member; its size is checked before any byte is read."""
        member = self.members.get(key)
        if member is None:
            return None
        if bound is not None:
            bound.check(member.size)
        start, stop, _ = part.indices(member.size)
        if start >= stop and part != ALL:
            return b""
        return await self.members.read(self._ranges, key, member, start, stop)

    async def pages(self, prefix: str, keys: object = None) -> AsyncIterator[ListedPage]:
        """From the directory of the file, which is read again if the file has changed."""
        members = await asyncio.to_thread(lambda: members_of(self._ranges.now(), self._load))
        names = _below(members.keys, prefix)
        each = [member for name in names if (member := members.get(name)) is not None]
        yield ListedPage(
            names, [member.size for member in each], [members.version(member) for member in each]
        )

    async def children(self, directory: str) -> dict[str, bool]:
        return self.members.tree.get(directory, {})

    def refusal(self, key: str) -> StorageError:
        return StorageError("a file of members is read-only", found=self.shown)

    @property
    def identity(self) -> tuple[object, ...]:
        return ("members", self.shown, self._ranges.state)


def _below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """Those of the sorted keys that start with a prefix."""
    at = end = bisect_left(keys, prefix)
    while end < len(keys) and keys[end].startswith(prefix):
        end += 1
    return keys[at:end]


def open_local(place: ContainerPlace, load: Loader) -> StoreStorage:
    """The archive in a file on this machine."""
    try:
        ranges = LocalRanges(place.path)
    except OSError as error:
        raise StorageError("cannot read the file", found=f"{place.path}: {error.strerror}") from error
    return _opened(ranges, load, place.inside, lambda prefix: f"{place.path}/{prefix}".rstrip("/"))


def open_remote(place: StoredContainer, load: Loader, protocol: str) -> StoreStorage:
    """The archive in a file in a store; UsageError if the server cannot give ranges of it."""
    storage = place.storage
    if storage.native is not None and not storage.native.gives_ranges:
        raise UsageError(
            "the server does not give parts of a file",
            found=f"{storage.url}, sent as a whole when its first {len(place.head)} bytes were requested",
            expected="HTTP status 206 for a request with Range",
            advice="Download the file, and give its path.",
        )

    def named(prefix: str) -> str:
        return f"{protocol}://{prefix}::{storage.url}" if prefix else storage.url

    return _opened(StoreRanges(storage, place.state), load, place.inside, named, storage.secrets)


def _opened(
    ranges: Ranges, load: Loader, inside: str | None, place: Callable[[str], str], secrets: Sequence[str] = ()
) -> StoreStorage:
    """The storage of the archive in a file; `place` gives the place of a directory inside for messages."""
    from ..source_store import source_storage

    source = MemberSource(ranges, load)
    members = source.members
    prefix = members.archive_root() if inside is None else inside.strip("/")
    if inside is not None and prefix and prefix not in members.tree:
        raise UsageError(f"no such directory in {members.called}: {place(prefix)}")
    return source_storage(source, prefix, url=place(prefix), secrets=secrets)

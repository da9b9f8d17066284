"""A zip file with an archive inside as a storage."""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import StorageError, UsageError

from ..base import ListedPage
from ..remote.async_storage import ObjectHead, object_head
from .container import Container
from .ranges import LocalRanges, Ranges, StoreRanges
from .zip_file import ZipMembers, load

if TYPE_CHECKING:
    from pathlib import Path

    from ..base import ObjectPart
    from ..local.files import ReadLimit
    from ..remote.remote_storage import RemoteStorage
    from ..versions import Version


_lock: Final = threading.Lock()
_known: Final[dict[tuple[str, str], ZipMembers]] = {}
_MOST_KNOWN: Final = 2


def members_of(ranges: Ranges) -> ZipMembers:
    """The members of a file; the last files of this process, and of the one it was forked from, are known."""
    place = ranges.place, ranges.state
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


class ZipStorage(Container):
    """The members of a zip file as they were when it was opened; its ranges are of the same version."""

    def __init__(
        self, ranges: Ranges, members: ZipMembers, path: str, *, url: str, secrets: Sequence[str]
    ) -> None:
        super().__init__(path, url=url, secrets=secrets)
        self._ranges, self._members = ranges, members

    async def find(self, place: str) -> ObjectHead | None:
        member = self._members.get(place)
        return None if member is None else object_head(member.size, member.version)

    async def content(
        self, place: str, part: slice, limit: ReadLimit | None, version: Version | None
    ) -> bytes | None:
        """Bytes of a member; its size is checked before any byte is read."""
        member = self._members.get(place)
        if member is None:
            return None
        if limit is not None:
            limit.check(member.size)
        start, stop, _ = part.indices(member.size)
        if start >= stop and part != slice(None):
            return b""
        return await self._members.read(self._ranges, place, member, start, stop)

    async def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """From the directory of the file, which is read again if the file has changed."""
        members = await asyncio.to_thread(lambda: members_of(self._ranges.now()))
        names = _below(members.keys, prefix)
        each = [member for name in names if (member := members.get(name)) is not None]
        yield ListedPage(names, [member.size for member in each], [member.version for member in each])

    async def children(self, directory: str) -> Mapping[str, bool]:
        return self._members.tree.get(directory, {})

    def refusal(self) -> StorageError:
        return StorageError("a zip file is read-only", found=self._ranges.shown)

    @property
    def identity(self) -> tuple[object, ...]:
        return ("zip", self._ranges.shown, self._ranges.state)


def _below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """Those of the sorted keys that start with a prefix."""
    at = end = bisect_left(keys, prefix)
    while end < len(keys) and keys[end].startswith(prefix):
        end += 1
    return keys[at:end]


def open_local(path: Path, inside: str | None) -> ZipStorage:
    """The archive in a file on this machine; `inside` as for `ContainerPlace`."""
    try:
        ranges = LocalRanges(path)
    except OSError as error:
        raise StorageError("cannot read the file", found=f"{path}: {error.strerror}") from error
    return _opened(ranges, inside, lambda prefix: f"{path}/{prefix}".rstrip("/"))


def open_remote(storage: RemoteStorage, start: ObjectPart, inside: str | None) -> ZipStorage:
    """The archive in a file in a storage, of which `start` is; UsageError if it cannot give ranges of it."""
    if not storage.gives_ranges:
        raise UsageError(
            "the server does not give parts of a file",
            found=f"{storage.url}, sent as a whole when its first {len(start.data)} bytes were requested",
            expected="HTTP status 206 for a request with Range",
            advice="Download the file, and give its path.",
        )

    def named(prefix: str) -> str:
        return f"zip://{prefix}::{storage.url}" if prefix else storage.url

    return _opened(StoreRanges(storage, start.size, start.version), inside, named, storage.secrets)


def _opened(
    ranges: Ranges, inside: str | None, place: Callable[[str], str], secrets: Sequence[str] = ()
) -> ZipStorage:
    """The storage of the archive in a file; `place` gives the place of a directory inside for messages."""
    members = members_of(ranges)
    prefix = members.archive_root() if inside is None else inside.strip("/")
    if inside is not None and prefix and prefix not in members.tree:
        raise UsageError(f"no such directory in the zip file: {place(prefix)}")
    return ZipStorage(ranges, members, prefix, url=place(prefix), secrets=secrets)

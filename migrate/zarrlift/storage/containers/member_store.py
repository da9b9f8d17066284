"""A file with an archive inside as a read-only storage."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

from zarrstack.core.errors import StorageError, UsageError

from ..listing import ListedPage
from ..remote.backend import Backend, ObjectState
from ..remote.zarr_store import StoreStorage
from .members import Loader, Members, members_of
from .ranges import LocalRanges, Ranges, StoreRanges
from .table import ContainerPlace, StoredContainer

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

    from ..listed_versions import Version
    from ..local.files import ReadLimit


def opened(
    ranges: Ranges, load: Loader, inside: str | None, place: Callable[[str], str], secrets: Sequence[str] = ()
) -> StoreStorage:
    """The storage of the archive in a file; `place` gives the place of a directory inside for messages."""
    store = MemberStore(ranges, load)
    members = store.members
    prefix = members.archive_root() if inside is None else inside.strip("/")
    if inside is not None and prefix and prefix not in members.tree:
        raise UsageError(f"no such directory in {members.called}: {place(prefix)}")
    return StoreStorage(store, prefix, url=place(prefix), secrets=secrets, backend=MemberBackend(store))


class MemberStore(Store):
    """The members of a file as a zarr store."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, ranges: Ranges, load: Loader) -> None:
        super().__init__(read_only=True)
        self.ranges, self.load = ranges, load
        self.members = members_of(ranges, load)
        """As they were when the file was opened."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemberStore):
            return False
        return (self.ranges.shown, self.ranges.state) == (other.ranges.shown, other.ranges.state)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.ranges.shown

    def with_read_only(self, read_only: bool = False) -> MemberStore:
        """The same; UsageError if it is to be written."""
        if not read_only:
            raise _no_writing(self)
        return self

    async def whole(self, key: str) -> bytes | None:
        """A member; None if there is none."""
        members = self.members
        member = members.get(key)
        return None if member is None else await members.read(self.ranges, key, member, 0, member.size)

    async def part(self, key: str, part: ByteRequest) -> bytes | None:
        """Bytes of a member; None if there is none."""
        members = self.members
        member = members.get(key)
        if member is None:
            return None
        start, stop = 0, member.size
        if isinstance(part, RangeByteRequest):
            start, stop = part.start, min(part.end, member.size)
        elif isinstance(part, OffsetByteRequest):
            start = part.offset
        elif isinstance(part, SuffixByteRequest):
            start = max(member.size - part.suffix, 0)
        return await members.read(self.ranges, key, member, start, stop) if start < stop else b""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """A member or a part of it."""
        data = await self.whole(key) if byte_range is None else await self.part(key, byte_range)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several members or parts of members."""
        return list(await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges]))

    async def exists(self, key: str) -> bool:
        """Whether there is a member, without a request."""
        return key in self.members

    async def getsize(self, key: str) -> int:
        """The size of a member, without a request; FileNotFoundError."""
        member = self.members.get(key)
        if member is None:
            raise FileNotFoundError(key)
        return member.size

    async def set(self, key: str, value: Buffer) -> None:
        """Refused."""
        raise _no_writing(self)

    async def delete(self, key: str) -> None:
        """Refused."""
        raise _no_writing(self)

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        for key in self.members.keys:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """The keys that start with a prefix."""
        for key in keys_below(self.members.keys, prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names below a directory."""
        for name in self.members.tree.get(prefix.strip("/"), {}):
            yield name


def keys_below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """Those of the sorted keys that start with a prefix."""
    at = end = bisect_left(keys, prefix)
    while end < len(keys) and keys[end].startswith(prefix):
        end += 1
    return keys[at:end]


class MemberBackend(Backend):
    """What the directory of a file tells beyond zarr's `Store`."""

    store: MemberStore

    def __init__(self, store: MemberStore) -> None:
        self.store = store

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """A member; its size is checked before any byte is read."""
        member = self.store.members.get(key)
        if member is not None:
            bound.check(member.size)
        return await self.store.whole(key)

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """A part of a member."""
        return await self.store.part(key, part)

    async def state(self, key: str) -> ObjectState | None:
        """From the directory."""
        members = self.store.members
        member = members.get(key)
        return None if member is None else (member.size, members.version(member))

    async def children(self, prefix: str) -> dict[str, bool]:
        """From the directory."""
        return self.store.members.tree.get(prefix.strip("/"), {})

    async def pages(
        self,
        prefix: str,
        keys: Callable[[], Sequence[str]] | None = None,
    ) -> AsyncIterator[ListedPage]:
        """From the directory, which is read again if the file has changed."""
        members = await asyncio.to_thread(self._now)
        found = keys_below(members.keys, prefix)
        each = [member for key in found if (member := members.get(key)) is not None]
        yield ListedPage(
            found, [member.size for member in each], [members.version(member) for member in each]
        )

    def _now(self) -> Members:
        return members_of(self.store.ranges.now(), self.store.load)

    async def put_file(self, key: str, name: str, size: int) -> None:
        """Refused."""
        raise _no_writing(self.store)

    @property
    def creates(self) -> bool:
        """False: nothing is written."""
        return False

    async def create(self, key: str, data: bytes) -> None:
        """Refused."""
        raise _no_writing(self.store)

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        """Not possible."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[object, ...]:
        """No other backend is equal."""
        return (self,)


def _no_writing(store: Any) -> StorageError:
    return StorageError("a file of members is read-only", found=str(store))


def open_local(place: ContainerPlace, load: Loader) -> StoreStorage:
    """The archive in a file on this machine."""
    try:
        ranges = LocalRanges(place.path)
    except OSError as error:
        raise StorageError("cannot read the file", found=f"{place.path}: {error.strerror}") from error
    return opened(ranges, load, place.inside, lambda prefix: f"{place.path}/{prefix}".rstrip("/"))


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

    return opened(StoreRanges(storage, place.state), load, place.inside, named, storage.secrets)

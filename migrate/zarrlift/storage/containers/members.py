"""A read-only store of the members of one file, and what its directory tells of each without a request."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

from zarrstack.core.errors import StorageError, UsageError

from ..documents import METADATA
from ..listing import ListedPage
from ..remote.backend import Backend, ObjectState
from ..remote.store_listing import tree_of
from ..remote.zarr_store import StoreStorage
from .ranges import LocalRanges, Ranges, StoreRanges
from .table import ContainerPlace, StoredContainer

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

    from ..listed_versions import Version
    from ..local.files import ReadLimit

_PACKING: Final = frozenset({"__MACOSX", ".DS_Store"})
"""Names that archivers add next to an archive."""


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

    kind: str
    """Name of such a file with its article, for messages."""

    def __init__(self, ranges: Ranges, members: dict[str, Member], directories: Iterable[str]) -> None:
        """`directories` are those with entries of their own."""
        self.ranges = ranges
        self._members = members
        self._directories = tuple(directories)

    def __contains__(self, key: str) -> bool:
        return key in self._members

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
    async def read(self, key: str, member: Member, start: int, stop: int) -> bytes:
        """Bytes of a member, in the storage's loop; BadObjectError if they are damaged."""

    def archive_root(self) -> str:
        """The directory that is the archive: the root, or a single directory in it."""
        prefix: list[str] = []
        while True:
            here = self.tree.get("/".join(prefix), {})
            here = {name: is_dir for name, is_dir in here.items() if name and name not in _PACKING}
            if METADATA & here.keys():
                return "/".join(prefix)
            # A root without documents and with a single child is probably an archive packed with its
            # directory;
            # in either case, the child with everything in it is an archive.
            if len(here) != 1 or not all(here.values()):
                return ""
            prefix.append(next(iter(here)))


Loader = Callable[[Ranges], Members]
"""Reads the directory of a file; UsageError or StorageError. From any thread but the loop's."""

_lock: Final = threading.Lock()
_known: Final[dict[tuple[Loader, str, str], Members]] = {}
_MOST_KNOWN: Final = 2


def members_of(ranges: Ranges, load: Loader) -> Members:
    """The members of a file; the last files of this process, and of the one it was forked from, are known."""
    place = load, ranges.shown, ranges.state
    with _lock:
        known = _known.get(place)
    if known is None:
        known = load(ranges)
        with _lock:
            _known[place] = known
            while len(_known) > _MOST_KNOWN:
                del _known[next(iter(_known))]
    return known


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


def opened(
    ranges: Ranges, load: Loader, inside: str | None, place: Callable[[str], str], secrets: Sequence[str] = ()
) -> StoreStorage:
    """The storage of the archive in a file; `place` gives the place of a directory inside for messages."""
    members = members_of(ranges, load)
    prefix = members.archive_root() if inside is None else inside.strip("/")
    if inside is not None and prefix and prefix not in members.tree:
        raise UsageError(f"no such directory in {members.kind}: {place(prefix)}")
    store = MemberStore(ranges, load)
    return StoreStorage(store, prefix, url=place(prefix), secrets=secrets, backend=MemberBackend(store))


class MemberStore(Store):
    """The members of a file as a zarr store."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, ranges: Ranges, load: Loader) -> None:
        super().__init__(read_only=True)
        self.ranges, self.load = ranges, load

    @property
    def members(self) -> Members:
        """The members as they were when the file was opened."""
        return members_of(self.ranges, self.load)

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
        return None if member is None else await members.read(key, member, 0, member.size)

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
        return await members.read(key, member, start, stop) if start < stop else b""

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

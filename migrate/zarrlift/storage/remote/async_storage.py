"""What a storage with latency does, one asynchronous method each.

Methods get *places*: keys with the path of the archive before them. They raise the errors of the libraries
below; `RemoteStorage` repeats requests and converts errors.
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from zarrstack.core.errors import UsageError

from ..base import ListedPage, ObjectPart, Storage
from ..redact import redact
from ..versions import Version, version_number
from .adaptive_concurrency import ConcurrencyLimiter

if TYPE_CHECKING:
    from ..local.files import ReadLimit

T = TypeVar("T")

_CHANGED: Final = re.compile(r"dictionary (keys )?changed (size )?during iteration")
"""Python's messages; no exception of its own distinguishes this error."""
_ATTEMPTS: Final = 1000


class ObjectHead(NamedTuple):
    """What a storage tells of an object without its bytes."""

    size: int | None
    """Size in bytes; None if it is not told."""
    version: Version | None
    """None if it is not told."""


def object_head(size: int | None, text: str | None) -> ObjectHead:
    """The head of an object with an ETag, a checksum or a time; `version_text` describes its form."""
    text = version_text(text)
    return ObjectHead(size, (-1 if size is None else size, version_number(text)) if text else None)


def version_text(value: object) -> str | None:
    """The version in a listing as text; an ETag with quotes equals one without."""
    if value is None:
        return None
    text = str(value)
    return text.removeprefix("W/").strip('"') if text.endswith('"') else text


async def settled(listing: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a listing, repeated if another thread has changed the dictionary that was listed.

    zarr's memory stores and fsspec's `memory://` iterate over a dictionary to which the user's threads may
    write at the same time; zarrlift itself does everything in one loop.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await listing()
        except RuntimeError as error:
            if _CHANGED.fullmatch(str(error)) is None:
                raise
        await asyncio.sleep(0)
    return await listing()


class ListedKeys:
    """Collects the keys of a listing."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def take(self, page: ListedPage) -> None:
        """Add the keys of some objects."""
        self.keys += page.keys


class AsyncStorage(Storage):
    """Objects below a path, by asynchronous methods that run in the thread of our loop.

    `url` names the place in messages, plans and jobs, without credentials; `secrets` are texts that never
    appear in an error.
    """

    read_only: bool = False
    gives_ranges: bool = True
    """False after a server has ignored the range of a request."""

    def __init__(self, path: str, *, url: str, secrets: Sequence[str] = ()) -> None:
        self.base = path.strip("/")
        self._prefix = f"{self.base}/" if self.base else ""
        self.secrets = tuple(secrets)
        self.url = redact(url, self.secrets)
        self.pace = ConcurrencyLimiter()

    async def open(self) -> None:
        """Open what is below, before each request, if it is not open."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Values that are equal for the same place below the path: kind, address and credentials."""
        return (self,)

    @abstractmethod
    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        """A whole object, None if missing; of a larger one, no more than `limit` is read before the error.

        Storages that tell a version with a read compare it with `version`: SourceChangedError.
        """

    @abstractmethod
    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        """Bytes of an object as a slice of them would be, None if missing; `version` as in `read`."""

    @abstractmethod
    async def head(self, place: str) -> ObjectHead | None:
        """The present size and version of an object, None if missing."""

    async def read_end(self, place: str, part: slice, version: Version | None) -> ObjectPart | None:
        """Bytes of an object with its head, None if missing; `version` as in `read`."""
        head, data = await asyncio.gather(self.head(place), self.read_part(place, part, version))
        if head is None or data is None or head.size is None:
            return None
        return ObjectPart(data, head.size, head.version)

    async def length(self, place: str) -> int | None:
        """The size of an object in bytes, None if missing."""
        head = await self.head(place)
        return None if head is None else head.size

    async def exists(self, place: str) -> bool:
        """Whether there is an object."""
        return await self.length(place) is not None

    @abstractmethod
    async def write(self, place: str, data: bytes) -> None:
        """Write a whole object."""

    @abstractmethod
    async def remove(self, place: str) -> None:
        """Remove an object, which may be absent."""

    @abstractmethod
    async def children(self, directory: str) -> Mapping[str, bool]:
        """Name -> whether it is a directory, for entries directly below a directory ("" is the root)."""

    async def names(self, directory: str) -> Sequence[str]:
        """The names directly below a directory."""
        return list(await self.children(directory))

    @abstractmethod
    def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """All objects whose places start with a prefix, page by page; `keys` as for `Storage.list_objects`.

        With `keys`, UnorderedListingError if the ranges between them cannot be listed.
        """

    async def send_file(self, place: str, name: str, size: int) -> bool:
        """Write the file `name` of `size` bytes as one object, in parts; False if that is not supported."""
        return False

    async def create_new(self, place: str, data: bytes) -> None:
        """Write an object if there is none, for an `exclusive` storage; else the library's own error."""
        raise NotImplementedError

    def key(self, key: str) -> str:
        """The place of a key; UsageError if it would leave the archive's root."""
        if key.startswith("/") or ".." in key and ".." in key.split("/"):
            raise UsageError("a key may not leave the archive's root", key=key)
        return self._prefix + key

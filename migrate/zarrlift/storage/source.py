"""Sources of objects that are only read: the members of a file, the rows of a database.

A source implements `Source`, the backend of its storage. `source_store` makes a zarr store of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from .remote.backend import Backend

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest

    from zarrstack.core.errors import ZarrstackError

    from .local.files import ReadLimit
    from .versions import Version

ALL: Final = slice(None)
"""All bytes of an object."""


class Source(Backend):
    """Objects by key; directories have no "/" at their end."""

    shown: str
    """Its path or URL, without secrets, for messages."""
    creates = False

    @abstractmethod
    async def content(
        self, key: str, part: slice = ALL, bound: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """Bytes of an object as a slice of them would be, None if there is none.

        Of an object that is larger than `bound`, no more than that is read before the error. Sources that
        tell versions raise SourceChangedError for another one than `version`.
        """

    @abstractmethod
    def refusal(self, key: str) -> ZarrstackError:
        """The error for an attempt to write an object."""

    @property
    def identity(self) -> tuple[object, ...]:
        return (self,)

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        return await self.content(key, ALL, bound, version)

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        from zarrstack.base.byte_ranges import slice_of

        return await self.content(key, slice_of(part), None, version)

    async def write(self, key: str, data: bytes) -> None:
        raise self.refusal(key)

    async def put_file(self, key: str, name: str, size: int) -> None:
        raise self.refusal(key)

    async def create(self, key: str, data: bytes) -> None:
        raise self.refusal(key)

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        raise NotImplementedError

    # ----- for sources in which the methods above do more than is needed here

    async def has(self, key: str) -> bool:
        """Whether there is an object."""
        return await self.state(key) is not None

    async def size(self, key: str) -> int | None:
        state = await self.state(key)
        return None if state is None else state[0]

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        """The keys that start with a prefix."""
        async for page in self.pages(prefix):
            for key in page.keys:
                yield key

"""Sources of objects that are only read: the members of a file, the rows of a database, references.

A source implements `Source`. `source_store` makes a zarr store of it, and the backend of its storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from zarrstack.core.errors import ZarrstackError

    from .listed_versions import Version
    from .listing import ListedPage
    from .local.files import ReadLimit
    from .remote.backend import ObjectState

ALL: Final = slice(None)
"""All bytes of an object."""


class Source(ABC):
    """Objects by key. All methods run in the storage's loop; directories have no "/" at their end."""

    shown: str
    """Its path or URL, without secrets, for messages."""
    tells_versions: ClassVar[bool] = False
    """Whether `read` compares versions."""

    @abstractmethod
    async def find(self, key: str) -> ObjectState | None:
        """Size and version of an object, None if there is none."""

    @abstractmethod
    async def read(
        self, key: str, part: slice = ALL, bound: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """Bytes of an object as a slice of them would be, None if there is none.

        Of an object that is larger than `bound`, no more than that is read before the error. Sources that
        tell versions raise SourceChangedError for another one than `version`.
        """

    @abstractmethod
    def pages(self, prefix: str) -> AsyncIterator[ListedPage]:
        """All objects whose keys start with a prefix, page by page, as they are now."""

    @abstractmethod
    async def children(self, directory: str) -> dict[str, bool]:
        """Name -> whether it is a directory, for names directly below a directory ("" is the root)."""

    @abstractmethod
    def refusal(self, key: str) -> ZarrstackError:
        """The error for an attempt to write an object."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that are equal for the same source."""
        return (self,)

    # ----- for sources in which the methods above do more than is needed here

    async def has(self, key: str) -> bool:
        """Whether there is an object."""
        return await self.find(key) is not None

    async def size(self, key: str) -> int | None:
        """Size of an object in bytes, None if there is none."""
        state = await self.find(key)
        return None if state is None else state[0]

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        """The keys that start with a prefix."""
        async for page in self.pages(prefix):
            for key in page.keys:
                yield key

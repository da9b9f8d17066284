"""Files with objects inside, which are only read: the members of a zip file, the rows of a database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ...core.format_table import DOCUMENT_NAMES
from ..remote.async_storage import ObjectHead
from ..remote.remote_storage import RemoteStorage

if TYPE_CHECKING:
    from zarrstack.core.errors import ZarrstackError

    from ..local.files import ReadLimit
    from ..versions import Version

_PACKING: Final = frozenset({"__MACOSX", ".DS_Store"})
"""Names that archivers add next to an archive."""


class Container(RemoteStorage):
    """The objects of a directory in a file. A kind of file finds, reads and lists them (`pages`)."""

    read_only = True

    @abstractmethod
    async def find(self, place: str) -> ObjectHead | None:
        """Size and version of an object; None if there is none."""

    @abstractmethod
    async def content(
        self, place: str, part: slice, limit: ReadLimit | None, version: Version | None
    ) -> bytes | None:
        """Bytes of an object as a slice of them would be, None if there is none.

        Of an object that is larger than `limit`, no more than that is read before the error. Kinds that
        tell versions raise SourceChangedError for another one than `version`.
        """

    @abstractmethod
    def refusal(self) -> ZarrstackError:
        """The error for an attempt to write an object."""

    async def head(self, place: str) -> ObjectHead | None:
        return await self.find(place)

    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        return await self.content(place, slice(None), limit, version)

    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        return await self.content(place, part, None, version)

    async def write(self, place: str, data: bytes) -> None:
        raise self.refusal()

    async def remove(self, place: str) -> None:
        raise self.refusal()


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

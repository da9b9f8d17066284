"""The store of an Icechunk session as `Storage`: what differs from other stores.

Found with Icechunk 1.1.21 and 2.3.0: a range that goes beyond the end of a document ends in a panic, the size
of what is missing is 0, and keys that are not Zarr's are errors.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.paths import join

from ..remote.backend import stored_bytes
from ..remote.store_listing import any_names
from ..remote.zarr_store import StoreStorage

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest

    from ..listed_versions import Version
    from ..listing import ListedPage
    from ..local.files import ReadLimit

DOCUMENT: Final = "zarr.json"
_KEY: Final = re.compile(r"(.+/)?(zarr\.json|c(/[0-9]+)*)")
"""Keys that Icechunk may have: documents, and chunks in the default encoding. A node may be named `c` too."""


class SessionStorage(StoreStorage):
    """The nodes and chunks of a session."""

    can_list = True
    holds_consolidated = False

    async def fetch_size(self, key: str) -> int | None:
        return await self.request("cannot read", key, lambda: self._size(self.key(key)))

    async def _whole(self, place: str, bound: ReadLimit, version: Version | None) -> bytes | None:
        """Without a range: Icechunk fails for one that goes beyond a document's end (1.1.21, 2.3.0)."""
        size = await self._size(place)
        if size is None:
            return None
        bound.check(size)
        return await stored_bytes(self._store, place, None)

    async def _part(self, key: str, part: ByteRequest, version: Version | None) -> bytes | None:
        """The part that there is; as for whole objects."""
        from zarr.abc.store import RangeByteRequest

        from zarrstack.base.byte_ranges import bounds

        place = self.key(key)
        size = await self._size(place)
        if size is None:
            return None
        start, stop = bounds(part, size)
        if start == stop:
            return b""
        return await stored_bytes(self._store, place, RangeByteRequest(start, stop))

    async def _size(self, place: str) -> int | None:
        """The size of an object; of what is missing Icechunk says 0, of other keys that they are wrong."""
        if _KEY.fullmatch(place) is None:
            return None
        return await self._store.getsize(place) if await self._store.exists(place) else None

    def _pages(self, full: str, keys: Callable[[], Sequence[str]] | None = None) -> AsyncIterator[ListedPage]:
        """All keys of a node; none if it is not there, which is an error for Icechunk."""
        return self._listed(full)

    async def _listed(self, full: str) -> AsyncIterator[ListedPage]:
        node = full.strip("/")
        if node and await self._size(f"{node}/{DOCUMENT}") is None:
            return
        async for page in any_names(self._store, full):
            yield page

    async def _children(self, prefix: str) -> dict[str, bool]:
        """Names below a group or array; none below the `c` of an array, which is not a node."""
        if "c" in prefix.split("/") and await self._size(self.key(join(prefix, DOCUMENT))) is None:
            return {}
        names = [name async for name in self._store.list_dir(self.key(prefix) if prefix else "")]
        return {name: name != DOCUMENT for name in names}

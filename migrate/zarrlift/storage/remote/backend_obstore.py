"""Object stores through obstore, which takes a third of the processor time of s3fs per request.

zarr-python provides the store (`zarr.storage.ObjectStore`), `store_at` that of a URL; this module adds
further capabilities. Source: obstore 0.12 (https://developmentseed.org/obstore).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base import PARTS_AT_ONCE, ListedPage
from ..versions import Version, source_object_changed, version_number
from .backend import Backend, ObjectState, part_size, version_text, version_texts
from .parallel_listing import Pages, lists_ranges, pages_in_ranges

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest

    from ..local.files import ReadLimit

_MAX_COPIED: Final = 5 << 30
"""Maximum number of bytes that S3 copies in one request
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html).
"""
_STARTS_COPIES: Final = frozenset({"AzureStore"})
"""Kinds of stores that may answer that a copy is pending, for which obstore 0.12 does not wait
(https://learn.microsoft.com/rest/api/storageservices/copy-blob).
"""
_PAGE: Final = 1000
"""Objects per batch of a listing, the number in one request to S3."""
_PAGES: Final = 10 * _PAGE
"""Objects per batch of a long listing."""


class ObstoreBackend(Backend):
    """An obstore store."""

    tells_versions = True

    def __init__(self, store: Any) -> None:
        """`store` is a `zarr.storage.ObjectStore`."""
        self.store = store
        self._below = store.store
        self._etags_differ = False
        self.copies_at_once = type(self._below).__name__ not in _STARTS_COPIES

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """One request, which gives size and ETag before the bytes."""
        import obstore

        try:
            answer = await obstore.get_async(self._below, key)
        except FileNotFoundError:
            return None
        await self._require(key, answer.meta["e_tag"], version)
        bound.check(answer.meta["size"])
        return bytes(await answer.bytes_async())

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """As `read_with_state`; a range alone takes less processor time, if no ETag must be compared."""
        import obstore
        from zarr.abc.store import RangeByteRequest

        if version is not None or not isinstance(part, RangeByteRequest):
            answer = await self.read_with_state(key, part, version)
            return None if answer is None else answer[0]
        try:
            return bytes(await obstore.get_range_async(self._below, key, start=part.start, end=part.end))
        except FileNotFoundError:
            return None

    async def state(self, key: str) -> ObjectState | None:
        import obstore

        try:
            return _state(await obstore.head_async(self._below, key))
        except FileNotFoundError:
            return None

    async def read_with_state(
        self, key: str, part: ByteRequest, version: Version | None = None
    ) -> tuple[bytes, ObjectState] | None:
        """One request; on Azure, which knows no ranges from the end, two."""
        import obstore
        from obstore.exceptions import NotSupportedError

        from zarrstack.base.byte_ranges import bounds

        try:
            try:
                answer = await obstore.get_async(self._below, key, options={"range": _range(part)})
            except NotSupportedError:
                size = (await obstore.head_async(self._below, key))["size"]
                answer = await obstore.get_async(self._below, key, options={"range": bounds(part, size)})
        except FileNotFoundError:
            return None
        await self._require(key, answer.meta["e_tag"], version)
        return bytes(await answer.bytes_async()), _state(answer.meta)

    def version_in(self, size: int, state: str) -> Version | None:
        etag = version_text(state.partition(" ")[0])
        return None if etag in (None, "None") else (size, version_number(str(etag)))

    async def write(self, key: str, data: bytes) -> None:
        """One request; zarr's store would convert the data three times."""
        import obstore

        await obstore.put_async(self._below, key, data)

    async def _require(self, key: str, etag: str | None, version: Version | None) -> None:
        """Raise SourceChangedError if an object's ETag differs from the listed one."""
        if version is None or etag is None or self._etags_differ:
            return
        if version_number(version_text(etag) or "") == version[1]:
            return
        # Some servers have other ETags in their listings, or only times: the listing is decisive.
        async for page in self._pages(key.rpartition("/")[0], _PAGE, offset=key[:-1]):
            if key in page.keys:
                assert page.versions is not None
                now = page.versions[page.keys.index(key)]
                self._etags_differ = now is not None and version_number(now) == version[1]
            if page.keys[-1] >= key:
                break
        if not self._etags_differ:
            raise source_object_changed()

    async def children(self, prefix: str) -> dict[str, bool]:
        """A listing with a delimiter, with as many requests as it has pages."""
        import obstore

        listing: Any = await obstore.list_with_delimiter_async(self._below, prefix or None)
        own = prefix.strip("/")
        # Some tools create an empty object for a directory.
        objects = [item["path"].strip("/") for item in listing["objects"]]
        names = {path.rsplit("/", 1)[-1]: False for path in objects if path != own}
        return names | {path.strip("/").rsplit("/", 1)[-1]: True for path in listing["common_prefixes"]}

    def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """Objects as the store lists them; with ETags if available, else times."""
        place = prefix.strip("/")
        if keys is None or not lists_ranges(self._below):
            return self._pages(place, _PAGES)
        return pages_in_ranges(lambda start: self._pages(place, 2 * _PAGE, start), keys)

    async def _pages(self, prefix: str, size: int, offset: str | None = None) -> Pages:
        import obstore

        listing: Any = obstore.list(
            self._below, prefix or None, offset=offset or None, chunk_size=size, return_arrow=has_arrow()
        )
        async for part in listing:
            keys, tags = _column(part, "path"), _column(part, "e_tag")
            sizes = _column(part, "size") if isinstance(part, list) else part.column("size").to_numpy()
            if None in tags:
                times = _column(part, "last_modified")
                tags = [tag or time for tag, time in zip(tags, times, strict=True)]
            yield ListedPage(keys, sizes, version_texts(tags))

    async def put_file(self, key: str, name: str, size: int) -> None:
        """Send parts that take little memory, two at a time."""
        import obstore

        part = part_size(size)
        await obstore.put_async(
            self._below, key, Path(name), chunk_size=part, max_concurrency=PARTS_AT_ONCE, use_multipart=True
        )

    @property
    def creates(self) -> bool:
        return type(self._below).__name__ != "HTTPStore"

    async def create(self, key: str, data: bytes) -> None:
        """Create with `If-None-Match: *`, or the store's equivalent."""
        import obstore

        await obstore.put_async(self._below, key, data, mode="create", use_multipart=False)

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        import obstore

        if size > _MAX_COPIED:
            raise NotImplementedError
        await obstore.copy_async(self._below, before, after)

    @property
    def identity(self) -> tuple[object, ...]:
        """Kind, location within it, and configuration including credentials."""
        below = self._below
        names = ("prefix", "config", "client_options", "credential_provider")
        return type(below), *(getattr(below, name, None) for name in names)


def _state(meta: Any) -> ObjectState:
    return meta["size"], f"{meta['e_tag']} {meta['last_modified']}"


def _range(part: ByteRequest) -> Any:
    """A byte request in obstore's form."""
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest

    if isinstance(part, RangeByteRequest):
        return part.start, part.end
    return {"suffix": part.suffix} if isinstance(part, SuffixByteRequest) else {"offset": part.offset}


def _column(page: Any, name: str) -> list[Any]:
    """A property of the objects in a page, which is a list of dictionaries or an Arrow batch."""
    values: list[Any] = (
        [item[name] for item in page] if isinstance(page, list) else page.column(name).to_pylist()
    )
    return values


@cache
def has_arrow() -> bool:
    """Whether listings can be made without an object of Python for each property of each object."""
    return find_spec("arro3") is not None

"""Buckets of S3, Google and Azure through obstore.

It takes a third of the processor time of s3fs per request.

zarr-python provides the store (`zarr.storage.ObjectStore`), `buckets` that of a URL. Source: obstore 0.12
(https://developmentseed.org/obstore).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base import PART, PARTS_AT_ONCE, ListedPage, ObjectPart
from ..versions import Version, source_object_changed, version_number
from .async_storage import ObjectHead, object_head, version_text
from .parallel_listing import Pages, lists_ranges, pages_in_ranges
from .store_storage import StoreStorage

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..local.files import ReadLimit

_MAX_PARTS: Final = 10_000
"""Maximum number of parts of an object in S3
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
"""
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


class BucketStorage(StoreStorage):
    """A bucket or container below a path."""

    tells_versions = True

    def __init__(
        self, store: Store, path: str = "", *, url: str | None = None, secrets: Sequence[str] = ()
    ) -> None:
        """`store` is a `zarr.storage.ObjectStore`."""
        super().__init__(store, path, url=url, secrets=secrets)
        self._bucket: Any = store.store  # type: ignore[attr-defined]
        self._etags_differ = False
        kind = type(self._bucket).__name__
        self.exclusive = kind != "HTTPStore"
        self.copies_at_once = kind not in _STARTS_COPIES
        """False if `copy` may return before the store has copied."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Kind, location within it, and configuration including credentials."""
        names = ("prefix", "config", "client_options", "credential_provider")
        return type(self._bucket), *(getattr(self._bucket, name, None) for name in names)

    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        """One request, which gives size and ETag before the bytes."""
        import obstore

        try:
            answer = await obstore.get_async(self._bucket, place)
        except FileNotFoundError:
            return None
        await self._require(place, answer.meta["e_tag"], version)
        limit.check(answer.meta["size"])
        return bytes(await answer.bytes_async())

    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        """As `read_end`; a range alone takes less processor time, if no ETag must be compared."""
        import obstore

        if version is not None or part.stop is None:
            end = await self.read_end(place, part, version)
            return None if end is None else end.data
        try:
            return bytes(await obstore.get_range_async(self._bucket, place, start=part.start, end=part.stop))
        except FileNotFoundError:
            return None

    async def read_end(self, place: str, part: slice, version: Version | None) -> ObjectPart | None:
        """One request; on Azure, which knows no ranges from the end, two."""
        import obstore
        from obstore.exceptions import NotSupportedError

        try:
            try:
                answer = await obstore.get_async(self._bucket, place, options={"range": _range(part)})
            except NotSupportedError:
                size = (await obstore.head_async(self._bucket, place))["size"]
                start, stop, _ = part.indices(size)
                answer = await obstore.get_async(self._bucket, place, options={"range": (start, stop)})
        except FileNotFoundError:
            return None
        await self._require(place, answer.meta["e_tag"], version)
        head = _head(answer.meta)
        return ObjectPart(bytes(await answer.bytes_async()), answer.meta["size"], head.version)

    async def head(self, place: str) -> ObjectHead | None:
        import obstore

        try:
            return _head(await obstore.head_async(self._bucket, place))
        except FileNotFoundError:
            return None

    async def _require(self, place: str, etag: str | None, version: Version | None) -> None:
        """Raise SourceChangedError if an object's ETag differs from the listed one."""
        if version is None or etag is None or self._etags_differ:
            return
        if version_number(version_text(etag) or "") == version[1]:
            return
        # Some servers have other ETags in their listings, or only times: the listing is decisive.
        async for page in self._pages(place.rpartition("/")[0], _PAGE, offset=place[:-1]):
            if place in page.keys:
                assert page.versions is not None
                now = page.versions[page.keys.index(place)]
                self._etags_differ = now is not None and version_number(now) == version[1]
            if page.keys[-1] >= place:
                break
        if not self._etags_differ:
            raise source_object_changed()

    async def write(self, place: str, data: bytes) -> None:
        """One request; zarr's store would convert the data three times."""
        import obstore

        await obstore.put_async(self._bucket, place, data)

    async def send_file(self, place: str, name: str, size: int) -> bool:
        """Send parts that take little memory, two at a time."""
        import obstore

        await obstore.put_async(
            self._bucket,
            place,
            Path(name),
            chunk_size=part_size(size),
            max_concurrency=PARTS_AT_ONCE,
            use_multipart=True,
        )
        return True

    async def create_new(self, place: str, data: bytes) -> None:
        """Create with `If-None-Match: *`, or the store's equivalent."""
        import obstore

        await obstore.put_async(self._bucket, place, data, mode="create", use_multipart=False)

    async def copy(self, before: str, after: str, size: int) -> None:
        """Copy an object within the store; NotImplementedError if it is too large for one request."""
        import obstore

        if size > _MAX_COPIED:
            raise NotImplementedError
        await obstore.copy_async(self._bucket, before, after)

    async def children(self, directory: str) -> Mapping[str, bool]:
        """A listing with a delimiter, with as many requests as it has pages."""
        import obstore

        listing: Any = await obstore.list_with_delimiter_async(self._bucket, directory or None)
        # Some tools create an empty object for a directory.
        objects = [item["path"].strip("/") for item in listing["objects"]]
        names = {path.rsplit("/", 1)[-1]: False for path in objects if path != directory}
        return names | {path.strip("/").rsplit("/", 1)[-1]: True for path in listing["common_prefixes"]}

    def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """Objects as the store lists them; with ETags if available, else times."""
        directory = prefix.strip("/")
        if keys is None or not lists_ranges(self._bucket):
            return self._pages(directory, _PAGES)
        return pages_in_ranges(lambda start: self._pages(directory, 2 * _PAGE, start), keys)

    async def _pages(self, prefix: str, size: int, offset: str | None = None) -> Pages:
        import obstore

        listing: Any = obstore.list(
            self._bucket, prefix or None, offset=offset or None, chunk_size=size, return_arrow=has_arrow()
        )
        async for part in listing:
            keys, tags = _column(part, "path"), _column(part, "e_tag")
            sizes = _column(part, "size") if isinstance(part, list) else part.column("size").to_numpy()
            if None in tags:
                times = _column(part, "last_modified")
                tags = [tag or time for tag, time in zip(tags, times, strict=True)]
            yield ListedPage(keys, sizes, version_texts(tags))


def part_size(size: int) -> int:
    """Size in bytes of the parts in which a file of this size is sent."""
    return max(PART, -(-size // _MAX_PARTS))


def _head(meta: Any) -> ObjectHead:
    return object_head(meta["size"], meta["e_tag"] or str(meta["last_modified"]))


def _range(part: slice) -> Any:
    """A part in obstore's form."""
    if part.stop is not None:
        return part.start, part.stop
    return {"suffix": -part.start} if part.start < 0 else {"offset": part.start}


def version_texts(values: Sequence[object]) -> Sequence[str | None]:
    """The text of each of many versions; quotes are removed from all at once if all have them."""
    if values and all(type(value) is str for value in values):
        text = "\n".join(values)  # type: ignore[arg-type]
        inside = text[1:-1].split('"\n"')
        if text[:1] == text[-1:] == '"' and len(inside) == len(values) and text.count('"') == 2 * len(values):
            return inside
    return [version_text(value) for value in values]


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

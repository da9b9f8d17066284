"""Objects over HTTP. A server may state a wrong length for a response, and need not end it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError

from ..base import ObjectPart
from ..versions import Version, source_object_changed
from .async_storage import ObjectHead, object_head
from .store_storage import StoreStorage

if TYPE_CHECKING:
    from zarr.storage import FsspecStore

    from ..local.files import ReadLimit

_PIECE: Final = 256 << 10
_PARTIAL: Final = 206
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_BEHIND: Final = 416
"""The range begins behind the end of the object, whose size is in `Content-Range` (RFC 9110, 15.5.17)."""


_PAGE: Final = (b"<!doctype html", b"<html")


class HttpStorage(StoreStorage):
    """fsspec's file system for HTTP, with bodies read in pieces.

    Compressed responses are decompressed (`Content-Encoding`), so a short body may be a large object. Only
    status 404 means that an object is missing, and others that are named as `absent`: S3 answers 403 to those
    who may not list (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
    """

    def __init__(
        self,
        store: FsspecStore,
        path: str = "",
        *,
        url: str | None = None,
        secrets: Sequence[str] = (),
        absent: Collection[int] = (),
    ) -> None:
        super().__init__(store, path, url=url, secrets=secrets)
        self._absent = frozenset(absent)
        self.absence = "HTTP status " + " or ".join(map(str, (404, *sorted(self._absent))))

    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        """Read an object; refused by `Content-Length`, or as soon as the body exceeds the limit."""
        answer = await self._get(place, None, limit.most, limit, version)
        return None if answer is None else answer[0]

    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        """Read a range, and no more than requested; from servers without ranges, from the start on."""
        answer = await self._span(place, part, version)
        return None if answer is None else answer[0]

    async def read_end(self, place: str, part: slice, version: Version | None) -> ObjectPart | None:
        answer = await self._span(place, part, version)
        if answer is None:
            return None
        data, head = answer
        return ObjectPart(data, _size(place, head), head.version)

    async def head(self, place: str) -> ObjectHead | None:
        """As the headers of a request for its first byte tell it."""
        answer = await self._range(place, 0, 1, None)
        return None if answer is None else answer[1]

    async def length(self, place: str) -> int | None:
        """As `head`; StorageError if the headers do not tell it."""
        head = await self.head(place)
        return None if head is None else _size(place, head)

    async def exists(self, place: str) -> bool:
        return await self.head(place) is not None

    async def _span(
        self, place: str, part: slice, version: Version | None
    ) -> tuple[bytes, ObjectHead] | None:
        """One request for a range; another one before it for the size, if the end of the object is wanted."""
        start, stop = part.start, part.stop
        if start is None or stop is None or start < 0:
            head = await self.head(place)
            if head is None:
                return None
            start, stop, _ = part.indices(_size(place, head))
        return await self._range(place, start, stop, version)

    async def _range(
        self, place: str, start: int, stop: int, version: Version | None
    ) -> tuple[bytes, ObjectHead] | None:
        """The bytes of a range and the object's head; None if missing. A range of no bytes has no request."""
        last = max(stop, start + 1)
        answer = await self._get(place, (start, last), last - start, None, version)
        return None if answer is None else (answer[0][: stop - start], answer[1])

    async def _get(
        self,
        place: str,
        span: tuple[int, int] | None,
        most: int,
        limit: ReadLimit | None,
        version: Version | None,
    ) -> tuple[bytes, ObjectHead] | None:
        """Read at most `most` bytes of an object, or of a span; the error of `limit` for more."""
        fs, url, start = self._files, self.path(place), 0
        options = dict(fs.kwargs)
        if span is not None:
            start = span[0]
            wanted = {"Range": f"bytes={start}-{span[1] - 1}"}
            options["headers"] = {**(options.get("headers") or {}), **wanted}
        session = await fs.set_session()
        try:
            async with session.get(fs.encode_url(url), **options) as answer:
                if answer.status in self._absent:
                    return None
                if answer.status == _BEHIND and span and "/" in answer.headers.get("Content-Range", ""):
                    return b"", _head(answer)
                if answer.status == _UNAUTHORIZED:
                    raise StorageError(
                        "cannot read",
                        key=place or None,
                        found="HTTP status 401 (Unauthorized)",
                        advice="Give the user and the password in the URL: https://USER:PASSWORD@HOST/PATH.",
                    )
                if answer.status == _FORBIDDEN:
                    raise _forbidden(place)
                fs._raise_not_found_for_status(answer, url)  # noqa: SLF001 - fsspec's own reading of a status
                skipped = 0 if answer.status == _PARTIAL else start
                if span is not None and answer.status != _PARTIAL:
                    self.gives_ranges = False
                head = _head(answer)
                if version is not None and head.version is not None and head.version[1] != version[1]:
                    raise source_object_changed()
                if limit is not None and answer.content_length is not None:
                    limit.check(answer.content_length)
                data = await _body(answer, skipped, most, limit)
                # A server that answers with a page in place of an error does not tell what is missing.
                if answer.content_type == "text/html" and (
                    start or data.lstrip()[:14].lower().startswith(_PAGE)
                ):
                    raise _a_page(place)
                return data, head
        except self._store.allowed_exceptions:
            return None


def _forbidden(key: str) -> StorageError:
    return StorageError(
        "cannot read",
        key=key or None,
        found="HTTP status 403, which tells neither that the object exists nor that it is missing",
        advice="If this server answers 403 for what is missing, as S3 does to those who may not list, repeat"
        " with the storage option absent_status=403.",
    )


def _a_page(key: str) -> StorageError:
    return StorageError(
        "the server answered with an HTML page in place of an object",
        key=key or None,
        found="HTTP status 200 and Content-Type text/html",
        expected="the object, or status 404 if it is missing",
        advice="Check the URL; if the server does so for all that is missing, copy the archive to a"
        " directory.",
    )


def _size(place: str, head: ObjectHead) -> int:
    if head.size is None:
        raise StorageError("the server does not tell the size of the object", key=place or None)
    return head.size


def _head(answer: Any) -> ObjectHead:
    """Size, from `Content-Range` (RFC 9110, 14.4) of a part, and time or ETag.

    The time comes first: servers that share a name may have different ETags for one file.
    """
    headers = answer.headers
    size = answer.content_length
    if answer.status in (_PARTIAL, _BEHIND):
        total = headers.get("Content-Range", "").rpartition("/")[2]
        size = int(total) if total.isdecimal() else None
    return object_head(size, headers.get("Last-Modified") or headers.get("ETag"))


async def _body(answer: Any, skipped: int, most: int, limit: ReadLimit | None) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        data += piece
        if skipped:
            cut = min(skipped, len(data))
            del data[:cut]
            skipped -= cut
        if len(data) > most:
            if limit is not None:
                raise limit.too_large(f"more than {most} bytes")
            del data[most:]
            break
    return bytes(data)

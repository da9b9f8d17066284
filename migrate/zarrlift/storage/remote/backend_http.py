"""Objects over HTTP. A server may state a wrong length for a response, and need not end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError

from ..local.files import ReadLimit
from ..versions import Version
from .backend import ObjectState
from .backend_fsspec import FsspecBackend

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest

_PIECE: Final = 256 << 10
_PARTIAL: Final = 206
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_BEHIND: Final = 416
"""The range begins behind the end of the object, whose size is in `Content-Range` (RFC 9110, 15.5.17)."""


_PAGE: Final = (b"<!doctype html", b"<html")


class HttpBackend(FsspecBackend):
    """fsspec's file system for HTTP, with bodies read in pieces.

    Compressed responses are decompressed (`Content-Encoding`), so a short body may be a large object. Only
    status 404 means that an object is missing, and others that are named as `absent`: S3 answers 403 to those
    who may not list (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
    """

    absence = "HTTP status 404"
    absent: frozenset[int] = frozenset()

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """Read an object; refused by `Content-Length`, or as soon as the body exceeds the bound."""
        return await self._get(key, {}, 0, bound.most, bound)

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """Read a range, and no more than requested; from servers without ranges, from the start on."""
        answer = await self.read_with_state(key, part, version)
        return None if answer is None else answer[0]

    async def size(self, key: str) -> int | None:
        """As the headers of a request for the first byte tell it; StorageError if they do not."""
        state = await self.state(key)
        return None if state is None else _size(key, state)

    async def state(self, key: str) -> ObjectState | None:
        """As the headers of a request for its first byte tell it."""
        first = await self._span(key, 0, 1)
        return None if first is None else first[1]

    async def read_with_state(
        self, key: str, part: ByteRequest, version: Version | None = None
    ) -> tuple[bytes, ObjectState] | None:
        """One request for a range; another one before it for the size, if the end of the object is wanted."""
        from zarr.abc.store import RangeByteRequest

        from zarrstack.base.byte_ranges import bounds

        if isinstance(part, RangeByteRequest):
            return await self._span(key, part.start, part.end)
        state = await self.state(key)
        return None if state is None else await self._span(key, *bounds(part, _size(key, state)))

    async def _span(self, key: str, start: int, stop: int) -> tuple[bytes, ObjectState] | None:
        """The bytes of a range, and the object's state as the headers tell it; None if missing."""
        states: list[ObjectState] = []
        # A range of no bytes cannot be asked for.
        headers = {"Range": f"bytes={start}-{max(stop, start + 1) - 1}"}
        data = await self._get(key, headers, start, max(stop, start + 1) - start, None, states.append)
        return None if data is None else (data[: stop - start], states[0])

    async def _get(
        self,
        key: str,
        headers: dict[str, str],
        start: int,
        most: int,
        bound: ReadLimit | None,
        tell: Callable[[ObjectState], None] = lambda _: None,
    ) -> bytes | None:
        """Read at most `most` bytes; the error of `bound` for more. `tell` receives the object's state."""
        fs, url = self.fs, self.path(key)
        options = dict(fs.kwargs)
        options["headers"] = {**(options.get("headers") or {}), **headers}
        session = await fs.set_session()
        try:
            async with session.get(fs.encode_url(url), **options) as answer:
                if answer.status in self.absent:
                    return None
                if answer.status == _BEHIND and headers and "/" in answer.headers.get("Content-Range", ""):
                    tell(_state(answer))
                    return b""
                if answer.status == _UNAUTHORIZED:
                    raise StorageError(
                        "cannot read",
                        key=key or None,
                        found="HTTP status 401 (Unauthorized)",
                        advice="Give the user and the password in the URL: https://USER:PASSWORD@HOST/PATH.",
                    )
                if answer.status == _FORBIDDEN:
                    raise _forbidden(key)
                fs._raise_not_found_for_status(answer, url)  # noqa: SLF001 - fsspec's own reading of a status
                skipped = 0 if answer.status == _PARTIAL or not headers else start
                if headers and answer.status != _PARTIAL:
                    self.gives_ranges = False
                tell(_state(answer))
                if bound is not None and answer.content_length is not None:
                    bound.check(answer.content_length)
                data = await _body(answer, skipped, most, bound)
                # A server that answers with a page in place of an error does not tell what is missing.
                if answer.content_type == "text/html" and (
                    start or data.lstrip()[:14].lower().startswith(_PAGE)
                ):
                    raise _a_page(key)
                return data
        except self.store.allowed_exceptions:
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


def _size(key: str, state: ObjectState) -> int:
    if state[0] is None:
        raise StorageError("the server does not tell the size of the object", key=key or None)
    return state[0]


def _state(answer: Any) -> ObjectState:
    """Size, from `Content-Range` (RFC 9110, 14.4) of a part, and ETag or time."""
    headers = answer.headers
    size = answer.content_length
    if answer.status in (_PARTIAL, _BEHIND):
        total = headers.get("Content-Range", "").rpartition("/")[2]
        size = int(total) if total.isdecimal() else None
    return size, headers.get("ETag") or headers.get("Last-Modified") or ""


async def _body(answer: Any, skipped: int, most: int, bound: ReadLimit | None) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        data += piece
        if skipped:
            cut = min(skipped, len(data))
            del data[:cut]
            skipped -= cut
        if len(data) > most:
            if bound is not None:
                raise bound.too_large(f"more than {most} bytes")
            del data[most:]
            break
    return bytes(data)

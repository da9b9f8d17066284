"""A view of an archive over HTTP, so that readers elsewhere (browsers mostly) read it as it lies.

Whole objects and byte ranges (RFC 9110, section 14), `HEAD`, and the headers by which a browser lets a
page of another origin read them (https://fetch.spec.whatwg.org/#http-cors-protocol). Nothing can be
written, and no path leads anywhere but to keys of the view.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

if TYPE_CHECKING:
    from aiohttp import web
    from zarr.abc.store import ByteRequest, Store

_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "Range, If-None-Match, Cache-Control",
    "Access-Control-Expose-Headers": "Content-Range, Content-Length, Accept-Ranges",
    "Access-Control-Max-Age": "86400",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A view, and what it is to people and programs."""

    view: Store
    url: str
    """Names the archive to people."""
    shown_as: str = "Zarr v3"
    documents: frozenset[str] = frozenset({"zarr.json"})
    """What metadata documents are called, which are JSON."""

    def is_document(self, key: str) -> bool:
        """Whether a key is that of metadata."""
        return key.rpartition("/")[2] in self.documents


def application(served: Served) -> web.Application:
    """An aiohttp application that serves a view at its root."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "OPTIONS":
            return web.Response(status=204, headers=_CORS)
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={**_CORS, "Allow": "GET, HEAD, OPTIONS"})
        key = request.match_info["key"].strip("/")
        if not key:
            names = " and ".join(sorted(served.documents))
            text = f"{served.url} as {served.shown_as}, by zarrlift: see {names}\n"
            return web.Response(text=text, headers=_CORS)
        try:
            return await _object(served, key, request)
        except ZarrstackError as error:
            # A node that is refused is not there; a chunk that is damaged is no missing chunk.
            status = 404 if served.is_document(key) else 500
            return web.Response(status=status, text=f"{error}\n", headers=_CORS)

    app = web.Application()
    app.router.add_route("*", "/{key:.*}", answer)
    return app


async def _object(served: Served, key: str, request: web.Request) -> web.Response:
    from aiohttp import web
    from zarr.core.buffer.core import default_buffer_prototype

    view = served.view
    kind = "application/json" if served.is_document(key) else "application/octet-stream"
    headers = {**_CORS, "Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
    prototype = default_buffer_prototype()
    wanted = _range(request)
    if wanted is None:
        value = await view.get(key, prototype)
        if value is None:
            return web.Response(status=404, headers=_CORS)
        return web.Response(body=value.to_bytes(), headers=headers, content_type=kind)
    try:
        size = await view.getsize(key)
    except FileNotFoundError:
        return web.Response(status=404, headers=_CORS)
    start, stop = _within(wanted, size)
    if start >= stop:
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    value = await view.get(key, prototype, _request(start, stop))
    if value is None:
        return web.Response(status=404, headers=_CORS)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return web.Response(status=206, body=value.to_bytes(), headers=headers, content_type=kind)


def _range(request: web.Request) -> slice | None:
    """What is asked for; None for all of it, and for a range that cannot be understood, as RFC 9110 says."""
    try:
        wanted: slice = request.http_range
    except ValueError:  # several ranges too, which a server need not give
        return None
    return None if wanted.start is None and wanted.stop is None else wanted


def _within(wanted: slice, size: int) -> tuple[int, int]:
    start, stop, _ = wanted.indices(size)
    return start, stop


def _request(start: int, stop: int) -> ByteRequest:
    from zarr.abc.store import RangeByteRequest

    return RangeByteRequest(start, stop)


async def serve(served: Served, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the task is cancelled; `ready` is told the address. StorageError where it is taken."""
    from aiohttp import web

    runner = web.AppRunner(application(served), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise StorageError(
                "cannot listen there",
                found=f"{host}:{port} ({error.strerror or error})",
                advice="Choose another --port; 0 takes any that is free.",
            ) from error
        address = runner.addresses[0]
        ready(f"http://{_bracketed(address[0])}:{address[1]}/")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def run(served: Served, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """`serve`, until Ctrl-C or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_until_stopped(serve(served, host=host, port=port, ready=ready)))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """The work, cancelled by a signal between two steps of the loop.

    Raised in the middle of one, KeyboardInterrupt would end in a traceback of whatever was being sent.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, task.cancel)
    await task


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def require_server() -> None:
    """UsageError where the package that serves is not installed."""
    try:
        import aiohttp.web  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "serving needs a package that is not installed",
            found=str(error),
            advice="Install it: pip install 'zarrlift[serve]'.",
        ) from error

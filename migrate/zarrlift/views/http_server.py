"""Serves a view over HTTP, so that readers elsewhere (mostly browsers) can read an unconverted archive.

Supports whole objects, byte ranges (RFC 9110, section 14), `HEAD`, and, for allowed origins, the CORS headers
that let pages of other origins read the responses (https://fetch.spec.whatwg.org/#http-cors-protocol). Access
is read-only and limited to keys of the view. A server that only this machine can reach answers only requests
for names of this machine: otherwise a page whose host name is rebound to it (DNS rebinding) would be of the
same origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from .http_connections import Connections, logger

if TYPE_CHECKING:
    from aiohttp import web
    from zarr.abc.store import Store

_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\s]+")
"""All origins (`*`), opaque origins such as files (`null`), or scheme, host and port of an origin."""
_CORS: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "Range, If-None-Match, Cache-Control",
    "Access-Control-Expose-Headers": "Content-Range, Content-Length, Accept-Ranges",
    "Access-Control-Max-Age": "86400",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page for a browser."""

    text: str
    policy: str
    """Its Content-Security-Policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedView:
    """A view and how it is presented to clients."""

    view: Store
    url: str
    """Name of the archive for people."""
    shown_as: str = "Zarr v3"
    documents: frozenset[str] = frozenset({"zarr.json"})
    """Names of metadata documents, which are JSON."""

    origins: frozenset[str] = frozenset()
    """Origins whose pages may read the view in a browser; "*" for all."""
    page: Callable[[str], Page] | None = None
    """The page at the root for a browser, given the server's address; called in a thread. ZarrstackError."""

    def __post_init__(self) -> None:
        for origin in self.origins:
            if _ORIGIN.fullmatch(origin) is None:
                raise UsageError(
                    "not an origin", found=origin, expected="https://host, https://host:port or *"
                )

    def is_document(self, key: str) -> bool:
        """Whether a key is that of a metadata document."""
        return key.rpartition("/")[2] in self.documents


def application(served: ServedView, *, host: str = "", middlewares: tuple[Any, ...] = ()) -> web.Application:
    """An aiohttp application that serves a view at its root.

    `host` is the address on which it listens. If that is a loopback address, requests must be for a name of
    this machine.
    """
    from aiohttp import web

    only_here = is_loopback(host)

    async def answer(request: web.Request) -> web.StreamResponse:
        wanted = _name(request.headers.get("Host", ""))
        if only_here and wanted and wanted != host and not is_loopback(wanted):
            text = f"{wanted} is not a name of this machine; use --host to listen on a network address\n"
            return web.Response(status=421, text=text)
        response = await _answered(served, request)
        response.headers.update(_cors(served, request))
        if request.path == "/":
            response.headers.add("Vary", "Accept")
        return response

    app = web.Application(middlewares=middlewares)
    app.router.add_route("*", "/{key:.*}", answer)
    return app


async def _answered(served: ServedView, request: web.Request) -> web.Response:
    from aiohttp import web

    if request.method == "OPTIONS":
        return web.Response(status=204)
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD, OPTIONS"})
    key = request.match_info["key"].strip("/")
    if not key and served.page is not None and _asks_for_html(request.headers.get("Accept", "")):
        return await _page(served.page, request)
    if not key:
        names = " and ".join(sorted(served.documents))
        return web.Response(text=f"{served.url} as {served.shown_as}, by zarrlift: see {names}\n")
    try:
        return await _object(served, key, request)
    except ZarrstackError as error:
        # A refused node does not exist for clients; a damaged chunk must not appear as a missing one.
        status = 404 if served.is_document(key) else 500
        return web.Response(status=status, text=f"{error}\n")


def _asks_for_html(accept: str) -> bool:
    """Whether an `Accept` header (RFC 9110, section 12.5.1) names HTML, as that of a browser does."""
    for item in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        if kind == "text/html":
            return not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)
    return False


async def _page(page: Callable[[str], Page], request: web.Request) -> web.Response:
    from aiohttp import web

    try:
        html = await asyncio.to_thread(page, f"{request.scheme}://{request.host}/")
    except ZarrstackError as error:
        return web.Response(status=500, text=f"{error}\n")
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": f"{html.policy}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return web.Response(text=html.text, content_type="text/html", headers=headers)


def _cors(served: ServedView, request: web.Request) -> dict[str, str]:
    """The headers that a browser requires before a page of another origin may read the response."""
    if "*" in served.origins:
        return {"Access-Control-Allow-Origin": "*", **_CORS}
    origin = request.headers.get("Origin")
    if origin in served.origins:
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin", **_CORS}
    return {"Vary": "Origin"} if served.origins else {}


def _name(host: str) -> str:
    """The name or address in a `Host` header (RFC 9110, section 7.2), without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()


def is_loopback(name: str) -> bool:
    """Whether a name or address always refers to this machine (RFC 6761, section 6.3)."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _object(served: ServedView, key: str, request: web.Request) -> web.Response:
    from aiohttp import web
    from zarr.abc.store import RangeByteRequest
    from zarr.core.buffer.core import default_buffer_prototype

    view = served.view
    kind = "application/json" if served.is_document(key) else "application/octet-stream"
    headers = {"Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
    prototype = default_buffer_prototype()
    wanted = _range(request)
    if wanted is None:
        value = await view.get(key, prototype)
        if value is None:
            return web.Response(status=404)
        return web.Response(body=value.to_bytes(), headers=headers, content_type=kind)
    try:
        size = await view.getsize(key)
    except FileNotFoundError:
        return web.Response(status=404)
    start, stop, _ = wanted.indices(size)
    if start >= stop:
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    value = await view.get(key, prototype, RangeByteRequest(start, stop))
    if value is None:
        return web.Response(status=404)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return web.Response(status=206, body=value.to_bytes(), headers=headers, content_type=kind)


def _range(request: web.Request) -> slice | None:
    """The requested range; None for the whole object or an invalid range, as required by RFC 9110."""
    try:
        wanted: slice = request.http_range
    except ValueError:  # also for several ranges, which a server need not support
        return None
    return None if wanted.start is None and wanted.stop is None else wanted


async def serve(served: ServedView, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the task is cancelled; `ready` receives the URL. StorageError if the address is in use."""
    from aiohttp import web

    connections = Connections()
    app = application(served, host=host, middlewares=(connections.middleware(),))
    runner = web.AppRunner(app, access_log=None, logger=logger())
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    try:
        try:
            listening = await loop.create_server(connections.protocol(runner.server), host, port)
        except OSError as error:
            raise StorageError(
                "cannot listen on this address",
                found=f"{host}:{port} ({error.strerror or error})",
                advice="Choose another --port; 0 selects a free one.",
            ) from error
        try:
            address = listening.sockets[0].getsockname()
            name = f"[{address[0]}]" if ":" in address[0] else address[0]
            ready(f"http://{name}:{address[1]}/")
            await asyncio.Event().wait()
        finally:
            listening.close()
    finally:
        await runner.cleanup()


def run(served: ServedView, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Run `serve` until Ctrl-C or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_until_stopped(serve(served, host=host, port=port, ready=ready)))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run the work; a signal cancels it between two steps of the event loop.

    KeyboardInterrupt within a step would print a traceback of the response in progress.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, task.cancel)
    await task


def require_server() -> None:
    """Raise UsageError if the server's dependencies are not installed."""
    try:
        import aiohttp.web  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "serving needs a package that is not installed",
            found=str(error),
            advice="Install it: pip install aiohttp.",
        ) from error

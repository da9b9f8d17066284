"""Limits the number and the idle time of an HTTP server's connections, which may come from strangers.

aiohttp 3.14 has no timeout for the rest of a request's head. Each connection therefore has a deadline for its
next request, which is suspended during a response.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler

PATIENCE: Final = 30.0
"""Seconds from the start of a connection, or the end of a response, until the next request must arrive."""
MAX_CONNECTIONS: Final = 512
"""Maximum number of connections; chunk readers open about a hundred."""
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class Connections:
    """The connections of one server."""

    def __init__(self, patience: float = PATIENCE, most: int = MAX_CONNECTIONS) -> None:
        self.patience = patience
        self.most = most
        self.open: dict[asyncio.BaseProtocol, Connection] = {}
        """Connections by the aiohttp protocol object that handles each."""

    def protocol(self, server: Callable[[], Any]) -> Callable[[], Connection]:
        """The protocol factory that `create_server` calls for each connection of an aiohttp server."""
        return lambda: Connection(server(), self)

    def middleware(self) -> Any:
        """Middleware that suspends a connection's deadline during a response."""
        from aiohttp import web

        @web.middleware
        async def timed(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self.open.get(request.protocol)
            if connection is not None:
                connection.stop_clock()
            try:
                response = await handler(request)
                with contextlib.suppress(ConnectionError):  # the client has gone
                    await response.prepare(request)
                    await response.write_eof()
                return response
            finally:
                if connection is not None:
                    connection.start_clock()

        return timed


class Connection(asyncio.Protocol):
    """A connection: aiohttp's protocol with a deadline."""

    def __init__(self, inner: asyncio.Protocol, all_of_them: Connections) -> None:
        self._inner = inner
        self._all = all_of_them
        self._transport: asyncio.Transport | None = None
        self._clock: asyncio.TimerHandle | None = None

    def start_clock(self) -> None:
        """Start the deadline for the next request."""
        self.stop_clock()
        if self._transport is not None:
            loop = asyncio.get_running_loop()
            self._clock = loop.call_later(self._all.patience, self._transport.abort)

    def stop_clock(self) -> None:
        """Suspend the deadline: a request has arrived."""
        if self._clock is not None:
            self._clock.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection to aiohttp, or refuse it."""
        assert isinstance(transport, asyncio.Transport)
        if len(self._all.open) >= self._all.most:
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._transport = transport
        self._all.open[self._inner] = self
        self.start_clock()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward to aiohttp."""
        self.stop_clock()
        if self._transport is not None:
            self._transport = None
            del self._all.open[self._inner]
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Forward to aiohttp."""
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Forward to aiohttp."""
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        """Forward to aiohttp."""
        if self._transport is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Forward to aiohttp."""
        if self._transport is not None:
            self._inner.resume_writing()


def logger() -> logging.Logger:
    """The logger for aiohttp: logs errors of the server, but not invalid requests, which are answered."""
    logger = logging.getLogger("zarrlift.serving")
    if not logger.filters:
        logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    from aiohttp.http_exceptions import HttpProcessingError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)

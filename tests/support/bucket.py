"""A bucket on a server of our own, or of others', which fails where a test says so."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any, Literal, get_args

from aiohttp import web
from tests.support.store_servers import Ours, Server

Fault = Literal["reset", "cut", "short", "late"]
"""No answer at all; a body that breaks off; one that ends early and says so in its Content-Length; an answer
that the next one overtakes.
"""
_REFUSALS = {500: "InternalError", 503: "SlowDown", 429: "TooManyRequests"}
COPIES = {"x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source"}
"""Headers that ask a store to copy an object: S3's, Google's, Azure's."""
_LATE = 0.02
"""Seconds that an answer waits for one to overtake it."""


class Bucket:
    """A server, what it is asked, and what it answers instead of an object where a test says so.

    Clients ask a proxy, which passes each request on.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked: Counter[str] = Counter()
        self.instead: Callable[[web.Request], int | None] = lambda _: None
        self.fault: Callable[[web.Request], Fault | None] = lambda _: None
        self.port = 0
        self._next = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.method] += 1
        self.asked["copy"] += not COPIES.isdisjoint(name.lower() for name in request.headers)
        self.asked["parts"] += "partNumber" in request.query or request.query.get("comp") == "block"
        self._next.set()
        status = self.instead(request)
        if status is not None:
            code = _REFUSALS.get(status, "SlowDown")
            return web.Response(status=status, text=f"<Error><Code>{code}</Code></Error>")
        answered = await self.server.answer(request)
        fault = self.fault(request)
        if fault == "late":
            self._next.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._next.wait(), _LATE)
            return answered
        return answered if fault is None else await spoiled(fault, request, answered)

    def disturb(self, seed: object, share: float) -> Counter[str]:
        """From now on, let a share of the answers go wrong, in any way that a client can see; counts them.

        The ways take turns, so that a dozen failures meet each of them.
        """
        chance, met = random.Random(str(seed)), Counter[str]()
        statuses = cycle(_REFUSALS)
        faults: Iterator[Fault] = cycle(kind for kind in get_args(Fault) if kind != "short")

        def instead(_: web.Request) -> int | None:
            if chance.random() >= share / 2:
                return None
            status = next(statuses)
            met[str(status)] += 1
            return status

        def fault(_: web.Request) -> Fault | None:
            if chance.random() >= share / 2:
                return None
            kind = next(faults)
            met[kind] += 1
            return kind

        self.instead, self.fault = instead, fault
        return met

    def calm(self) -> None:
        """No more of that."""
        self.instead = self.fault = lambda _: None

    @property
    def store(self) -> Any:
        """What our own server holds, which a test may look into and change."""
        assert isinstance(self.server, Ours)
        return self.server.store

    @property
    def endpoint(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """As s3fs, gcsfs or adlfs takes them."""
        return self.server.options(self.endpoint)

    @property
    def ends(self) -> dict[str, Any]:
        """The same for both ends of a job."""
        return {"storage_options": self.options, "dest_storage_options": self.options}

    def url(self, path: str) -> str:
        """The URL of a path in the bucket."""
        return f"{self.server.scheme}://bucket/{path}"

    def stored(self, prefix: str) -> dict[str, bytes]:
        """What lies below a prefix, by relative key."""
        start = f"{prefix}/"
        return {key.removeprefix(start): data for key, data in self.server.objects(start).items()}

    def put(self, prefix: str, content: dict[str, bytes]) -> str:
        """Put files into the bucket; gives their URL."""
        self.server.put({f"{prefix}/{name}": data for name, data in content.items()})
        return self.url(prefix)


async def spoiled(fault: Fault, request: web.Request, answered: web.StreamResponse) -> web.StreamResponse:
    """What reaches the client of an answer, where the request was done but something went wrong then."""
    if request.method == "HEAD":  # has no body that could break off
        if fault == "short":
            return answered
        fault = "reset"
    whole = answered.body if isinstance(answered, web.Response) and isinstance(answered.body, bytes) else b""
    half = whole[: len(whole) // 2]
    headers = {name: value for name, value in answered.headers.items() if name.lower() != "content-length"}
    response = web.StreamResponse(status=answered.status, headers=headers)
    if fault != "reset":
        response.content_length = len(half if fault == "short" else whole)
        await response.prepare(request)
        await response.write(half)
    if fault != "short" and request.transport is not None:
        request.transport.abort()
    return response


@contextmanager
def serving(server: Server | None = None) -> Iterator[Bucket]:
    """An empty bucket of a server, by default of our own, behind a proxy on a thread of its own."""
    made = Bucket(server or Ours())
    made.server.clear()
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def serve() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", made.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.port = runner.addresses[0][1]
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.run_until_complete(made.server.leave())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()

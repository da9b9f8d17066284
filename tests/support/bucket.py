"""A bucket on a server of our own, which fails where a test says so."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

SERVER = Path(__file__).parents[2] / "benchmarks" / "object_server.py"
Fault = Literal["reset", "cut", "short"]
"""No answer at all; a body that breaks off; one that ends early and says so in its Content-Length."""


def server_module() -> Any:
    spec = importlib.util.spec_from_file_location("object_server", SERVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bucket:
    """A server, what it is asked, and what it answers instead of an object where a test says so."""

    def __init__(self) -> None:
        self.store = server_module().Store(0.0)
        self.asked: Counter[str] = Counter()
        self.instead: Callable[[web.Request], int | None] = lambda _: None
        self.fault: Callable[[web.Request], Fault | None] = lambda _: None
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.method] += 1
        self.asked["copy"] += "x-amz-copy-source" in request.headers
        self.asked["parts"] += "partNumber" in request.query
        status = self.instead(request)
        if status is not None:
            return web.Response(status=status, text="<Error><Code>SlowDown</Code></Error>")
        answered: web.StreamResponse = await self.store.answer(request)
        fault = self.fault(request)
        return answered if fault is None else await spoiled(fault, request, answered)

    @property
    def options(self) -> dict[str, Any]:
        """As s3fs takes them."""
        endpoint = f"http://127.0.0.1:{self.port}"
        return {"key": "user", "secret": "hidden-word", "client_kwargs": {"endpoint_url": endpoint}}

    def stored(self, prefix: str) -> dict[str, bytes]:
        """What lies below a prefix, by relative key."""
        objects = self.store.objects.get("bucket", {})
        start = f"{prefix}/"
        return {key.removeprefix(start): data for key, data in objects.items() if key.startswith(start)}

    def put(self, prefix: str, content: dict[str, bytes]) -> str:
        """Put files into the bucket; gives their URL."""
        objects = self.store.objects.setdefault("bucket", {})
        objects.update({f"{prefix}/{name}": data for name, data in content.items()})
        return f"s3://bucket/{prefix}"


async def spoiled(fault: Fault, request: web.Request, answered: web.StreamResponse) -> web.StreamResponse:
    """What reaches the client of an answer, where the request was done but something went wrong then."""
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
def serving() -> Iterator[Bucket]:
    """A server on a thread of its own."""
    made = Bucket()
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
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()

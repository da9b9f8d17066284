"""One event loop, on one thread of our own, for all that is asynchronous below a `Storage`.

An fsspec file system keeps its connections in the loop it was first used in, and zarr's own
loop is zarr's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

CONCURRENCY: Final = 64
"""Requests in flight at once; zarr's own stores were measured at 64 (docs/design, speed)."""
_THREAD: Final = "zarrlift-storage"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = -1


def loop() -> asyncio.AbstractEventLoop:
    """Our event loop, on its own daemon thread; a forked process gets its own."""
    global _loop, _owner  # noqa: PLW0603 - one per process, made at first use
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop = asyncio.new_event_loop()
            _owner = os.getpid()
            threading.Thread(target=_loop.run_forever, name=_THREAD, daemon=True).start()
        return _loop


def close_soon(fs: Any) -> None:
    """Close the connections of a file system, in the loop that they live in."""
    running = _loop
    if running is None or _owner != os.getpid():
        return

    async def close() -> None:
        # Where fsspec's http and gcsfs, and where s3fs keep them.
        for holder in (getattr(fs, "_session", None), getattr(fs, "_s3", None)):
            if holder is not None and hasattr(holder, "close"):
                await holder.close()

    future = asyncio.run_coroutine_threadsafe(close(), running)
    if threading.current_thread().name != _THREAD:
        with contextlib.suppress(Exception):
            future.result(timeout=1)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do the work on the loop and wait for it."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        # Ctrl-C in the waiting thread: nobody wants the result any more.
        future.cancel()
        raise


async def bounded(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order, `CONCURRENCY` at a time; the first error stops the rest."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(work: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await work

    tasks = [asyncio.ensure_future(one(work)) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise

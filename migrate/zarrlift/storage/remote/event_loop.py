"""One event loop, on one thread of our own, for all that is asynchronous below a `Storage`.

An fsspec file system keeps its connections in the loop it was first used in, and zarr's own
loop is zarr's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from .adaptive_concurrency import MOST

T = TypeVar("T")

_THREAD: Final = "zarrlift-storage"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = -1
_tasks: set[asyncio.Task[None]] = set()
"""What was begun and has not ended; the loop itself holds tasks by weak references only."""


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


def begin(works: Sequence[Coroutine[Any, Any, T]]) -> list[Future[T]]:
    """Begin some works on the loop, in one crossing to its thread; cancelling a future stops its work."""
    running = loop()
    futures: list[Future[T]] = [Future() for _ in works]

    def start() -> None:
        for work, future in zip(works, futures, strict=True):
            task = running.create_task(_answer(work, future))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
            future.add_done_callback(partial(_stop, task))

    def _stop(task: asyncio.Task[None], future: Future[T]) -> None:
        if future.cancelled():
            running.call_soon_threadsafe(task.cancel)

    running.call_soon_threadsafe(start)
    return futures


async def _answer(work: Coroutine[Any, Any, T], future: Future[T]) -> None:
    """Hand the result of a work over, unless nobody wants it any more."""
    try:
        result = await work
    except BaseException as error:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)


async def bounded(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order, `MOST` begun at a time; the first error stops the rest.

    How many of their requests are in flight is for the store's `Pace` to say.
    """
    gate = asyncio.Semaphore(MOST)

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


async def collect(items: AsyncIterator[T]) -> list[T]:
    """All that an iterator gives, so that one answer goes from one event loop to another."""
    return [item async for item in items]

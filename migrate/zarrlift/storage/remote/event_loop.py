"""One event loop in its own thread for all asynchronous work below a `Storage`.

An fsspec file system keeps its connections in the loop in which it was first used; zarr's own loop belongs to
zarr.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from ..giving_up import result_of
from .adaptive_concurrency import MAX_REQUESTS

T = TypeVar("T")

_THREAD: Final = "zarrlift-storage"
_LAST_TURN: Final = 0.05
"""Seconds in which threads of obstore, which have told us a result, end what they do before Python's end.

A thread of Rust that needs the interpreter's lock after that aborts the process (SIGABRT; obstore 0.12.1): a
quarter of 80 processes that ended after 64 requests, and none of 160 that waited for 0.02 s.
"""
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = -1
_tasks: set[asyncio.Task[None]] = set()
"""Tasks in progress; the loop itself keeps only weak references to tasks."""


def loop() -> asyncio.AbstractEventLoop:
    """Our event loop in its own daemon thread; a forked process gets another one."""
    global _loop, _owner  # noqa: PLW0603 - one per process, made at first use
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop = asyncio.new_event_loop()
            _owner = os.getpid()
            atexit.register(time.sleep, _LAST_TURN)
            threading.Thread(target=_loop.run_forever, name=_THREAD, daemon=True).start()
        return _loop


def close_soon(fs: Any) -> None:
    """Close the connections of a file system in their loop."""
    running = _loop
    # Attributes with the session of fsspec's http and gcsfs, and of s3fs.
    held: list[Any] = [getattr(fs, name, None) for name in ("_session", "_s3")]
    sessions = [session for session in held if hasattr(session, "close")]
    if not sessions or running is None or _owner != os.getpid():
        return

    async def close() -> None:
        for session in sessions:
            await session.close()

    future = asyncio.run_coroutine_threadsafe(close(), running)
    if threading.current_thread().name != _THREAD:
        with contextlib.suppress(Exception):
            future.result(timeout=1)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in the loop and wait for it."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return result_of(future)
    except BaseException:
        # Ctrl-C in the waiting thread: the result is not needed any more.
        future.cancel()
        raise


def begin(works: Sequence[Coroutine[Any, Any, T]]) -> list[Future[T]]:
    """Start several works in the loop with one crossing to its thread; cancelling a future stops its work."""
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
    """Set the result of a work in its future, unless it was cancelled."""
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
    """Results in order, with up to `MAX_REQUESTS` works started; the first error stops the rest.

    The store's `ConcurrencyLimiter` limits the number of concurrent requests.
    """
    results: dict[int, T] = {}
    waiting = iter(enumerate(works))

    async def take_turns() -> None:
        for number, work in waiting:
            results[number] = await work

    # A task and a turn at a semaphore for each work would take as long as the rest of a small request.
    tasks = [asyncio.ensure_future(take_turns()) for _ in range(min(len(works), MAX_REQUESTS))]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for work in works:
            work.close()
        raise
    return [results[number] for number in range(len(works))]

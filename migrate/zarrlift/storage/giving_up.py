"""Lets threads give up what they do when the run that they work for is interrupted.

Ctrl-C raises KeyboardInterrupt in the main thread only. A worker thread that waits for a store or for a limit
of bandwidth, or that makes a large object chunk by chunk, would hold the process until its work is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

_LOOK: Final = 0.5
"""Seconds after which a wait looks whether Ctrl-C was pressed."""


class Stop:
    """Whether a run, and everything that works for it, is to give up; thread-safe, and set at most once.

    A thread works for it within `heeded`.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_set = False
        self._waits: set[Callable[[], object]] = set()
        """What ends the waits of now."""

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    def set(self) -> None:
        """End the waits of all threads that heed this, and what they do at its next `check`."""
        with self._guard:
            self._is_set = True
            waits = list(self._waits)
        for end in waits:
            end()

    @contextmanager
    def ending(self, end: Callable[[], object]) -> Iterator[None]:
        """Call `end`, in any thread, if this is set before or in the context."""
        with self._guard:
            self._waits.add(end)
        try:
            if self._is_set:
                end()
            yield
        finally:
            with self._guard:
                self._waits.discard(end)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Let this thread heed it in the context; KeyboardInterrupt if what it does is given up."""
        before = _heeded.set(self)
        try:
            yield
        except BaseException:
            if self._is_set:  # a request was cancelled, for example
                raise KeyboardInterrupt from None
            raise
        finally:
            _heeded.reset(before)


_heeded: Final[ContextVar[Stop | None]] = ContextVar("zarrlift-stop", default=None)


def heeded_stop() -> Stop | None:
    """What this thread, or the request of this task of an event loop, heeds; None if nothing ends it."""
    return _heeded.get()


def check() -> None:
    """Raise KeyboardInterrupt if the work of this thread is to be given up."""
    stop = _heeded.get()
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def result_of(future: Future[T]) -> T:
    """The result of a future, unless Ctrl-C comes first.

    A wait that has no end would miss it on Windows, and elsewhere if it came just when the wait began.
    """
    while True:
        try:
            return future.result(timeout=_LOOK)
        except TimeoutError:
            if future.done():  # perhaps an error of the work
                return future.result()


class Threads(ThreadPoolExecutor):
    """A pool of threads that give up if the context of the pool is left by an exception, such as Ctrl-C."""

    def __init__(self, threads: int, thread_name_prefix: str, **options: Any) -> None:
        super().__init__(threads, thread_name_prefix, **options)
        self.stop: Final = Stop()
        self._around = _heeded.get()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `ThreadPoolExecutor.submit`."""
        return super().submit(self._heeding, fn, *args, **kwargs)

    def _heeding(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self.stop.heeded():
            if self._around is None:
                return function(*args, **kwargs)
            with self._around.ending(self.stop.set):
                return function(*args, **kwargs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.stop.set()
        self.shutdown(wait=True, cancel_futures=kind is not None)

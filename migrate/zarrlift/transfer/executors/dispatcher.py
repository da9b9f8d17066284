"""Keeps an engine busy, repeats calls that are lost with a worker, and gives results as they arrive."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from zarrstack.core.errors import ZarrstackError

from ...errors import WorkerError
from .engine import Engine

T = TypeVar("T")

_LOOK_AGAIN: Final = 1.0
"""Seconds after which the number of slots is read again while no call ends."""
_MOST_LOST: Final = 3
"""Workers that may be lost with one call."""


class LostTaskError(WorkerError):
    """A task was lost with its worker each time; other tasks are not affected."""


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    item: T
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    lost: int = 0
    """Times that it was lost with a worker."""


class Ended(Generic[T]):
    """A call that has ended."""

    def __init__(self, item: T, future: Future[Any] | None, error: ZarrstackError | None = None) -> None:
        self.item = item
        self._future = future
        self._error = error

    def result(self) -> Any:
        """What the call returned or raised; LostTaskError if its workers died."""
        if self._error is not None:
            raise self._error
        assert self._future is not None
        return self._future.result()


class Dispatcher(Generic[T]):
    """The calls that one thread has submitted to an engine. Each has an item that identifies it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._running: dict[Future[Any], _Call[T]] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._lost_in_turn = 0

    def __len__(self) -> int:
        return len(self._running)

    def has_room(self) -> bool:
        """Whether another call should be submitted now."""
        return len(self._running) < self.engine.wanted()

    def submit(self, item: T, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit a call; WorkerError or BrokenExecutor if the engine accepts none."""
        self._send(_Call(item, function, arguments))

    def ended(self) -> list[Ended[T]]:
        """The calls that have ended since the last time; waits for one, or until slots may have changed.

        Raises WorkerError or BrokenExecutor if the engine itself is gone.
        """
        done = []
        with suppress(queue.Empty):
            done.append(self._done.get(timeout=_LOOK_AGAIN))
            while True:
                done.append(self._done.get_nowait())
        calls = [(self._running.pop(future), future) for future in done]
        return [ended for call, future in calls if (ended := self._end(call, future)) is not None]

    def stop(self) -> None:
        """Cancel calls that have not started, and wait for those that run in this process."""
        self.engine.stop(self._running)
        if self.engine.in_process:
            wait([future for future in self._running if not future.cancelled()])

    def _send(self, call: _Call[T]) -> None:
        try:
            future = self.engine.submit(call.function, *call.arguments)
        except Exception as error:
            if self.engine.in_process or isinstance(error, BrokenExecutor):
                raise
            raise unreachable(error) from error
        self._running[future] = call
        future.add_done_callback(self._done.put)

    def _end(self, call: _Call[T], future: Future[Any]) -> Ended[T] | None:
        """The end of a call; None if it is repeated."""
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None or isinstance(error, ZarrstackError) or self.engine.in_process:
            self._lost_in_turn = 0
            return Ended(call.item, future)
        if isinstance(error, BrokenExecutor) and not self.engine.loses_single_calls:
            raise error
        if isinstance(error, CancelledError | ImportError):  # the scheduler is gone, or zarrlift is not there
            raise unreachable(error) from error
        call.lost += 1
        if self.engine.gave_up(error):
            return Ended(call.item, None, _lost(error))
        if call.lost == _MOST_LOST:
            self._lost_in_turn += 1
            if self._lost_in_turn == _MOST_LOST and not isinstance(error, BrokenExecutor):
                raise unreachable(error) from error
            return Ended(call.item, None, _lost(error))
        self._send(call)
        return None


def unreachable(error: BaseException) -> WorkerError:
    """Wraps an error raised by an executor itself, such as Dask's client after the scheduler has died."""
    return WorkerError(
        "the workers can no longer be reached",
        found=f"{type(error).__name__}: {error}",
        advice="Restart them, then resume: recorded work is not repeated.",
    )


def _lost(error: BaseException) -> LostTaskError:
    return LostTaskError(
        "a task was lost with its worker each time it was tried",
        found=f"{type(error).__name__}: {error}",
        advice="Its worker may have run out of memory: resume with fewer workers or more memory for each.",
    )

"""Requests in progress while earlier responses are processed.

A worker reads through a *window*: responses needed next are requested in advance, up to a number of bytes.
Its writes are also asynchronous, and are awaited at the end of a task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, TypeVar

from ..base import WRITE_BEHIND
from .adaptive_concurrency import MAX_REQUESTS

if TYPE_CHECKING:
    from ..base import AsyncRequests

T = TypeVar("T")
Item = TypeVar("Item")


_FEW: Final = 4
"""Number of pending requests below which the next one is started individually."""


def read_ahead(
    items: Sequence[Item],
    size: Callable[[Item], int],
    ask: Callable[[Sequence[Item]], Sequence[Future[T]]],
    *,
    most: int,
) -> Generator[Future[T], None, None]:
    """Yield a future for each item, in order, with read-ahead.

    `size` is the maximum size of a response in bytes. Received and pending responses, including the one in
    use, take up to `most` bytes, unless one is larger.
    """
    under_way: deque[tuple[Future[T], int]] = deque()
    held = at = 0
    try:
        while under_way or at < len(items):
            # Start several at a time: crossing to the loop's thread costs as much as a small request.
            half_empty = held <= most // 2 and len(under_way) <= MAX_REQUESTS // 2
            if at < len(items) and (half_empty or len(under_way) < _FEW):
                end = at
                sizes: list[int] = []
                while end < len(items) and len(under_way) + len(sizes) < MAX_REQUESTS:
                    each = size(items[end])
                    if held + each > most and held:
                        break
                    sizes.append(each)
                    held += each
                    end += 1
                under_way.extend(zip(ask(items[at:end]), sizes, strict=True))
                at = end
            future, each = under_way.popleft()
            yield future
            del future
            held -= each
    finally:
        for future, _ in under_way:
            future.cancel()


class WriteBehind:
    """Objects being written to a store by one thread: up to `WRITE_BEHIND` bytes, unless one is larger."""

    def __init__(self, requests: AsyncRequests) -> None:
        self._requests = requests
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self._held = 0

    def send(self, key: str, data: bytes) -> None:
        """Start to write an object; raises the StorageError of an earlier one."""
        while self._under_way and (self._full(len(data)) or self._under_way[0][0].done()):
            self._first()
        self._under_way.append((self._requests.put(key, data), len(data)))
        self._held += len(data)

    def _full(self, more: int) -> bool:
        return self._held + more > WRITE_BEHIND or len(self._under_way) >= MAX_REQUESTS

    def finish(self) -> None:
        """Wait until all are written; raises the first StorageError."""
        while self._under_way:
            self._first()

    def settle(self) -> None:
        """Wait until none is in progress, regardless of the results."""
        wait([future for future, _ in self._under_way])
        self._under_way.clear()

    def _first(self) -> None:
        future, size = self._under_way.popleft()
        self._held -= size
        future.result()

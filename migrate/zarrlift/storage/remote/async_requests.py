"""Requests that are under way while earlier ones are worked on.

A worker reads through a *window*: the answers it will want next are asked for before it wants them, up to
so many bytes. What it writes follows the same way, and is waited for at the end of a task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, TypeVar

from ..limits import WRITE_BEHIND
from .adaptive_concurrency import MOST

if TYPE_CHECKING:
    from ..base import AsyncRequests

T = TypeVar("T")
Item = TypeVar("Item")


_FEW: Final = 4
"""Requests under way below which the next is begun by itself."""


def window(
    items: Sequence[Item],
    size: Callable[[Item], int],
    ask: Callable[[Sequence[Item]], Sequence[Future[T]]],
    *,
    most: int,
) -> Generator[Future[T], None, None]:
    """A future for each item, in order, with those that come next under way.

    `size` is what an answer holds at most, in bytes; the answers that are there or asked for, with the
    one in use, hold `most` bytes, unless one is larger.
    """
    under_way: deque[tuple[Future[T], int]] = deque()
    held = at = 0
    try:
        while under_way or at < len(items):
            # Several at a time: a crossing to the loop's thread costs as much as a small request.
            half_empty = held <= most // 2 and len(under_way) <= MOST // 2
            if at < len(items) and (half_empty or len(under_way) < _FEW):
                end = at
                sizes: list[int] = []
                while end < len(items) and len(under_way) + len(sizes) < MOST:
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


class Sending:
    """Objects on their way into a store, sent by one thread: `WRITE_BEHIND` bytes, unless one is larger."""

    def __init__(self, soon: AsyncRequests) -> None:
        self._soon = soon
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self._held = 0

    def send(self, key: str, data: bytes) -> None:
        """Begin to write an object; StorageError of an earlier one."""
        while self._under_way and (self._full(len(data)) or self._under_way[0][0].done()):
            self._first()
        self._under_way.append((self._soon.put(key, data), len(data)))
        self._held += len(data)

    def _full(self, more: int) -> bool:
        return self._held + more > WRITE_BEHIND or len(self._under_way) >= MOST

    def finish(self) -> None:
        """Wait until all of them are there; the first StorageError of those that are not."""
        while self._under_way:
            self._first()

    def settle(self) -> None:
        """Wait until none is under way any more, whatever became of it."""
        wait([future for future, _ in self._under_way])
        self._under_way.clear()

    def _first(self) -> None:
        future, size = self._under_way.popleft()
        self._held -= size
        future.result()

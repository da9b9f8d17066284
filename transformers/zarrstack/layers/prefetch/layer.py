"""`Prefetch`: reads chunks before they are asked for, where the order of reading shows which come next."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from ...base.array_documents import is_document
from ...base.chunks import KnownArrays
from ...base.intercept import Call, Intercept
from ...base.option_checks import clock_of, number, size
from ...system.clock import Clock
from ...system.fork_safety import reset_after_fork
from .pattern import Pattern, Run

T = TypeVar("T")

_CHANGES: Final = frozenset({"set", "set_if_not_exists", "delete", "delete_dir", "clear"})
_OF_FOLDERS: Final = frozenset({"delete_dir", "clear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchStatistics:
    """Statistics of a `Prefetch`."""

    used: int
    """Chunks that were asked for after they had been requested."""
    unused: int
    """Chunks that were dropped: the reader had turned away, or they were too old or too many."""
    waiting: int
    """Chunks that are requested or in memory."""
    bytes: int
    """Bytes of those in memory."""


@dataclass(slots=True, eq=False)
class _Request:
    """A chunk that was requested ahead."""

    task: asyncio.Task[Buffer | None]
    loop: asyncio.AbstractEventLoop
    prototype: BufferPrototype
    began: float
    run: Run
    pattern: Pattern
    size: int | None = None
    """Length of its value in bytes; None while it is awaited."""

    def cancel(self) -> None:
        """From any thread."""
        if not self.task.done():
            with suppress(RuntimeError):  # its loop is closed
                self.loop.call_soon_threadsafe(self.task.cancel)


class Ahead:
    """Requests for chunks that were not asked for yet; shared by all threads and event loops."""

    def __init__(self, depth: int, most: int, seconds: float, clock: Clock) -> None:
        self._depth, self._most, self._seconds, self._clock = depth, most, seconds, clock
        self._used = self._unused = 0
        self._requests: dict[str, _Request] = {}
        self.after_fork()
        reset_after_fork(self)
        # At exit, before zarr's event loop ends: a loop complains of tasks that it has not finished.
        weakref.finalize(self, _cancel_all, self._requests)

    def after_fork(self) -> None:
        """Forget what the parent requested: its event loops do not run in a forked child."""
        self._lock = threading.RLock()
        self._requests.clear()
        self._bytes = self._largest = 0
        self._arrays = KnownArrays()
        self._looked: set[str] = set()
        self._patterns: dict[str, Pattern] = {}

    def figures(self) -> PrefetchStatistics:
        with self._lock:
            return PrefetchStatistics(
                used=self._used, unused=self._unused, waiting=len(self._requests), bytes=self._bytes
            )

    def take(self, key: str, prototype: BufferPrototype) -> Awaitable[Buffer | None] | None:
        """The value of a chunk that was requested, or is; None if it was not, or too long ago."""
        with self._lock:
            request = self._requests.get(key)
            if request is None:
                return None
            here = request.task.done() or request.loop is asyncio.get_running_loop()
            age = self._clock.now() - request.began
            if not here or request.prototype != prototype or age > self._seconds:
                self._drop(key)
                return None
            self._remove(key)
            self._used += 1
            request.pattern.judge(used=True)
            request.run.ahead = min(2 * request.run.ahead, self._depth)
            return _value_of(request.task)

    def follow(self, key: str, prototype: BufferPrototype, store: Store) -> None:
        """Request what a reader of this key will probably ask for next."""
        with self._lock:
            array = self._arrays.array_of(key)
            if array is None:
                self._find_array(key, store)
                return
            index = array.index(key)
            if index is None:
                return
            pattern = self._patterns.setdefault(array.names.path, Pattern())
            run, ended = pattern.next(index)
            self._drop_old(ended)
            if run is None:
                return
            for step in range(1, min(run.ahead, self._depth) + 1):
                place = index + step * run.stride
                if not 0 <= place < array.total:
                    return
                wanted = array.key(place)
                if wanted not in self._requests:
                    if not self._has_room():
                        return
                    self._request(wanted, prototype, store, run, pattern)

    def seen(self, key: str, value: Buffer | None) -> None:
        """Note a value that was read: documents say which chunks there are."""
        with self._lock:
            self._largest = max(self._largest, 0 if value is None else len(value))
            if is_document(key):
                self._arrays.note(key, None if value is None else value.to_bytes())

    @contextmanager
    def changing(self, key: str, *, below: bool) -> Iterator[None]:
        """Forget a key, or all below a path, before and after it changes."""
        self._changed(key, below=below)
        try:
            yield
        finally:
            self._changed(key, below=below)

    def drop(self, prefix: str) -> None:
        """Cancel the requests for all keys with a prefix."""
        with self._lock:
            for key in [key for key in self._requests if key.startswith(prefix)]:
                self._drop(key)

    def _changed(self, key: str, *, below: bool) -> None:
        folder = f"{key.strip('/')}/" if key.strip("/") else ""
        with self._lock:
            if below:
                self.drop(folder)
                self._arrays.forget(folder)
                self._looked.clear()
            elif key in self._requests:
                self._drop(key)
            elif is_document(key):
                self._arrays.forget(f"{key.rpartition('/')[0]}/")
                self._looked.clear()

    def _find_array(self, key: str, store: Store) -> None:
        """Find the array of a key in the background; its document has not come by if it is consolidated."""
        folder = key.rpartition("/")[0]
        if folder not in self._looked and not is_document(key):
            self._looked.add(folder)
            task = asyncio.get_running_loop().create_task(self._arrays.find_array(store, key))
            task.add_done_callback(_retrieved)
            self._task = task  # a loop holds its tasks weakly

    def _has_room(self) -> bool:
        waiting = sum(request.size is None for request in self._requests.values())
        return waiting < self._depth and self._bytes + (waiting + 1) * self._largest <= self._most

    def _request(
        self, key: str, prototype: BufferPrototype, store: Store, run: Run, pattern: Pattern
    ) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_read(store, key, prototype))
        request = _Request(task, loop, prototype, self._clock.now(), run, pattern)
        self._requests[key] = request
        task.add_done_callback(lambda task: self._arrived(key, request, task))

    def _arrived(self, key: str, request: _Request, task: asyncio.Task[Buffer | None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        value = None if failed else task.result()
        size = 0 if value is None else len(value)
        with self._lock:
            self._largest = max(self._largest, size)
            if self._requests.get(key) is request:
                request.size = size
                self._bytes += size
                if failed or self._bytes > self._most:
                    self._drop(key)

    def _drop_old(self, ended: list[Run]) -> None:
        """Cancel what belongs to runs that have ended, and drop what is too old to be served."""
        oldest = self._clock.now() - self._seconds
        for key, request in list(self._requests.items()):
            if request.run in ended or request.began < oldest:
                self._drop(key)

    def _drop(self, key: str) -> None:
        request = self._remove(key)
        self._unused += 1
        request.pattern.judge(used=False)
        request.cancel()

    def _remove(self, key: str) -> _Request:
        request = self._requests.pop(key)
        self._bytes -= request.size or 0
        return request


async def _read(store: Store, key: str, prototype: BufferPrototype) -> Buffer | None:
    return await store.get(key, prototype)


async def _value_of(task: asyncio.Task[Buffer | None]) -> Buffer | None:
    """The result; a reader that is cancelled cancels the request, which nobody else waits for."""
    return task.result() if task.done() else await task


def _retrieved(task: asyncio.Task[object]) -> None:
    """Take a result, so that no loop reports an error that nobody asked for."""
    if not task.cancelled():
        task.exception()


def _cancel_all(requests: dict[str, _Request]) -> None:
    for request in list(requests.values()):
        request.cancel()


class Prefetch(Intercept):
    """Reads the next chunks while earlier ones are used, for readers that take one after the other.

    Three chunks of an array at equal distances, in C order of its chunk grid, are a run: in sequence,
    backwards or at any stride, several at the same time. Up to `depth` further chunks are requested ahead,
    which take up to `memory_bytes`, a number or a text such as "64MB". Requests of runs that are not
    continued are cancelled. A chunk is served at most `seconds` after it was requested; changes through this
    layer are seen at once. Byte ranges, such as those of inner chunks, pass unchanged.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.Prefetch(depth=16))
    >>> store.describe()
    'Prefetch(depth=16)'
    """

    name = "prefetch"
    transparent = True
    short: ClassVar[str] = "depth"

    def __init__(
        self,
        store: Store | None = None,
        *,
        depth: int = 8,
        memory_bytes: int | str = 64_000_000,
        seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        self.depth: int = number(self, "depth", depth, least=1, whole=True)
        self.memory_bytes: int = size(self, "memory_bytes", memory_bytes)
        self.seconds: float = number(self, "seconds", seconds)
        self._record_options(memory_bytes=self.memory_bytes)
        self._ahead = Ahead(self.depth, self.memory_bytes, self.seconds, clock_of(self, clock))

    def figures(self) -> PrefetchStatistics:
        """What was used and what was not, since the layer was created."""
        return self._ahead.figures()

    def close(self) -> None:
        self._ahead.drop("")
        super().close()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if byte_range is not None:
            return await self._store.get(key, prototype, byte_range)
        coming = self._ahead.take(key, prototype)
        self._ahead.follow(key, prototype, self._store)
        if coming is not None:
            with suppress(Exception):  # an error of a request ahead is none of this one
                return await coming
        value = await self._store.get(key, prototype)
        self._ahead.seen(key, value)
        return value

    async def _run(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        if call.operation in _CHANGES:
            with self._ahead.changing(call.key, below=call.operation in _OF_FOLDERS):
                return await act()
        return await act()

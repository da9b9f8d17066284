"""A storage within a limit of bytes per second, for everything but metadata documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from zarrstack.base.intercept import Call
from zarrstack.layers.throttle import Throttle

from .documents import METADATA
from .passing import End, passing
from .transformer_stack import through

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from zarrstack.system.clock import Clock
    from zarrstack.system.rate_limits import TokenBucket

    from .base import Storage

T = TypeVar("T")


class ChunkThrottle(Throttle):
    """Limits chunks; metadata documents, by their names, do not wait."""

    def __init__(self, store: Store | None = None, *, end: End = "source", **options: Any) -> None:
        super().__init__(store, **options)
        self._record_options(end=end)
        self.end: End = end

    async def _run(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        return await (act() if is_document(call.key) else super()._run(call, act))

    def _pass(self, amount: float) -> None:
        if (count := passing.get()) is not None:
            count(self.end, amount)


def is_document(key: str) -> bool:
    """Whether a key is that of a metadata document, in any format."""
    name = key.rpartition("/")[2]
    return name in METADATA or name.endswith(".json") or key.startswith("meta/")


def limited(storage: Storage, bucket: TokenBucket, clock: Clock, end: End) -> Storage:
    """The storage, which shares the tokens of a bucket with others at its end of a job."""
    result = through(storage, [ChunkThrottle(bytes_per_second=bucket, clock=clock, end=end)])
    # A request that waits for the limit waits for no server; the storage below watches its own.
    result.pace.watches = False
    return result

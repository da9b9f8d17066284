"""A storage within a limit of bytes per second, for everything but metadata documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from zarrstack.base.intercept import Call
from zarrstack.layers.throttle import Throttle

from ..core.format_table import DOCUMENT_NAMES
from .transformer_stack import through

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from zarrstack.system.clock import Clock
    from zarrstack.system.rate_limits import TokenBucket

    from .base import Storage

T = TypeVar("T")


class ChunkThrottle(Throttle):
    """Limits chunks; metadata documents, by their names, do not wait."""

    transparent = awaits_only_below = True

    def __init__(
        self, store: Store | None = None, *, passed: Callable[[float], None] = lambda _: None, **options: Any
    ) -> None:
        super().__init__(store, **options)
        self._record_options(passed=passed)
        self._passed = passed

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        return await (act() if is_document(call.key) else super().around(call, act))

    def _pass(self, amount: float) -> None:
        self._passed(amount)


def is_document(key: str) -> bool:
    """Whether a key is that of a metadata document, in any format."""
    name = key.rpartition("/")[2]
    return name in DOCUMENT_NAMES or name.endswith(".json") or key.startswith("meta/")


def limited(storage: Storage, bucket: TokenBucket, clock: Clock, passed: Callable[[float], None]) -> Storage:
    """The storage, which shares the tokens of a bucket with others; `passed` receives numbers of bytes."""
    result = through(storage, [ChunkThrottle(bytes_per_second=bucket, clock=clock, passed=passed)])
    # A request that waits for the limit waits for no server; the storage below watches its own.
    result.pace.watches = False
    return result

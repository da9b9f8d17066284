"""`Throttle`: limits bytes per second, requests per second and concurrency."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store

from ..base.intercept import Call, Intercept
from ..base.option_checks import clock_of, invalid_option, number
from ..core.sizes import parse_rate
from ..system.clock import Clock
from ..system.fork_safety import reset_after_fork
from ..system.rate_limits import Places, TokenBucket

T = TypeVar("T")


class Throttle(Intercept):
    """Delays operations to limit the load on the store below.

    `bytes_per_second` counts values read and written: a number, a text such as "50MB/s", or a
    `zarrstack.system.rate_limits.TokenBucket` that several layers share and whose rate may change.
    `requests_per_second` counts operations, a listing as one; `in_flight` limits concurrent operations.
    Capacity unused during the last `burst` seconds may be used at once. The limits cover all threads and
    event loops that use the layer, and its read-only copies; a pickled copy has separate limits.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.Throttle(bytes_per_second="50MB/s", in_flight=8))
    >>> store.describe()
    'Throttle(bytes_per_second=50000000, in_flight=8)'
    """

    name = "throttle"
    transparent = awaits_only_below = True

    def __init__(
        self,
        store: Store | None = None,
        *,
        bytes_per_second: float | str | TokenBucket | None = None,
        requests_per_second: float | str | None = None,
        in_flight: int | None = None,
        burst: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        shared = bytes_per_second if isinstance(bytes_per_second, TokenBucket) else None
        self.bytes_per_second = shared.rate() if shared else self._rate("bytes_per_second", bytes_per_second)
        self.requests_per_second = self._rate("requests_per_second", requests_per_second)
        if in_flight is not None:
            number(self, "in_flight", in_flight, least=1, whole=True)
        number(self, "burst", burst)
        self._record_options(
            bytes_per_second=shared or self.bytes_per_second, requests_per_second=self.requests_per_second
        )
        self._clock = clock_of(self, clock)
        self._bytes = shared or self._bucket(self.bytes_per_second, burst)
        self._requests = self._bucket(self.requests_per_second, burst)
        self._gate = None if in_flight is None else Places(in_flight)
        if self._gate is not None:
            reset_after_fork(self._gate)

    def _rate(self, option: str, value: Any) -> float | None:
        rate = parse_rate(value) if isinstance(value, str) else value
        if rate is None and value is not None:
            raise invalid_option(self, option, value, 'a number, or a text such as "50MB/s" or "10"')
        if rate is not None and number(self, option, rate) == 0:
            raise invalid_option(self, option, value, "more than 0")
        return rate

    def _bucket(self, rate: float | None, burst: float) -> TokenBucket | None:
        return None if rate is None else TokenBucket(rate, burst, self._clock)

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        await self._enter()
        try:
            await self._pay(self._requests, 1)
            await self._pay(self._bytes, call.sent)
            result = await act()
            # The length of a read is known only now: its reader waits, and so do those behind it.
            await self._pay(self._bytes, len(result) if isinstance(result, Buffer) else None)
        finally:
            self._leave()
        return result

    async def around_listing(
        self, call: Call, begin: Callable[[], AsyncIterator[str]]
    ) -> AsyncGenerator[str, None]:
        await self._pay(self._requests, 1)
        names = begin()
        while True:
            # Held for each step only: the consumer may use this layer between steps.
            await self._enter()
            try:
                name = await anext(names)
            except StopAsyncIteration:
                return
            finally:
                self._leave()
            yield name

    async def _enter(self) -> None:
        if self._gate is not None:
            if self._blocks:
                self._gate.enter_sync()
            else:
                await self._gate.enter()

    def _leave(self) -> None:
        if self._gate is not None:
            self._gate.leave()

    async def _pay(self, bucket: TokenBucket | None, amount: int | None) -> None:
        if bucket is None or not amount:
            return
        wait, left = bucket.take(amount), float(amount)
        try:
            for step in bucket.steps(wait):
                await self.pause(self._clock, step)
                part = min(amount * step / wait, left)
                left -= part
                self._pass(part)
        except BaseException:
            bucket.give_back(amount)
            raise
        self._pass(left)

    def _pass(self, amount: float) -> None:
        """Called with each part of an amount that the limit lets pass."""

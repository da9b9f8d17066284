"""A limit of the bytes per second at each end of a job (`--bwlimit`), for all that works on it together.

Stored bytes are counted at both ends. Workers in other processes get an equal share with each task.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from zarrstack.core.errors import UsageError
from zarrstack.core.sizes import parse_rate

from .base import Storage

if TYPE_CHECKING:
    from zarrstack.system.clock import Clock
    from zarrstack.system.rate_limits import TokenBucket

End = Literal["source", "destination"]
"""An end of a job, each of which has a limit."""
passing: Final[ContextVar[Callable[[End, float], None] | None]] = ContextVar("passing", default=None)
"""Receives the bytes that pass for what runs in this context."""
_BURST: Final = 1.0
_UNIT_NEEDED: Final = 100_000
"""Bytes per second below which a bare number is more likely one of megabytes (`--bwlimit 10`)."""


def _count(end: End, amount: float) -> None:
    if (count := passing.get()) is not None:
        count(end, amount)


def parse_limit(text: str | float) -> float:
    """Bytes per second of "50MB/s" or a number, infinity for "off"; UsageError.

    A number below 100,000 is refused without a unit.
    """
    if text == "off":
        return math.inf
    rate = parse_rate(text) if isinstance(text, str) else text
    if rate is None or not rate > 0:
        raise UsageError("not a rate", found=repr(text), expected="such as 50MB/s, or off for no limit")
    has_unit = isinstance(text, str) and any(character.isalpha() for character in text.removesuffix("/s"))
    if rate < _UNIT_NEEDED and not has_unit:
        meant = f"{rate:g}M" if rate < 1000 else f"{rate / 1000:g}k"
        raise UsageError(
            "a limit below 100 kB/s needs a unit",
            found=f"{text}, which is {rate:g} bytes per second",
            advice=f"Was {meant} per second meant? Use {rate:g}B for bytes per second.",
        )
    return rate


class Bandwidth:
    """The limit of a run, or of a batch, in this process."""

    def __init__(self, rate: float, clock: Clock | None = None) -> None:
        if clock is None:
            from zarrstack.system.clock import Clock  # not loaded where nothing is limited

            clock = Clock()
        self._clock = clock
        self._rate = rate
        self._buckets: dict[End, TokenBucket] = {}

    @classmethod
    def of(cls, limit: Any) -> Self | None:
        """The limit that an option asks for; None for none. UsageError."""
        return limit if limit is None or isinstance(limit, cls) else cls(parse_limit(limit))

    def rate(self) -> float:
        """Bytes per second of this process and its workers, now."""
        return self._rate

    def share(self, slots: int) -> float:
        """Bytes per second of one of the calls that workers elsewhere run at once; UsageError if unknown."""
        if slots < 1:
            raise UsageError(
                "a limit is shared by workers, whose number this executor does not tell",
                advice="Give --workers.",
            )
        return self.rate() / slots

    def over(self, storage: Storage, end: End) -> Storage:
        """A storage within the limit, which all storages at this end share.

        Metadata documents are exempt: they are few bytes, and a plan or a claim must not wait for chunks.
        """
        from zarrstack.system.rate_limits import TokenBucket

        from .limited_storage import limited

        bucket = self._buckets.setdefault(end, TokenBucket(self.rate, _BURST, self._clock))
        return limited(storage, bucket, self._clock, partial(_count, end))


class TaskShares(Bandwidth):
    """The limit of a worker process: the shares of the calls that it runs now."""

    def __init__(self) -> None:
        super().__init__(math.inf)
        self._shares: dict[int, float] = {}

    def rate(self) -> float:
        """Their sum; between calls, the last share."""
        return sum(list(self._shares.values())) or self._rate

    @contextmanager
    def during(self, share: float) -> Iterator[None]:
        """Count a call of this thread."""
        self._rate = share
        self._shares[threading.get_ident()] = share
        try:
            yield
        finally:
            del self._shares[threading.get_ident()]


_runs: Final[dict[str, TaskShares]] = {}
_guard: Final = threading.Lock()


def shares_of(run: str) -> TaskShares:
    """What limits the calls of a run in this worker process."""
    with _guard:
        while len(_runs) > 4 and run not in _runs:  # as many runs as `transfer.worker` keeps
            _runs.pop(next(iter(_runs)))
        return _runs.setdefault(run, TaskShares())

"""A limit of the bytes per second at each end of a job (`--bwlimit`), for all that works on it together.

The layer `Throttle` over both ends counts stored bytes. The limit of a job is in a small file beside the job
file, so that `zarrlift limit` changes it while the job runs. Workers in other processes get an equal share of
it with each task.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from zarrstack.core.errors import UsageError
from zarrstack.core.sizes import parse_rate

from ..errors import JobError
from .base import Storage

if TYPE_CHECKING:
    from zarrstack.system.clock import Clock
    from zarrstack.system.rate_limits import TokenBucket

End = Literal["source", "destination"]
_SUFFIX: Final = ".limit"
_REREAD_SECONDS: Final = 1.0
_BURST: Final = 1.0
_UNIT_NEEDED: Final = 100_000
"""Bytes per second below which a bare number is more likely one of megabytes (`--bwlimit 10`)."""


def limit_path(job: Path) -> Path:
    """The file with the limit of the job in a file."""
    return job.with_name(job.name + _SUFFIX)


def parse_limit(text: str | float) -> float:
    """Bytes per second of "50MB/s" or a number, infinity for "off"; UsageError.

    A number below 100,000 is refused without a unit.
    """
    rate = _rate(text)
    has_unit = isinstance(text, str) and any(character.isalpha() for character in text.removesuffix("/s"))
    if rate < _UNIT_NEEDED and not has_unit:
        meant = f"{rate:g}M" if rate < 1000 else f"{rate / 1000:g}k"
        raise UsageError(
            "a limit below 100 kB/s needs a unit",
            found=f"{text}, which is {rate:g} bytes per second",
            advice=f"Was {meant} per second meant? Use {rate:g}B for bytes per second.",
        )
    return rate


def _rate(text: str | float) -> float:
    if text == "off":
        return math.inf
    rate = parse_rate(text) if isinstance(text, str) else text
    if rate is None or not rate > 0:
        raise UsageError("not a rate", found=repr(text), expected="such as 50MB/s, or off for no limit")
    return rate


def write_limit(path: Path, rate: float) -> None:
    """Replace the file of a limit; JobError."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_text("off" if rate == math.inf else f"{rate:.0f}" if rate >= 1 else repr(rate))
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise JobError("cannot write the limit of a job", key=str(path), found=error.strerror) from error


class Bandwidth:
    """The limit of a run, or of a batch, in this process."""

    def __init__(self, rate: float | None, clock: Clock | None = None) -> None:
        """`rate` None is that of the file of a job."""
        if clock is None:
            from zarrstack.system.clock import Clock  # not loaded where nothing is limited

            clock = Clock()
        self._clock = clock
        self._given = rate
        self._rate = math.inf if rate is None else rate
        self._file: Path | None = None
        self._read = -math.inf
        self._buckets: dict[End, TokenBucket] = {}

    @classmethod
    def of(cls, limit: Any) -> Self | None:
        """The limit that an option asks for; None for none. UsageError."""
        return limit if limit is None or isinstance(limit, cls) else cls(parse_limit(limit))

    @classmethod
    def of_job(cls, job: Path) -> Self | None:
        """The limit that is left of an earlier run of a job; None if there is none."""
        return cls(None) if limit_path(job).exists() else None

    def follow(self, job: Path) -> None:
        """Use the limit in the file of a job, to which one that was given is written; JobError."""
        self._file = limit_path(job)
        if self._given is not None:
            write_limit(self._file, self._given)

    def forget(self) -> None:
        """Remove the file of a job that is done."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()
            self._file = None

    def rate(self) -> float:
        """Bytes per second of this process and its workers, now."""
        if self._file is not None and self._clock.now() - self._read >= _REREAD_SECONDS:
            self._read = self._clock.now()
            with suppress(OSError, UsageError, UnicodeDecodeError):
                self._rate = _rate(self._file.read_text().strip())
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
        return limited(storage, bucket, self._clock)


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

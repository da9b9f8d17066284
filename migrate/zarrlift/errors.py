"""The errors that zarrlift raises, those of zarrstack among them; importing them loads nothing heavy.

`KINDS` has every kind (`zarrstack.core.errors` has the others, and what each carries):

    job             JobError            the job does not match its files: see the advice
    source-changed  SourceChangedError  see the advice
    verification    VerificationError   source and destination differ: do not trust the destination
    worker          WorkerError         the task is repeated by another worker

`zarrlift.Error` is the base of all but `Interrupted`, which is a `KeyboardInterrupt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from zarrstack.core.errors import (
    CastError,
    ChunkError,
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    UsageError,
    ZarrstackError,
)

__all__ = [
    "CastError",
    "ChunkError",
    "Error",
    "Interrupted",
    "JobError",
    "MetadataError",
    "Problem",
    "SourceChangedError",
    "StorageError",
    "UnsupportedError",
    "UsageError",
    "VerificationError",
    "WorkerError",
    "ZarrstackError",
]

Error: TypeAlias = ZarrstackError
"""The base of all errors that zarrlift and zarrstack raise deliberately."""


class SourceChangedError(StorageError):
    """An object of the source has changed since it was listed."""

    kind = "source-changed"


class JobError(ZarrstackError, RuntimeError):
    """The job cannot continue: its destination, source or ledger is not as expected."""

    kind = "job"


class WorkerError(ZarrstackError, RuntimeError):
    """A worker cannot run tasks: it is gone, or has another version."""

    kind = "worker"


class VerificationError(ZarrstackError, ValueError):
    """Source and destination differ."""

    kind = "verification"


KINDS: Final[Mapping[str, type[ZarrstackError]]] = MappingProxyType({
    each.kind: each
    for each in (
        ZarrstackError, CastError, ChunkError, JobError, MetadataError, SourceChangedError, StorageError,
        UnsupportedError, UsageError, VerificationError, WorkerError,
    )
})  # fmt: skip
"""All kinds and their errors; "error" is the base class's own kind and never raised."""


class Interrupted(KeyboardInterrupt):
    """Raised after Ctrl-C or a termination signal; `job` can be resumed.

    Examples
    --------
    >>> try:
    ...     outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    ... except zarrlift.Interrupted as stopped:
    ...     print("Continue with:", f"zarrlift resume {stopped.job}")
    """

    def __init__(self, job: str, options: tuple[str, ...] = ()) -> None:
        """`options`: command line arguments, as in `Outcome.options`."""
        super().__init__(job)
        self.job = job
        self.options = options

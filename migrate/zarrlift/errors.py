"""The errors that zarrlift raises, those of zarrstack among them; importing them loads nothing heavy.

`zarrlift.Error` is the base of all but `Interrupted`, which is a `KeyboardInterrupt`.
"""

from __future__ import annotations

from typing import TypeAlias

from zarrstack.core.errors import (
    CastError,
    ChunkError,
    JobError,
    MetadataError,
    Problem,
    SourceChangedError,
    StorageError,
    UnsupportedError,
    UsageError,
    VerificationError,
    WorkerError,
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

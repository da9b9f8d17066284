"""Checks the names of source formats."""

from __future__ import annotations

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ..errors import JobError
from .options import FORMATS, Format


def require_known(name: Format | None) -> None:
    """Raise UsageError unless this is the name of a format; None is any format."""
    if name is not None and name not in FORMATS:
        raise UsageError(
            f"unknown format {name!r}", expected=", ".join(FORMATS), advice=did_you_mean(name, FORMATS)
        )


def require_readable(name: Format) -> None:
    """Raise JobError unless the format of a job's source is one that this zarrlift reads."""
    if name not in FORMATS:
        raise JobError(
            f"the source of this job has the format {name!r}, which this zarrlift does not read",
            expected=", ".join(FORMATS),
            advice="Use the version of zarrlift that has begun the job.",
        )

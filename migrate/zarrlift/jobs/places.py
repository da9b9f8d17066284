"""Where a job may not write: into its source, and over what is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from zarrstack.core.errors import UsageError

from ..storage.base import Storage
from ..storage.local.storage import LocalStorage

_APART: Final = "two separate locations"


def refuse_nested(source: Storage, destination: Storage) -> None:
    """Raise UsageError if one of the places is the other one, or in it."""
    if not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        if source.url == destination.url:
            raise UsageError("source and destination are the same place", found=source.url)
        return
    first, second = (Path(os.path.realpath(storage.root)) for storage in (source, destination))
    if first == second:
        raise UsageError(
            "source and destination are the same place",
            found=str(first),
            advice="Use --in-place to migrate in place.",
        )
    if first in second.parents:
        raise UsageError(
            "the destination is inside the source", found=f"{second} in {first}", expected=_APART
        )
    if second in first.parents:
        raise UsageError(
            "the source is inside the destination", found=f"{first} in {second}", expected=_APART
        )


def refuse_existing(destination: Storage, *, overwrite: bool = False) -> None:
    """Raise UsageError unless the destination is absent, an empty directory, or may be set aside."""
    local = isinstance(destination, LocalStorage)
    if (overwrite and local) or next(iter(destination.list_dir("")), None) is None:
        return
    if overwrite:
        raise UsageError(
            f"an object store cannot be overwritten: {destination.url}",
            advice="Delete what is there, or choose another place.",
        )
    raise UsageError(
        f"the destination exists: {destination.url}",
        advice=f"Choose another place{', or use --overwrite' if local else ', or delete what is there'}.",
    )

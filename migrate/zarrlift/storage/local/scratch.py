"""Names of the directories, in the root of a local place, in which a job keeps what is not to be seen yet.

A killed run leaves them behind; the job's next run removes them. They are no nodes of an archive.
"""

from __future__ import annotations

import re
from typing import Final

_START: Final = ".zarrlift-"
PASSES: Final = f"{_START}passes"
"""Intermediate arrays."""
LAYERED: Final = f"{_START}layered"
"""Objects on their way through storage transformers."""
MODEL: Final = "model"
"""In the place of a job's id: what `model create` writes, one at a time."""
_OWN: Final = re.compile(rf"\.zarrlift-(passes|layered|{MODEL}|[0-9a-f]{{8}})")


def directory_of(job_id: str) -> str:
    """Where a job's objects are written before they are renamed into place."""
    return f"{_START}{job_id}"


def is_own(name: str) -> bool:
    """Whether a directory of that name is one of these."""
    return _OWN.fullmatch(name) is not None

"""Names of a job's directories, in the root of a local storage, for objects that are not visible yet.

A killed run leaves them behind; the job's next run removes them. They are not nodes of an archive.
"""

from __future__ import annotations

import re
from typing import Final

_START: Final = ".zarrlift-"
PASSES: Final = f"{_START}passes"
"""Directory of intermediate arrays."""
LAYERED: Final = f"{_START}layered"
"""Directory of objects being written through storage transformers."""
MODEL: Final = "model"
"""Used in place of a job's id by `model create`, which runs once at a time."""
_OWN: Final = re.compile(rf"\.zarrlift-(passes|layered|{MODEL}|[0-9a-f]{{8}})")


def directory_of(job_id: str) -> str:
    """The directory in which objects of a job are written before they are renamed."""
    return f"{_START}{job_id}"


def is_own(name: str) -> bool:
    """Whether a name is that of one of these directories."""
    return _OWN.fullmatch(name) is not None

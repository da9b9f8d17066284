"""Where the file of a job was when it recorded its places."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stored_file import JobPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The recorded path of a file."""

    path: str
    """With links resolved; for a file in a store its URL."""
    mount: str
    """The mount point that contains it; "" for a URL."""

    @classmethod
    def of(cls, path: JobPath) -> Home:
        """The present path of a file."""
        if not isinstance(path, Path):
            return cls(path=str(path), mount="")
        real = os.path.realpath(path)
        mount = os.path.dirname(real)
        while not os.path.ismount(mount) and mount != os.path.dirname(mount):
            mount = os.path.dirname(mount)
        return cls(path=real, mount=mount)

    @classmethod
    def from_text(cls, text: str) -> Home:
        """Inverse of `to_text`."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """JSON, as stored in the file."""
        return json.dumps(asdict(self))

    def is_at(self, path: str) -> bool:
        """Whether a path leads to the recorded directory entry, also by links and other mounts.

        A hard link is another entry: `cp -al` makes copies of them.
        """
        if self.path == path:
            return True
        try:
            if not os.path.samefile(self.path, path):
                return False
            folders = (os.path.dirname(self.path), os.path.dirname(path))
            same_name = os.path.basename(self.path) == os.path.basename(path)
            return (same_name and os.path.samefile(*folders)) or os.stat(path).st_nlink == 1
        except OSError:
            return False

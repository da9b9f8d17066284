"""Placeholders of Git LFS and git-annex for files that were not fetched.

Git LFS: a text of less than 1024 bytes whose first line names the version
(https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md, "The Pointer"; called hawser before 1.0).
git-annex: for unlocked files, a text that starts with `/annex/objects/`
(https://git-annex.branchable.com/internals/pointer_file/); on systems without symbolic links, the target of
the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOOKED_AT: Final = 256
"""Bytes from the start of an object that identify a pointer."""
_SHOWN: Final = 60
_LFS: Final = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_ANNEX: Final = (b"annex/objects/", b"git/annex/objects/")
"""After any dots and slashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A pointer to a file stored elsewhere."""

    what: str
    """Its kind, such as "a Git LFS pointer"."""
    found: str
    """The start of its text."""
    advice: str


def pointer(data: bytes) -> Pointer | None:
    """The pointer in `data`, an object or its start; None if there is none."""
    start = data[:LOOKED_AT]
    if start.startswith(_LFS):
        what, command = "a Git LFS pointer", "git lfs pull"
    elif start.lstrip(b"./").startswith(_ANNEX):
        what, command = "a git-annex pointer", "git annex get"
    else:
        return None
    line = start.partition(b"\n")[0].decode("ascii", "replace").rstrip()
    found = line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
    return Pointer(what=what, found=found, advice=f"Fetch the files with `{command}`, then try again.")

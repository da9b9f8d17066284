"""What a user sees who may not do everything: root, as whom CI runs, is refused nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


def _anybody_may_enter(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


@contextmanager
def folder_anybody_may_enter() -> Iterator[Path]:
    """An empty directory, removed at the end. tmp_path, and TMPDIR in CI, have mode 700."""
    places = [Path(place).resolve() for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")]
    place = next(place for place in places if place.is_dir() and _anybody_may_enter(place))
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root becomes nobody; others stay who they are. What is imported meanwhile may not be readable."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)

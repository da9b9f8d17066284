"""Checks of the cache's options."""

from __future__ import annotations

import os
from typing import Any

from zarr.storage import LocalStore

from ...core.errors import UsageError


def is_duration(value: Any) -> bool:
    """Whether this is a positive number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def folder_of(disk: Any) -> str | None:
    """The folder of the disk tier as an absolute path, None for no disk tier; UsageError otherwise.

    A LocalStore stands for its folder. `check_folder` checks the folder itself.
    """
    if disk is None:
        return None
    if type(disk) is LocalStore:
        return os.path.abspath(disk.root)
    if isinstance(disk, str | os.PathLike) and "://" not in (path := os.fspath(disk)):
        return os.path.abspath(path)
    raise UsageError(
        "layer 'cache': the disk tier can only be a local folder, given as `disk`",
        found=repr(disk),
        expected="the path of a folder, such as disk='/var/tmp/chunks'",
        advice="Use a folder, or omit `disk` to cache in memory only.",
    )

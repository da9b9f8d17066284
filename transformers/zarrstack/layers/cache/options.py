"""Validation of the cache's options."""

from __future__ import annotations

import os
from typing import Any

from zarr.storage import LocalStore

from ...core.errors import UsageError


def check_bytes(option: str, value: Any, least: int) -> None:
    """Raise UsageError unless the value is an integer of at least `least` bytes."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(
            f"layer 'cache': `{option}` is not a number of bytes",
            found=repr(value),
            expected=f"an integer of at least {least}",
        )


def check_ttl(value: Any) -> None:
    """Raise UsageError unless the value is None or a positive number of seconds."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise UsageError(
            "layer 'cache': `ttl` is not a time", found=repr(value), expected="seconds above 0, or None"
        )


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

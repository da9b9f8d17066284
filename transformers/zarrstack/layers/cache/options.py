"""Validation of the cache's options."""

from __future__ import annotations

import os
from typing import Any

from zarr.abc.store import Store
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


def parse_disk(disk: Any) -> tuple[str | None, Store | None]:
    """Return (folder, None), (None, store), or (None, None) for no disk tier; UsageError otherwise.

    A LocalStore is replaced by its folder. `check_folder` checks the folder itself.
    """
    if disk is None:
        return None, None
    if type(disk) is LocalStore:
        return os.path.abspath(disk.root), None
    if isinstance(disk, Store):
        if disk.read_only or not (disk.supports_deletes and disk.supports_listing):
            raise UsageError(
                "layer 'cache': the store for the disk tier cannot be written, listed and deleted from",
                found=repr(disk),
            )
        return None, disk
    if isinstance(disk, str | os.PathLike):
        return os.path.abspath(os.fspath(disk)), None
    raise UsageError(
        "layer 'cache': `disk` is no place",
        found=repr(disk),
        expected="the path of a folder, or a zarr store",
    )

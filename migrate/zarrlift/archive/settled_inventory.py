"""Lists a source in such a way that every later change of it is noticed."""

from __future__ import annotations

import time
from typing import Any, Final

from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .chunk_inventory import Inventory, take_inventory
from .nodes import Layout

_WHOLE: Final = 1_000_000_000
_GRANULE: Final = 2 * _WHOLE
"""Nanoseconds in which files get the same time where times are whole seconds: 2 s on FAT, 1 s on exFAT."""
_BEHIND: Final = 20_000_000
"""Nanoseconds by which the times of files may be behind the clock."""
_ATTEMPTS: Final = 3
"""Maximum number of listings of a source that is being written."""


def take_settled_inventory(storage: Storage, path: str, layout: Layout, **options: Any) -> Inventory:
    """The same as `take_inventory`, of files that get another time when they are rewritten.

    A file with a time in whole seconds that was just written may be rewritten at the same time, with the same
    size, which would go unnoticed. The listing is then repeated up to two seconds later.
    """
    inventory = take_inventory(storage, path, layout, **options)
    if isinstance(storage, LocalStorage):
        for _ in range(_ATTEMPTS - 1):
            if not (seconds := _unsettled(inventory)):
                break
            time.sleep(seconds)
            inventory = take_inventory(storage, path, layout, **options)
    return inventory


def _unsettled(inventory: Inventory) -> float:
    """Seconds in which a listed file may still be rewritten without another time; mostly 0."""
    versions = inventory.versions
    if versions is None or not len(versions) or (newest := int(versions.max())) % _WHOLE:
        return 0.0
    age = time.time_ns() - newest
    return (_GRANULE + _BEHIND - age) / _WHOLE if abs(age) < _GRANULE + _BEHIND else 0.0

"""Discovery of entry points registered by installed packages.

Facts: https://packaging.python.org/en/latest/specifications/entry-points/ (the file `entry_points.txt` beside
an installed package's metadata, a section per group) and Python's `importlib.metadata`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FILE: Final = "entry_points.txt"
_METADATA: Final = (".dist-info", ".egg-info")
"""Suffixes of the metadata directories of installed packages, next to the packages themselves."""


def registered(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted by name; none is loaded.

    An editable and an ordinary install of one package list the same entry twice; it is returned once.
    """
    if not _mentioned(group):
        return ()
    from importlib.metadata import entry_points

    points = {(point.name, point.value): point for point in entry_points(group=group)}
    return tuple(point for _, point in sorted(points.items()))


def origin(point: EntryPoint) -> str:
    """The package that registers an entry point, with its version; its module if that is unknown."""
    return point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _mentioned(group: str) -> bool:
    """Whether an installed package may have registered something in a group; False is certain.

    Searching for the group's name takes a millisecond with a hundred packages; `importlib.metadata`, which
    parses all their entry points, takes twenty, mostly for its import (Python 3.11).
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if not _plain(finder)):
        return True
    wanted = group.encode()
    for place in dict.fromkeys(sys.path):
        try:
            names = os.listdir(place or ".")
        except NotADirectoryError:
            return True  # packages in a zip file
        except OSError:
            continue
        if place.lower().rstrip(os.sep).endswith(".egg"):
            return True  # an egg contains its metadata
        for name in names:
            if name.lower().endswith(_METADATA):
                try:
                    with open(os.path.join(place, name, _FILE), "rb") as file:
                        if wanted in file.read():
                            return True
                except OSError:  # most packages have no entry points
                    continue
    return False


def _plain(finder: object) -> bool:
    """Whether a finder searches `sys.path`, as Python's default finder does."""
    return getattr(finder, "__module__", None) == "_frozen_importlib_external"

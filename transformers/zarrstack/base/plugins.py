"""Discovery of entry points registered by installed packages.

Facts: https://packaging.python.org/en/latest/specifications/entry-points/ and Python's `importlib.metadata`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def registered(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted by name; none is loaded.

    An editable and an ordinary install of one package list the same entry twice; it is returned once.
    """
    from importlib.metadata import entry_points

    points = {(point.name, point.value): point for point in entry_points(group=group)}
    return tuple(point for _, point in sorted(points.items()))


def origin(point: EntryPoint) -> str:
    """The package that registers an entry point, with its version; its module if that is unknown."""
    return point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"

"""Names -> conventions: those of zarrlift, and those that other packages registered."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Final

from zarrstack.core.errors import UsageError

from ..recipe_conventions import AUTO, outside
from .base import Convention

_ORDER: Final = {
    "hdmf": ".hdmf:Hdmf",
    "n5": ".n5:N5",
    "xarray": ".xarray:Xarray",
    "ome": ".ome:Ome",
    "spatialdata": ".spatialdata:SpatialData",
}
"""Our own, in the order they are asked: first who shares a file with no other, then names of dimensions."""


def chosen(names: tuple[str, ...]) -> tuple[type[Convention], ...]:
    """The conventions that a recipe's names mean, in the order they are asked.

    Ours come first, then the others by name. UsageError for one that cannot be loaded.
    """
    everything = AUTO in names
    found = [_ours(name) for name in _ORDER if everything or name in names]
    others = dict.fromkeys(point.name for point in outside() if point.name not in _ORDER)
    found += [find(name) for name in others if everything or name in names]
    return tuple(
        convention for convention in found if convention.name in names or (everything and convention.auto)
    )


@functools.cache
def _ours(name: str) -> type[Convention]:
    module, _, attribute = _ORDER[name].partition(":")
    convention: type[Convention] = getattr(import_module(module, __package__), attribute)
    return convention


@functools.cache
def find(name: str) -> type[Convention]:
    """The convention of another package; UsageError where what is registered cannot be used."""
    points = [point for point in outside() if point.name == name]
    if len(points) > 1:
        raise UsageError(
            f"more than one convention is called {name!r}",
            found=" and ".join(point.value for point in points),
            advice="Uninstall one of the packages.",
        )
    try:
        convention = points[0].load()
    except Exception as error:  # any module may stand behind an entry point
        raise UsageError(
            f"the convention {name!r} cannot be loaded from {points[0].value}",
            found=f"{type(error).__name__}: {error}",
            advice="Mend or uninstall that package, or name the conventions that are wanted.",
        ) from error
    if not (isinstance(convention, type) and issubclass(convention, Convention)):
        raise UsageError(
            f"what is registered as {name!r} is no convention",
            found=points[0].value,
            expected="a subclass of zarrlift.conventions.Convention",
        )
    if getattr(convention, "name", None) != name:
        raise UsageError(
            f"the convention registered as {name!r} has another name",
            found=repr(getattr(convention, "name", None)),
            expected=repr(name),
        )
    return convention

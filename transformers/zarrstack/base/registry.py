"""Registered layers by name.

A package registers a layer as an entry point of the group `zarrstack.transformers`, under the layer's `name`
(source: https://packaging.python.org/en/latest/specifications/entry-points/). Layers are imported only when
they are requested by name.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from ..core.errors import UsageError
from ..core.similar_names import did_you_mean
from . import plugins
from .description import PREFIX

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .transformer import StorageTransformer

GROUP: Final = "zarrstack.transformers"


@functools.cache
def find(name: str) -> type[StorageTransformer]:
    """Return the layer class of this name; UsageError if it is unknown or cannot be loaded."""
    points = _named(name)
    if not points:
        raise UsageError(
            f"unknown storage transformer {name!r}",
            expected=", ".join(names()) or "a registered name",
            advice=did_you_mean(name, names())
            or "Install the package that provides it, or correct the name.",
        )
    if len(points) > 1:
        raise UsageError(
            f"more than one storage transformer is called {name!r}",
            found=" and ".join(map(plugins.origin, points)),
            advice="Uninstall one of the packages.",
        )
    return _loaded(points[0])


def _loaded(point: EntryPoint) -> type[StorageTransformer]:
    """The class that a package registers; UsageError if it is not a layer of this name."""
    from .transformer import StorageTransformer

    place = plugins.origin(point)
    try:
        candidate = point.load()
    except Exception as error:  # importing a plug-in may raise anything
        raise UsageError(
            f"the storage transformer {point.name!r} cannot be loaded from {place}",
            found=f"{type(error).__name__}: {error}",
            advice="Fix or uninstall that package.",
        ) from error
    if not (isinstance(candidate, type) and issubclass(candidate, StorageTransformer)):
        raise UsageError(
            f"the object registered as {point.name!r} is not a storage transformer",
            found=f"{point.value} of {place}",
            expected="a subclass of zarrstack.StorageTransformer",
        )
    if getattr(candidate, "name", None) != point.name:
        raise UsageError(
            f"the storage transformer that {place} registers as {point.name!r} has another name",
            found=repr(getattr(candidate, "name", None)),
            expected=repr(point.name),
        )
    return candidate


def names() -> list[str]:
    """The names of all registered layers; none is loaded."""
    return sorted({point.name for point in plugins.registered(GROUP)})


def _named(name: str) -> tuple[EntryPoint, ...]:
    """The layers of this name; zarrstack's own ones may have the name of the package before theirs."""
    return tuple(
        point
        for point in plugins.registered(GROUP)
        if point.name == name or (point.value.startswith(PREFIX) and PREFIX + point.name == name)
    )

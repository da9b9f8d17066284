"""Registered layers by name.

`register` makes a layer known in this process. A package registers one as an entry point of the group
`zarrstack.transformers`, under the layer's `name` (source:
https://packaging.python.org/en/latest/specifications/entry-points/). Layers are imported only when they are
requested by name.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from ..core.errors import UsageError
from ..core.similar_names import did_you_mean
from . import plugins
from .description import PREFIX
from .transformer import StorageTransformer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "zarrstack.transformers"


_registered: Final[dict[str, type[StorageTransformer]]] = {}
"""Layers that this process registered itself."""


def register(kind: type[StorageTransformer]) -> type[StorageTransformer]:
    """Make a layer known under its `name` in this process; usable as a decorator of the class, `kind`.

    An entry point of its package makes it known in every process, such as the workers of dask.

    Raises
    ------
    UsageError
        If another layer has this name.

    Examples
    --------
    >>> @zarrstack.register
    ... class Quiet(zarrstack.StorageTransformer):
    ...     name = "quiet"
    >>> from zarrstack.base.stack import layers_from_json
    >>> layers_from_json(["quiet"])
    [Quiet()]
    """
    try:
        known = find(kind.name)
    except UsageError:
        known = None
    if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise UsageError(
            f"another storage transformer is called {kind.name!r}",
            found=f"{known.__module__}.{known.__qualname__}",
            advice="Choose another name.",
        )
    _registered[kind.name] = kind
    find.cache_clear()
    return kind


def check_registered(kind: type[StorageTransformer]) -> None:
    """UsageError unless a layer can be found again by the name that metadata has for it."""
    try:
        find(kind.name)
    except UsageError as error:
        if kind.name in names():
            raise
        raise UsageError(
            f"the layer {kind.name!r} is not registered, and an array that names it could not be opened",
            found=f"{kind.__module__}.{kind.__qualname__}",
            advice=(
                f"Call zarrstack.register({kind.__qualname__}) in every process that opens the array, or "
                "register it as an entry point of its package."
            ),
        ) from error


@functools.cache
def find(name: str) -> type[StorageTransformer]:
    """Return the layer class of this name; UsageError if it is unknown or cannot be loaded."""
    if name in _registered:
        return _registered[name]
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
    return sorted({*_registered, *(point.name for point in plugins.registered(GROUP))})


def _named(name: str) -> tuple[EntryPoint, ...]:
    """The layers of this name; zarrstack's own ones may have the name of the package before theirs."""
    return tuple(
        point
        for point in plugins.registered(GROUP)
        if point.name == name or (point.value.startswith(PREFIX) and PREFIX + point.name == name)
    )

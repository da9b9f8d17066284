"""Registered layers by name.

A package registers a layer as an entry point of the group `zarrstack.transformers`, under the layer's `name`
(source: https://packaging.python.org/en/latest/specifications/entry-points/). Layers are imported only when
they are requested by name.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..core.errors import UsageError
from ..core.similar_names import did_you_mean
from . import plugins
from .description import PREFIX

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .transformer import StorageTransformer

GROUP: Final = "zarrstack.transformers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A registered layer, as listed."""

    name: str
    place: str
    """Module and class, as in "zarrstack.layers.cache.layer:Cache"."""
    package: str
    """The distribution that provides it, with its version."""
    summary: str
    """First line of the layer's docstring; "" if it cannot be loaded."""
    problem: str | None
    """Why it cannot be used; None if it can."""


def registered() -> tuple[Registered, ...]:
    """Every registered layer, by name. Loads each; `problem` reports a failure."""
    return tuple(_listed(name) for name in _names())


def _listed(name: str) -> Registered:
    points = _named(name)
    try:
        summary, problem = (find(name).__doc__ or "").strip().partition("\n")[0], None
    except UsageError as error:
        summary, problem = "", str(error)
    packages = (f"{point.dist.name} {point.dist.version}" for point in points if point.dist is not None)
    return Registered(
        name=name,
        place=" and ".join(point.value for point in points),
        package=" and ".join(packages),
        summary=summary,
        problem=problem,
    )


@functools.cache
def find(name: str) -> type[StorageTransformer]:
    """Return the layer class of this name; UsageError if it is unknown or cannot be loaded."""
    from .transformer import StorageTransformer

    points = _named(name)
    if not points:
        raise UsageError(
            f"unknown storage transformer {name!r}",
            expected=", ".join(_names()) or "a registered name",
            advice=did_you_mean(name, _names())
            or "Install the package that provides it, or correct the name.",
        )
    return plugins.load(
        points,
        StorageTransformer,
        what="storage transformer",
        public="zarrstack.StorageTransformer",
        advice="Fix or uninstall that package.",
    )


def _names() -> list[str]:
    return sorted({point.name for point in plugins.registered(GROUP)})


def _named(name: str) -> tuple[EntryPoint, ...]:
    """The layers of this name; zarrstack's own ones may have the name of the package before theirs."""
    return tuple(
        point
        for point in plugins.registered(GROUP)
        if point.name == name or (point.value.startswith(PREFIX) and PREFIX + point.name == name)
    )

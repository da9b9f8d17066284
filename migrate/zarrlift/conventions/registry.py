"""Finds conventions by name: zarrlift's own, and those registered by other packages."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Final

from zarrstack.base import plugins

from ..recipe.convention_names import AUTO, outside
from .base import Convention

_ORDER: Final = {
    "hdmf": ".hdmf.convention:Hdmf",
    "n5": ".n5.convention:N5",
    "xarray": ".xarray:Xarray",
    "ome": ".ome.convention:Ome",
    "spatialdata": ".spatialdata:SpatialData",
}
"""Our own in calling order: conventions with exclusive files first, then dimension names."""


def chosen(names: tuple[str, ...]) -> tuple[type[Convention], ...]:
    """The conventions for a recipe's names, in calling order.

    zarrlift's own come first, then the others by name. UsageError for one that cannot be loaded.
    """
    everything = AUTO in names
    classes = [_ours(name) for name in _ORDER if everything or name in names]
    others = dict.fromkeys(point.name for point in outside() if point.name not in _ORDER)
    classes += [find(name) for name in others if everything or name in names]
    return tuple(
        convention for convention in classes if convention.name in names or (everything and convention.auto)
    )


@functools.cache
def _ours(name: str) -> type[Convention]:
    module, _, attribute = _ORDER[name].partition(":")
    convention: type[Convention] = getattr(import_module(module, __package__), attribute)
    return convention


@functools.cache
def find(name: str) -> type[Convention]:
    """The convention of another package; UsageError if the registered object cannot be used."""
    return plugins.load(
        [point for point in outside() if point.name == name],
        Convention,  # type: ignore[type-abstract]  # it is only compared with
        what="convention",
        public="zarrlift.conventions.Convention",
        advice="Fix or uninstall that package, or list the wanted conventions.",
    )

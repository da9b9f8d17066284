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

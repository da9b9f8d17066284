"""Parses the names of requested conventions: `auto`, `none`, or a list of names.

A package registers a convention as an entry point of the group `zarrlift.conventions`, under the convention's
own name (source: https://packaging.python.org/en/latest/specifications/entry-points/):

    [project.entry-points."zarrlift.conventions"]
    beamline = "my_package:Beamline"

It is not imported before an archive is read.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "zarrlift.conventions"
BUILT_IN: Final = ("hdmf", "n5", "ome", "spatialdata", "xarray")
"""The conventions included in zarrlift."""
AUTO: Final = "auto"
NONE: Final = "none"


@functools.cache
def outside() -> tuple[EntryPoint, ...]:
    """The conventions registered by other packages, by name."""
    return plugins.registered(GROUP)


def known_names() -> tuple[str, ...]:
    """All available names, sorted."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in outside())}))


def parse_conventions(text: str) -> tuple[str, ...]:
    """The names in `auto`, `none` or a comma-separated list, each once; raises UsageError.

    `none` gives no names. `auto`, for all automatically applied conventions, may be part of a list:
    `auto,beamline`.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if names == (NONE,):
        return ()
    for name in names:
        if name in BUILT_IN or name == AUTO:
            continue
        if name not in (known := known_names()):
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            raise UsageError(
                "'none' stands alone" if name == NONE else f"no convention is called {name!r}",
                found=text,
                expected="auto, none, or names: " + ", ".join(known),
                advice=f"Did you mean {near[0]!r}?" if near else "Install the package that brings it.",
            )
    return names

"""Which conventions are asked for: `auto`, `none`, or names; and which names there are.

A package registers a convention as an entry point of the group `zarrlift.conventions`, under the
convention's own name (source: https://packaging.python.org/en/latest/specifications/entry-points/):

    [project.entry-points."zarrlift.conventions"]
    beamline = "my_package:Beamline"

Nothing of it is imported before an archive is looked at.
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
"""The conventions that come with zarrlift."""
AUTO: Final = "auto"
NONE: Final = "none"


@functools.cache
def outside() -> tuple[EntryPoint, ...]:
    """What other packages registered, by name."""
    return plugins.registered(GROUP)


def known_names() -> tuple[str, ...]:
    """Every name that may be asked for, sorted."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in outside())}))


def parse_conventions(text: str) -> tuple[str, ...]:
    """The names in `auto`, `none` or a comma-separated list, each once; raises UsageError.

    `none` gives no name. `auto` may stand in a list, for all that are applied unasked:
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

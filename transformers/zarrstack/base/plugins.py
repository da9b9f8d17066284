"""What installed packages registered under a name, and how it is loaded.

Facts: https://packaging.python.org/en/latest/specifications/entry-points/ (the file `entry_points.txt`
beside an installed package's metadata, a section per group) and Python's `importlib.metadata`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ..core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_FILE: Final = "entry_points.txt"
_METADATA: Final = (".dist-info", ".egg-info")
"""How the directories of installed packages' metadata end, next to the packages themselves."""


def registered(group: str) -> tuple[EntryPoint, ...]:
    """What packages registered in a group, by name; nothing of it is loaded.

    An editable and an ordinary install of one package list the same entry twice; it is given once.
    """
    if not _mentioned(group):
        return ()
    from importlib.metadata import entry_points

    points = {(point.name, point.value): point for point in entry_points(group=group)}
    return tuple(point for _, point in sorted(points.items()))


def load(points: Sequence[EntryPoint], kind: type[T], *, what: str, public: str, advice: str) -> type[T]:
    """The class that is registered under one name.

    `points` are all of that name, one or more. `kind` is what the class is to be a subclass of, `public`
    that base's public name, `what` the word for it in messages; `advice` is for one that cannot be loaded.
    UsageError where two packages use the name, or where what is registered is no such class.
    """
    name = points[0].name
    if len(points) > 1:
        raise UsageError(
            f"more than one {what} is called {name!r}",
            found=" and ".join(point.value for point in points),
            advice="Uninstall one of the packages.",
        )
    place = points[0].value
    try:
        found = points[0].load()
    except Exception as error:  # any module may stand behind an entry point
        raise UsageError(
            f"the {what} {name!r} cannot be loaded from {place}",
            found=f"{type(error).__name__}: {error}",
            advice=advice,
        ) from error
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UsageError(
            f"what is registered as {name!r} is no {what}", found=place, expected=f"a subclass of {public}"
        )
    if getattr(found, "name", None) != name:
        raise UsageError(
            f"the {what} registered as {name!r} has another name",
            found=repr(getattr(found, "name", None)),
            expected=repr(name),
        )
    return found


def _mentioned(group: str) -> bool:
    """Whether some installed package may have registered something in a group; False is certain.

    Looking for the name costs a millisecond with a hundred packages; `importlib.metadata`, which parses
    what all of them registered, costs twenty, most of it for loading it (Python 3.11).
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
            return True  # a package that brings its metadata along
        for name in names:
            if name.lower().endswith(_METADATA):
                try:
                    with open(os.path.join(place, name, _FILE), "rb") as file:
                        if wanted in file.read():
                            return True
                except OSError:  # most register nothing
                    continue
    return False


def _plain(finder: object) -> bool:
    """Whether a finder looks for packages along `sys.path`, as Python itself does."""
    return getattr(finder, "__module__", None) == "_frozen_importlib_external"

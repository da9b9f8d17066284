"""The names of source formats: those included in zarrlift, and those added by other packages.

A package registers a format as an entry point of the group `zarrlift.formats`, under the format's own name
(source: https://packaging.python.org/en/latest/specifications/entry-points/):

    [project.entry-points."zarrlift.formats"]
    tiles = "my_package:Tiles"

Entry points are looked up only to detect a format, or for a name that is not zarrlift's own. A program adds
formats for itself with `zarrlift.formats.register`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ..errors import JobError
from .options import FORMATS, Format

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "zarrlift.formats"


at_run_time: Final[dict[str, EntryPoint]] = {}
"""Formats registered by `zarrlift.formats.register`; each replaces a package's format of its name."""


def outside() -> tuple[EntryPoint, ...]:
    """The formats registered by this program and other packages, by name."""
    packages = _of_packages()
    if not at_run_time:
        return packages
    others = (point for point in packages if point.name not in at_run_time)
    return tuple(sorted((*others, *at_run_time.values()), key=lambda point: point.name))


@functools.cache
def _of_packages() -> tuple[EntryPoint, ...]:
    return plugins.registered(GROUP)


def known_names() -> tuple[str, ...]:
    """All available names, sorted."""
    return tuple(sorted({*FORMATS, *(point.name for point in outside())}))


def points_of(name: Format) -> tuple[EntryPoint, ...]:
    """The entry points with a name; UsageError if there are none, or if a format of zarrlift has the name."""
    points = tuple(point for point in outside() if point.name == name)
    if name in FORMATS:
        raise UsageError(
            f"a package registers a format {name!r}, which is the name of one of zarrlift's own",
            found=" and ".join(map(plugins.origin, points)),
            advice="Uninstall that package, or choose zarrlift's own format with --from.",
        )
    if not points:
        raise UsageError(
            f"unknown format {name!r}",
            expected=", ".join(known_names()),
            advice=did_you_mean(name, known_names()) or "Install the package that provides it.",
        )
    return points


def require_known(name: Format | None) -> None:
    """Raise UsageError unless a format is installed under this name; None is any format."""
    if name is not None and name not in FORMATS:
        points_of(name)


def require_installed(name: Format, package: str | None) -> None:
    """Raise JobError unless the format of a job is installed; `package` is what provided it for the plan."""
    if name not in FORMATS and not any(point.name == name for point in outside()):
        raise JobError(
            f"the source of this job has the format {name!r}, which no installed package reads",
            expected=package,
            advice=f"Install {package or 'the package that adds it'} where zarrlift runs, then try again."
            if package is None or ":" not in package
            else f"Run this in a program that calls zarrlift.formats.register with {package}.",
        )


def provider(name: Format) -> str | None:
    """The package that adds a format, with its version; None for a format of zarrlift's own."""
    return None if name in FORMATS else plugins.origin(points_of(name)[0])

"""Parses the names of requested conventions: `auto`, `none`, or a list of names.

A package registers a convention as an entry point of the group `zarrlift.conventions`, under the convention's
own name (source: https://packaging.python.org/en/latest/specifications/entry-points/):

    [project.entry-points."zarrlift.conventions"]
    beamline = "my_package:Beamline"

It is not imported before an archive is read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

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


def parse_conventions(value: str | Sequence[str]) -> tuple[str, ...]:
    """The names in `auto`, `none` or a comma-separated list, each once; see `require_known`.

    `none` gives no names. `auto`, for all automatically applied conventions, may be part of a list:
    `auto,beamline`.
    """
    names: Any = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError("--conventions takes names", found=repr(value), expected="such as ome,xarray")
    parsed = tuple(dict.fromkeys(name.strip() for name in names))
    return () if parsed == (NONE,) else parsed


def conventions_text(names: Iterable[str]) -> str:
    """Inverse of `parse_conventions`."""
    return ",".join(names) or NONE


def require_known(names: Iterable[str]) -> None:
    """Raise UsageError unless every name is `auto` or that of an installed convention.

    Not part of parsing: a job may name a convention whose package is not installed here.
    """
    for name in names:
        if name in BUILT_IN or name == AUTO or name in (choices := known_names()):
            continue
        raise UsageError(
            "'none' cannot be combined with others" if name == NONE else f"unknown convention {name!r}",
            found=",".join(names),
            expected="auto, none, or names: " + ", ".join(choices),
            advice=did_you_mean(name, choices) or "Install the package that provides it.",
        )


def parse_readers(value: str | Sequence[str]) -> tuple[str, ...]:
    """The readers in a comma-separated text or a list, each once; UsageError for an unknown one.

    A name may have a version: "gdal 3.10", "gdal==3.10".
    """
    names: Any = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError("--for takes names of readers", found=repr(value), expected="such as gdal,xarray")
    parsed = tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
    if parsed:
        from ..core.chain.reader_table import table

        for name in parsed:
            table().named(name)
    elif names:
        raise UsageError("--for takes names of readers", found=repr(value), expected="such as gdal,xarray")
    return parsed

"""Parses the requested conventions: `auto`, `none`, or a list of names; in Python, also of classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

BUILT_IN: Final = ("hdmf", "n5", "ome", "spatialdata", "xarray")
"""The conventions included in zarrlift."""
AUTO: Final = "auto"
NONE: Final = "none"
classes_by_name: Final[dict[str, type]] = {}
"""The classes that recipes of this process have named, by their names."""


def known_names() -> tuple[str, ...]:
    """All available names, sorted."""
    return tuple(sorted({*BUILT_IN, *classes_by_name}))


def parse_conventions(value: str | Sequence[str | type]) -> tuple[str, ...]:
    """The names in `auto`, `none` or a comma-separated list, each once; see `require_known`.

    `none` gives no names. `auto`, for all of zarrlift's own, may be part of a list: `auto,spatialdata`. In
    Python, a list may have subclasses of `zarrlift.conventions.Convention`, too: `["auto", Labels]`. Recipes
    and jobs store their names, and each process knows those that a recipe has named in it.
    """
    items: Any = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str | type) for item in items):
        raise UsageError("--conventions takes names", found=repr(value), expected="such as ome,xarray")
    parsed = tuple(dict.fromkeys(item.strip() if isinstance(item, str) else _named(item) for item in items))
    return () if parsed == (NONE,) else parsed


def _named(convention: type) -> str:
    """The name of a class, which is remembered; a later class of the same name replaces it."""
    name: object = getattr(convention, "name", None)
    if not isinstance(name, str) or not name or "," in name or name in (*BUILT_IN, AUTO, NONE):
        raise UsageError(
            "a convention needs a name that is not one of zarrlift's own",
            found=repr(name),
            advice=f"Set `name` in {convention.__qualname__}.",
        )
    classes_by_name[name] = convention
    return name


def conventions_text(names: Iterable[str]) -> str:
    """Inverse of `parse_conventions`."""
    return ",".join(names) or NONE


def require_known(names: Iterable[str]) -> None:
    """Raise UsageError unless every name is `auto` or that of a known convention.

    Not part of parsing: a job may name a class that this process does not know.
    """
    for name in names:
        if name in BUILT_IN or name == AUTO or name in (choices := known_names()):
            continue
        raise UsageError(
            "'none' cannot be combined with others" if name == NONE else f"unknown convention {name!r}",
            found=",".join(names),
            expected="auto, none, or names: " + ", ".join(choices),
            advice=did_you_mean(name, choices)
            or "One of your own is known once `zarrlift.ArrayRecipe(conventions=[...])` has its class.",
        )

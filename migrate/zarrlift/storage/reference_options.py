"""What the user says about references: which places may be read, and how these are opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from zarrstack.core.errors import UsageError

ALLOWED: Final = "allow_references"
OPTIONS: Final = "reference_options"
OF_REFERENCES: Final = frozenset({ALLOWED, OPTIONS})
"""Members of `storage_options` that concern references, whatever the place is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReferences:
    """The options that concern references, apart from those of the place where they are stored."""

    allowed: tuple[str, ...] = ()
    """Directories and URLs below which references are followed."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """fsspec options of the places that references lead to; they may contain secrets."""

    @classmethod
    def split(cls, options: Mapping[str, Any] | None) -> tuple[dict[str, Any], Self]:
        """The `storage_options` of the place itself, and what concerns references; UsageError."""
        own = dict(options or {})
        allowed, others = own.pop(ALLOWED, ()), own.pop(OPTIONS, None)
        allowed = (allowed,) if isinstance(allowed, str) else tuple(allowed or ())
        if not all(isinstance(prefix, str) and prefix for prefix in allowed):
            raise UsageError(f"{ALLOWED} are directories or URLs", found=repr(allowed))
        if others is not None and not isinstance(others, Mapping):
            raise UsageError(f"{OPTIONS} are options of fsspec, by name", found=type(others).__name__)
        return own, cls(allowed=allowed, options=dict(others or {}))


def with_references(
    options: Mapping[str, Any] | None,
    allowed: Sequence[str] | None,
    reference_options: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """`storage_options` that contain what concerns references as well; directories are made absolute."""
    places = [
        place if "://" in place else os.path.abspath(os.path.expanduser(place)) for place in allowed or ()
    ]
    own = {ALLOWED: places, OPTIONS: reference_options}
    merged = {**(options or {}), **{name: value for name, value in own.items() if value}}
    return merged or None


def of_references(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Those of `storage_options` that concern references, which local places may have too."""
    return {name: value for name, value in (options or {}).items() if name in OF_REFERENCES} or None

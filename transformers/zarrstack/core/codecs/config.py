"""Validation of codec configurations, with errors that name the member."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MetadataError
from ..json_text import canonical

if TYPE_CHECKING:
    from ..chain.codec_spec import CodecSpec
    from ..json_text import JSON

_MISSING: Any = object()


class Configuration:
    """The configuration of one codec; unknown members are refused, because they may matter."""

    def __init__(self, spec: CodecSpec, known: Collection[str]) -> None:
        self._name = spec.name
        self._members = spec.configuration
        unknown = sorted(set(spec.configuration) - set(known))
        if unknown:
            raise MetadataError(
                f"codec {spec.name!r} has unknown members in its configuration",
                found=", ".join(unknown),
                expected=", ".join(sorted(known)) or "none",
            )

    def value(self, member: str, default: JSON = _MISSING) -> JSON:
        """A member unchanged; MetadataError if it is missing and has no default."""
        found = self._members.get(member, default)
        if found is _MISSING:
            raise MetadataError(f"codec {self._name!r} lacks {member!r} in its configuration")
        return found

    def integer(self, member: str, default: JSON = _MISSING, *, low: int, high: int) -> int:
        """An integer within bounds (inclusive); 5.0 counts as 5, true does not count as 1."""
        found = self.value(member, default)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise self.wrong(member, found, f"an integer from {low} to {high}")
        return found

    def number(self, member: str, default: JSON = _MISSING) -> int | float:
        """A JSON number."""
        found = self.value(member, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.wrong(member, found, "a number")
        return found

    def boolean(self, member: str, default: JSON = _MISSING) -> bool:
        """A JSON boolean."""
        found = self.value(member, default)
        if not isinstance(found, bool):
            raise self.wrong(member, found, "true or false")
        return found

    def choice(self, member: str, choices: Collection[JSON], default: JSON = _MISSING) -> JSON:
        """One of a set of values."""
        found = self.value(member, default)
        if isinstance(found, list | dict | bool) or found not in choices:
            raise self.wrong(member, found, "one of " + ", ".join(map(str, choices)))
        return found

    def dtype(self, member: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """A fixed-size numpy type in its short form, such as "<i4"; null means the default."""
        found = self.value(member, None)
        if found is None:
            if default is None:
                raise MetadataError(f"codec {self._name!r} lacks {member!r} in its configuration")
            return default
        try:
            dtype = np.dtype(found) if isinstance(found, str) else None
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or dtype.hasobject or dtype.itemsize == 0:
            raise self.wrong(member, found, 'a fixed-size type such as "<i4"')
        return dtype

    def wrong(self, member: str, found: JSON, expected: str) -> MetadataError:
        """The error for an invalid member."""
        return MetadataError(
            f"codec {self._name!r}: {member!r} is invalid", found=canonical(found), expected=expected
        )

"""Validation of codec configurations, with errors that name the member."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import canonical

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..codec_spec import CodecSpec

_MISSING: Any = object()


class Configuration:
    """The configuration of one codec; unknown members are refused, because they may matter."""

    def __init__(self, spec: CodecSpec, members: Collection[str]) -> None:
        self._name = spec.name
        self._members = spec.configuration
        unknown = sorted(set(spec.configuration) - set(members))
        if unknown:
            raise MetadataError(
                f"codec {spec.name!r} has unknown members in its configuration",
                found=", ".join(unknown),
                expected=", ".join(sorted(members)) or "none",
            )

    def value(self, member: str, default: JSON = _MISSING) -> JSON:
        """A member unchanged; MetadataError if it is missing and has no default."""
        value = self._members.get(member, default)
        if value is _MISSING:
            raise MetadataError(f"codec {self._name!r} lacks {member!r} in its configuration")
        return value

    def integer(self, member: str, default: JSON = _MISSING, *, low: int, high: int) -> int:
        """An integer within bounds (inclusive); 5.0 counts as 5, true does not count as 1."""
        value = self.value(member, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(member, value, f"an integer from {low} to {high}")
        return value

    def number(self, member: str, default: JSON = _MISSING) -> int | float:
        """A JSON number."""
        value = self.value(member, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(member, value, "a number")
        return value

    def boolean(self, member: str, default: JSON = _MISSING) -> bool:
        """A JSON boolean."""
        value = self.value(member, default)
        if not isinstance(value, bool):
            raise self.wrong(member, value, "true or false")
        return value

    def choice(self, member: str, choices: Collection[JSON], default: JSON = _MISSING) -> JSON:
        """One of a set of values."""
        value = self.value(member, default)
        if isinstance(value, list | dict | bool) or value not in choices:
            raise self.wrong(member, value, "one of " + ", ".join(map(str, choices)))
        return value

    def dtype(self, member: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """A fixed-size numpy type in its short form, such as "<i4"; null means the default."""
        value = self.value(member, None)
        if value is None:
            if default is None:
                raise MetadataError(f"codec {self._name!r} lacks {member!r} in its configuration")
            return default
        try:
            dtype = np.dtype(value) if isinstance(value, str) else None
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or dtype.hasobject or dtype.itemsize == 0:
            raise self.wrong(member, value, 'a fixed-size type such as "<i4"')
        return dtype

    def wrong(self, member: str, value: JSON, expected: str) -> MetadataError:
        """The error for an invalid member."""
        return MetadataError(
            f"codec {self._name!r}: {member!r} is invalid", found=canonical(value), expected=expected
        )

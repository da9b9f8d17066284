"""Chunk keys by a pattern, for formats without an encoding of their own: `tile_{0:03}_{1:03}.bin`. Pure.

The key of a chunk is `pattern.format(*coordinates)`, Python's `str.format`. Each axis has one field, `{axis}`
or, padded with zeros to at least `width` digits, `{axis:0width}`. Text with a character that is no digit
stands between two fields, so that a key has one meaning.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_FIELD: Final = re.compile(r"\{([0-9]{1,3})(?::0([1-9]|1[0-8]))?\}")
_EXPECTED: Final = "such as 'tile_{0:03}_{1:03}.bin'"


@dataclass(frozen=True, slots=True)
class PatternKeys:
    """The chunk keys of one array, relative to the directory of its chunks.

    Same interface as `KeyEncoding`. MetadataError for an invalid pattern.
    """

    pattern: str

    def __post_init__(self) -> None:
        _parsed(self.pattern)

    @classmethod
    def from_json(cls, data: JSON) -> PatternKeys:
        """The inverse of `to_json`; MetadataError for anything else."""
        configuration = data.get("configuration") if isinstance(data, dict) else None
        if isinstance(configuration, dict) and isinstance(configuration.get("pattern"), str):
            return cls(configuration["pattern"])
        raise MetadataError("not a pattern of keys", found=excerpt(data), expected='{"name": "pattern", ...}')

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        return {"name": "pattern", "configuration": {"pattern": self.pattern}}

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(_parsed(self.pattern).axes)

    @property
    def start(self) -> str:
        """The text with which every key starts, as far as the first field or "/"."""
        return _parsed(self.pattern).start

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of a chunk."""
        return self.pattern.format(*coordinates)

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; equal to `key` for each row."""
        return [self.pattern.format(*row) for row in coordinates.tolist()]

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of a key's chunk in an `ndim`-dimensional array, or None."""
        parsed = _parsed(self.pattern)
        match = parsed.whole.fullmatch(key) if ndim == len(parsed.axes) else None
        if match is None:
            return None
        places = dict(zip(parsed.axes, map(int, match.groups()), strict=True))
        return tuple(places[axis] for axis in range(ndim))

    def depth(self, ndim: int) -> int:
        """Number of path segments in a key."""
        return len(_parsed(self.pattern).segments)

    def fits(self, level: int, name: str) -> bool:
        """Whether a segment of a key, counted from 0, may have a name."""
        return _parsed(self.pattern).segments[level].fullmatch(name) is not None

    def __str__(self) -> str:
        return f"pattern {self.pattern!r}"


class _Parsed(NamedTuple):
    axes: tuple[int, ...]
    """The axis of each field."""
    start: str
    whole: re.Pattern[str]
    segments: tuple[re.Pattern[str], ...]


@functools.lru_cache(maxsize=256)
def _parsed(pattern: str) -> _Parsed:
    """The parts of a pattern; MetadataError if it is invalid."""
    texts = _FIELD.split(pattern)  # text, axis, width, text, axis, width, ..., text
    axes = tuple(map(int, texts[1::3]))
    if sorted(axes) != list(range(len(axes))):
        raise _wrong("a pattern of chunk keys has one field for each axis", pattern)
    if any("{" in text or "}" in text for text in texts[::3]):
        raise _wrong("a pattern of chunk keys has fields such as {0} and {0:03}", pattern)
    if any(re.fullmatch("[0-9]*", text) for text in texts[3:-1:3]):
        raise _wrong("two fields of a pattern of chunk keys need a text between them", pattern)
    for segment in pattern.split("/"):
        if segment in ("", ".", "..") or "\\" in segment or "\0" in segment:
            raise _wrong("a pattern of chunk keys is a relative path", pattern)
    segments = tuple(re.compile(_expression(segment)) for segment in pattern.split("/"))
    start = texts[0].partition("/")[0]
    return _Parsed(axes, start, re.compile(_expression(pattern)), segments)


def _expression(pattern: str) -> str:
    """The regular expression of what a pattern makes; each number has one form in it."""
    texts = _FIELD.split(pattern)
    result = re.escape(texts[0])
    for width, text in zip(texts[2::3], texts[3::3], strict=True):
        digits = int(width or 1)
        first = "0" if digits == 1 else f"[0-9]{{{digits}}}"
        result += f"({first}|[1-9][0-9]{{{digits if digits > 1 else 0},18}}){re.escape(text)}"
    return result


def _wrong(message: str, pattern: str) -> MetadataError:
    return MetadataError(message, found=excerpt(pattern), expected=_EXPECTED)

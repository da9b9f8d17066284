"""The chunk key encodings of all formats: v3's, N5's, the 2022 draft's, and patterns for formats by others.

All share one interface: `key`, `keys`, `coordinates`, `depth` and `to_json`. A v3 document can only have a
`KeyEncoding`.

Source of the draft's: https://github.com/zarr-developers/zarr-specs/blob/71b92bb/docs/core/v3.0.rst, "Regular
grids". A pattern is for formats without an encoding of their own, such as `tile_{0:03}_{1:03}.bin`: the key
of a chunk is `pattern.format(*coordinates)`, Python's `str.format`. Each axis has one field, `{axis}` or,
padded with zeros to at least `width` digits, `{axis:0width}`. Text with a character that is no digit stands
between two fields, so that a key has one meaning.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..shapes import Shape

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


@dataclass(frozen=True, slots=True)
class DraftKeys:
    """The chunk keys of one array, relative to the array: `c0/1/2`, or `c0.1.2`.

    Same interface as `KeyEncoding`. Section "Regular grids"; the 0-d key depends on the dialect.
    """

    separator: Separator = "/"
    scalar_key: str = "c"

    @classmethod
    def from_json(cls, data: JSON) -> DraftKeys:
        """The inverse of `to_json`; MetadataError for anything else."""
        configuration = data.get("configuration") if isinstance(data, dict) else None
        if isinstance(configuration, dict) and data.get("name") == "draft":
            separator, scalar = configuration.get("separator"), configuration.get("scalar_key")
            if separator in (".", "/") and scalar in ("c", "c0"):
                return cls(separator, scalar)
        raise MetadataError("not the draft's keys", found=excerpt(data), expected='{"name": "draft", ...}')

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        configuration = {"separator": self.separator, "scalar_key": self.scalar_key}
        return {"name": "draft", "configuration": configuration}

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of a chunk."""
        return "c" + self._plain.key(coordinates) if coordinates else self.scalar_key

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; equal to `key` for each row."""
        if coordinates.shape[1] == 0:
            return [self.scalar_key] * len(coordinates)
        return ["c" + key for key in self._plain.keys(coordinates)]

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of a key's chunk in an `ndim`-dimensional array, or None."""
        if ndim == 0:
            return () if key == self.scalar_key else None
        return self._plain.coordinates(key[1:], ndim) if key.startswith("c") else None

    def depth(self, ndim: int) -> int:
        """Number of path segments in a key."""
        return self._plain.depth(ndim)

    @property
    def _plain(self) -> KeyEncoding:
        return KeyEncoding("v2", self.separator)

    def __str__(self) -> str:
        return f"draft {self.separator!r}"


Axes: TypeAlias = Literal["reversed", "kept"]


def reverse_axes(lengths: Shape, axes: Axes) -> Shape:
    """Convert lengths or coordinates between N5's order and the displayed one; its own inverse."""
    return lengths[::-1] if axes == "reversed" else lengths


_KEPT: Final = KeyEncoding("v2", "/")
"""N5's keys are v2's with `/`; the only block of a 0-d dataset is `0` (zarr-python 2.18, tensorstore)."""


@dataclass(frozen=True, slots=True)
class N5Keys:
    """The block keys of a dataset: x/y/z, from coordinates in the displayed order.

    Same interface as `KeyEncoding`. With axes kept it is v2's encoding with `/`.
    """

    axes: Axes = "reversed"

    @classmethod
    def from_json(cls, data: JSON) -> N5Keys:
        """The inverse of `to_json`; MetadataError for anything else."""
        axes = data["configuration"].get("axes") if isinstance(data, dict) and _is_n5(data) else None
        if axes not in ("reversed", "kept"):
            raise MetadataError("not N5's keys", found=excerpt(data), expected='{"name": "n5", ...}')
        return cls(axes)

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        return {"name": "n5", "configuration": {"axes": self.axes}}

    def key(self, coordinates: Shape) -> str:
        """The key of a chunk."""
        return _KEPT.key(reverse_axes(coordinates, self.axes))

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; equal to `key` for each row."""
        return _KEPT.keys(coordinates[:, ::-1] if self.axes == "reversed" else coordinates)

    def coordinates(self, key: str, ndim: int) -> Shape | None:
        """The coordinates of a key's chunk in an `ndim`-dimensional dataset, or None."""
        place = _KEPT.coordinates(key, ndim)
        return None if place is None else reverse_axes(place, self.axes)

    def depth(self, ndim: int) -> int:
        """Number of path segments in a key."""
        return _KEPT.depth(ndim)

    def __str__(self) -> str:
        return f"n5, axes {self.axes}"


def _is_n5(data: JSONObject) -> bool:
    return data.get("name") == "n5" and isinstance(data.get("configuration"), dict)


ChunkKeys: TypeAlias = KeyEncoding | N5Keys | DraftKeys | PatternKeys
_SEPARATORS: Final[tuple[Separator, ...]] = ("/", ".")


def chunk_keys_from_json(data: JSON) -> ChunkKeys:
    """The inverse of `to_json`; MetadataError for an unknown encoding."""
    name = data.get("name") if isinstance(data, dict) else None
    if name == "n5":
        return N5Keys.from_json(data)
    if name == "draft":
        return DraftKeys.from_json(data)
    if name == "pattern":
        return PatternKeys.from_json(data)
    return KeyEncoding.from_json(data)


def chunk_keys_of(pattern: str, ndim: int) -> KeyEncoding | PatternKeys:
    """The keys that a pattern makes; the v3 encoding with the same keys, if there is one.

    MetadataError for an invalid pattern, or one for another number of axes.
    """
    keys = PatternKeys(pattern)
    if keys.ndim != ndim:
        raise MetadataError(
            "a pattern of chunk keys has one field for each axis", found=pattern, expected=f"{ndim} fields"
        )
    fields = [f"{{{axis}}}" for axis in range(ndim)]
    for separator in _SEPARATORS:
        if pattern == separator.join(["c", *fields]):
            return KeyEncoding("default", separator)
        if pattern == (separator.join(fields) or "0"):
            return KeyEncoding("v2", separator)
    return keys

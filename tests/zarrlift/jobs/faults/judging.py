"""How a disturbed command ended, and which version of its source a reader sees of an array."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from tests.zarrlift.jobs.faults.commands import HUNG, Ended
from tests.zarrlift.jobs.faults.living_archive import UNHEARD, Values, Version
from zarr.abc.codec import BytesBytesCodec
from zarr.registry import register_codec

_CODES = frozenset({0, 1, 2, 130})
"""Exit codes that the documentation knows."""
_FAULTS = ("Traceback", "bug in zarrlift", "did not foresee", "Exception ignored")


@dataclass(frozen=True)
class _Unheard(BytesBytesCodec):
    """A codec that readers know and zarrlift does not; it changes nothing."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _Unheard:
        return cls()

    def to_dict(self) -> dict[str, Any]:
        return {"name": UNHEARD}

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return chunk_bytes

    _encode_single = _decode_single

    def compute_encoded_size(self, input_byte_length: int, _: Any) -> int:
        return input_byte_length


register_codec(UNHEARD, _Unheard)


def said_badly(ended: Ended) -> list[str]:
    """What is wrong with the way a command ended that was not killed."""
    text = ended.out + ended.err
    if ended.code == HUNG or ended.code not in _CODES:
        return [f"ended with {ended.code}: {ended}"]
    if ended.code != 0 and not text.strip():
        return ["failed without a word"]
    if "resource_tracker: process died" in text:  # Python's own, if that is what was killed
        return []
    return [f"says {word!r}: {ended}" for word in _FAULTS if word in text]


# Whether what a reader sees of an array is one version of its source.

Region = tuple[slice, ...]


@dataclass(slots=True)
class Expected:
    """What may be seen of an array of a result."""

    versions: list[Version] = field(default_factory=list)
    """One of them, if the array is visible."""
    mixed: bool = False
    """Whether each object may be of any of them: an update that replaces objects one by one was not completed
    (docs/howto/jobs.md).
    """
    overlays: dict[tuple[int, ...], Values] = field(default_factory=dict)
    """Objects that users have written into the result, by their position."""

    def add(self, version: Version) -> None:
        """One more version may be seen."""
        if version not in self.versions:
            self.versions.append(version)

    def only(self, version: Version) -> None:
        """This version is to be seen."""
        self.versions, self.mixed = [version], False


def visible_arrays(root: Path) -> list[str]:
    """The paths of the arrays of which a reader finds the document."""
    found = []
    for document in sorted(root.rglob("zarr.json")):
        content = document.read_bytes()
        if json.loads(content)["node_type"] == "array":
            found.append(document.parent.relative_to(root).as_posix())
    return found


def judged(folder: Path, expected: Expected, *, transposed: bool = False) -> str | None:
    """What is wrong with a visible array; what is right narrows what is expected from then on.

    `transposed`: it has the axes of N5, in reverse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            array = zarr.open_array(folder, mode="r", zarr_format=3)
        except Exception as error:  # noqa: BLE001 - whatever a reader says
            return f"cannot be opened: {error!r}"
        found = _Found(array, transposed=transposed)
        mark = array.attrs.get("mark")
    same = [version for version in expected.versions if found.is_version(version, expected)]
    if marked := [version for version in same if version.mark == mark]:
        expected.versions, expected.mixed = marked, False
        return None
    if not expected.mixed:
        numbers = [version.number for version in expected.versions]
        if same:
            return f"has the values of version {same[-1].number} and the attributes of {mark}"
        return f"is none of the versions {numbers}: {found.explained(expected)}"
    if mark not in [version.mark for version in expected.versions]:
        return f"has attributes of no version: {mark}"
    wrong = [position for position in found.positions() if not found.is_any(position, expected)]
    return found.explained(expected) if wrong else None


class _Found:
    """An array as a reader sees it, object by object."""

    def __init__(self, array: zarr.Array[Any], *, transposed: bool) -> None:
        order = slice(None, None, -1 if transposed else 1)
        self.shape = array.shape[order]
        self.dtype = array.dtype
        self.object_shape = (array.shards or array.chunks)[order]
        try:
            self.values: Values | None = np.asarray(array[...]).transpose(range(array.ndim)[order])
        except Exception:  # noqa: BLE001 - an object cannot be read
            self.values = None
            self._by_position = {}
            for position in self.positions():
                content = _read(array, self.region(position)[order])
                self._by_position[position] = (
                    content if content is None else content.transpose(range(array.ndim)[order])
                )

    def positions(self) -> Iterator[tuple[int, ...]]:
        """Every object, by its position in the grid."""
        pairs = zip(self.shape, self.object_shape, strict=True)
        return product(*(range(-(-length // size)) for length, size in pairs))

    def region(self, position: Sequence[int]) -> Region:
        trio = zip(position, self.object_shape, self.shape, strict=True)
        return tuple(slice(at * size, min((at + 1) * size, length)) for at, size, length in trio)

    def content(self, position: tuple[int, ...]) -> Values | None:
        """The values of an object; None if it cannot be read."""
        return self._by_position[position] if self.values is None else self.values[self.region(position)]

    def is_version(self, version: Version, expected: Expected) -> bool:
        """Whether this is one version, but for what users have written over it."""
        if version.values.shape != self.shape or not self.has_type_of(version):
            return False
        if self.values is not None and np.array_equal(self.values, version.values):
            return not version.damaged
        return all(self._is(position, version, expected) for position in self.positions())

    def has_type_of(self, version: Version) -> bool:
        """Whether the data types are the same, in any byte order."""
        return version.values.dtype.newbyteorder("=") == self.dtype.newbyteorder("=")

    def is_any(self, position: tuple[int, ...], expected: Expected) -> bool:
        """Whether an object is that of any version."""
        return any(
            self.has_type_of(version) and self._is(position, version, expected)
            for version in expected.versions
        )

    def _is(self, position: tuple[int, ...], version: Version, expected: Expected) -> bool:
        region, content = self.region(position), self.content(position)
        if content is None:
            return any(_meet(region, other) for other in version.damaged)
        seen = version.values[region]
        overlay = expected.overlays.get(position)
        if overlay is not None and np.array_equal(content, _overlaid(seen, overlay)):
            return True
        if any(_meet(region, other) for other in version.damaged):
            return False
        return np.array_equal(content, seen)

    def explained(self, expected: Expected) -> str:
        """Which objects are of which version."""
        lines = [f"shape {self.shape}, objects of {self.object_shape}"]
        for position in self.positions():
            content = self.content(position)
            numbers = [
                version.number for version in expected.versions if self._is(position, version, expected)
            ]
            if content is None:
                word = "cannot be read"
            elif not content.any():
                word = "is empty"
            else:
                word = "has values"
            lines.append(f"object {position} {word}, of versions {numbers}")
        few = 12
        return "; ".join(lines[: few + 1]) + ("; ..." if len(lines) > few + 1 else "")


def _overlaid(values: Values, overlay: Values) -> Values:
    """Values, with those that a user has written over them before the array had this shape."""
    shape = tuple(min(pair) for pair in zip(values.shape, overlay.shape, strict=True))
    inside = tuple(map(slice, shape))
    result = values.copy()
    result[inside] = overlay[inside]
    return result


def _read(array: zarr.Array[Any], region: Region) -> Values | None:
    try:
        return np.asarray(array[region])
    except Exception:  # noqa: BLE001 - whatever a reader says
        return None


def _meet(one: Region, other: Region) -> bool:
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other, strict=True))

"""Describes the nodes of an N5 container.

Specification: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, version
4.0.0. Behaviour of its writers (observed with the Java library 1.5 to 4.0, z5py 3.0, zarr-python 2,
tensorstore):

- Every directory is a group, without a marker: `attributes.json` exists only if it has attributes.
- A dataset differs from a group by the members of that document (`is_dataset`).
- Java allows datasets below datasets, next to the outer one's blocks. An array of Zarr v3 has no
  children, so the inner ones are refused.
- The root states the version of the specification; zarr-python states it in every group.

Attributes with one entry per axis are in N5's axis order: x, y, z. They are unchanged for either axis order
of the arrays. They cannot be reversed in general, because some state their own order, and others are read by
programs that expect it (https://github.com/constantinpape/z5/issues/44). The plan lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join

from ..archive.nodes import ArrayNode, Layout
from ..core.format_table import N5 as DOCUMENT
from ..core.grid.frames import N5Blocks
from ..core.identity_cache import IdentityCache
from ..core.n5.dataset import N5Dataset, describe_dataset, user_attributes, version_problem
from ..core.problems import note
from ..recipe.options import Axes
from ..storage.base import DirectoryEntry
from .tree.directory import NodeDirectory
from .tree.reader import ArchiveReader

_OF_GROUPS: Final = frozenset(
    {"axes", "downsamplingFactors", "offset", "pixelResolution", "resolution", "scales", "translate", "units"}
)
"""Attributes that COSEM, n5-viewer, Paintera and BigDataViewer write on groups."""
_SAYS_ITS_ORDER: Final = frozenset({"multiscales", "ome", "transform", "_ARRAY_DIMENSIONS"})
"""Attributes that state their own axis order: OME-NGFF, COSEM's `transform` and xarray's names."""


def axes_note(attributes: Mapping[str, JSON], axes: Axes, ndim: int | None = None) -> Iterator[Problem]:
    """A note with the attributes whose axis order differs from the array's.

    `ndim` is the number of axes of an array, None for a group. There is no note for one axis, or if axes are
    kept.
    """
    if axes == "kept" or ndim in (0, 1):
        return
    names = [
        name
        for name, value in attributes.items()
        if name not in _SAYS_ITS_ORDER and (name in _OF_GROUPS if ndim is None else _per_axis(value, ndim))
    ]
    if names:
        yield note(
            "axes",
            "these attributes are kept in N5's axis order, usually (x, y, z); "
            "arrays are presented as (z, y, x)",
            found=", ".join(sorted(names)),
            advice="Use --axes kept to present arrays in N5's order too.",
        )


def _per_axis(value: JSON, ndim: int) -> bool:
    """Whether a value, or a member of it, is a list with one number or name per axis."""
    if isinstance(value, dict):
        return any(_per_axis(item, ndim) for item in value.values() if isinstance(item, list))
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, list) for item in value):
        return all(_per_axis(item, ndim) for item in value)
    return len(value) == ndim and (
        all(isinstance(item, str) for item in value)
        or all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )


_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class _Reader(ArchiveReader):
    """Every directory is a node; axes are in the requested order."""

    def __init__(self, *archive: Any, only: bool) -> None:
        super().__init__(*archive, only=only)
        self._axes = cast("Axes", self.reading.settled().axes)
        self._datasets: IdentityCache[tuple[JSONObject, Layout | None, tuple[Problem, ...]]]
        self._datasets = IdentityCache(self._describe)

    def kind(self, place: NodeDirectory) -> Literal["array", "group"]:
        if place.is_array or self.is_array(place) or self._was_dataset(place):
            return "array"
        return self.foreign_kind(place) or "group"

    def _was_dataset(self, place: NodeDirectory) -> bool:
        """Whether a directory with an unreadable document was a dataset: it contains blocks, or nothing."""
        if not place.path or not isinstance(self.parsed(place, DOCUMENT), Problem):
            return False
        directories = self.directories
        inner = [path for path in directories if path.startswith(f"{place.path}/")]
        names = {path[len(place.path) + 1 :].partition("/")[0] for path in inner}
        return all(_NUMBER.fullmatch(name) for name in names) and not any(
            directories[path].documents for path in inner
        )

    def may_hold_chunks(self, layout: Layout | None, name: str) -> bool:
        """Directories at the place of a row of blocks are not searched.

        Entries in them that are not blocks are reported when the blocks are listed.
        """
        rows = 0
        if layout is not None and layout.shape:
            rows = layout.grid.counts[-1 if self._axes == "reversed" else 0]
        return _NUMBER.fullmatch(name) is not None and int(name) < rows

    def read_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> ArrayNode:
        problems.extend(self._version(place))
        data = self.parse(place, DOCUMENT, problems)
        if data is None:
            return self.array(place, problems)
        attributes, layout, more = self._datasets(data)
        problems.extend(problem.at(key=join(place.path, DOCUMENT)) for problem in more)
        if layout is not None:
            problems.extend(axes_note(attributes, self._axes, len(layout.shape)))
        return self.array(place, problems, layout, attributes=attributes)

    def _describe(self, data: JSONObject) -> tuple[JSONObject, Layout | None, tuple[Problem, ...]]:
        """Attributes, layout and problems of a dataset."""
        dataset, problems = describe_dataset(data)
        layout = None if dataset is None else _layout(dataset, self._axes)
        return user_attributes(data), layout, tuple(problems)

    def read_group(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject:
        problems.extend(self._version(place))
        data = self.parse(place, DOCUMENT, problems)
        if data is None:
            return {}
        attributes = user_attributes(data)
        problems.extend(axes_note(attributes, self._axes))
        return attributes

    def _version(self, place: NodeDirectory) -> Iterator[Problem]:
        """Problems of the version, which is significant at the root; elsewhere it is a copy."""
        data = None if place.path else self.parsed(place, DOCUMENT)
        if isinstance(data, dict) and (problem := version_problem(data)) is not None:
            yield problem.at(key=DOCUMENT)


def _layout(dataset: N5Dataset, axes: Axes) -> Layout:
    return Layout(
        shape=dataset.shape(axes),
        data_type=dataset.data_type,
        fill_value=dataset.fill_value,
        chunk_shape=dataset.chunk_shape(axes),
        chain=dataset.chain(axes),
        keys=dataset.keys(axes),
        frame=N5Blocks(axes),
    )


reader = _Reader

"""Multiscale pyramids on N5, by the program that wrote them: levels `s0`, `s1`, ... in one group.

In all of them, the voxels of a level are averages of full-resolution voxels over a factor per axis: the scale
is the resolution times the factor, and the centre of the first voxel is shifted by (factor - 1) / 2
full-resolution voxels. Everything is in N5's axis order, (x, y, z), unless stated otherwise.

- COSEM (https://github.com/janelia-cosem/schemas/blob/master/multiscale.md): `transform` on each level,
  or in the group's `multiscales`, contains the axis names, scale, translation and units, in C order
  (`ordering`: "C" unless it is "F").
- n5-viewer (https://github.com/saalfeldlab/n5-viewer; parsed by n5-universe 1.x,
  `N5SingleScaleMetadataParser`): `pixelResolution` of the full resolution, on levels or above them, a
  list or `{"dimensions", "unit"}`; `downsamplingFactors` on levels, or the group's `scales`; else
  powers of 2.
- Paintera (https://github.com/saalfeldlab/paintera#paintera-data-format): `multiScale` true, `resolution`
  and `offset` on the group `data`, `downsamplingFactors` on levels.
- BigDataViewer (`setup*/timepoint*/s*`, https://github.com/bigdataviewer/bigdataviewer-core,
  `BdvN5Format`): all `downsamplingFactors` in a list on the setup, `resolution` on the timepoint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from zarrstack.core.json_text import JSON
from zarrstack.core.paths import join

from ...archive.nodes import ArrayNode, GroupNode
from ...core.grid.frames import N5Blocks
from .. import View

_LEVEL: Final = re.compile(r"s(0|[1-9][0-9]{0,2})")
_SPACE: Final = ("x", "y", "z")
_MAX_HALVINGS: Final = 60
T = TypeVar("T")
Numbers: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """An array of a pyramid."""

    path: str
    scale: Numbers
    """Size of a voxel along each axis, in the pyramid's units and N5's order."""
    translation: Numbers
    """Position of the centre of the first voxel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pyramid:
    """A multiscale image, with everything in N5's axis order."""

    axes: tuple[str, ...]
    units: tuple[str, ...]
    """Units as written; "" if absent."""
    levels: tuple[Level, ...]
    reversed: bool
    """Whether the arrays are presented with reversed axes."""
    name: str | None = None
    refused: tuple[str, ...] = ()
    """Levels that cannot be migrated."""

    def shown(self, items: tuple[T, ...]) -> tuple[T, ...]:
        """Items, one per axis, in the axis order in which the arrays are presented."""
        return items[::-1] if self.reversed else items


def axis_names(value: JSON, ndim: int) -> tuple[str | None, ...] | None:
    """The axis names in an attribute `axes` in N5's order; None if there are none.

    Empty names do not count. ["z", "y", "x"] is ignored: written through zarr-python's N5Store it is the
    presented order, and z is never stored fastest.
    """
    if not isinstance(value, list) or len(value) != ndim or any(type(name) is not str for name in value):
        return None
    names = [name for name in value if name]
    if (
        not names
        or len(set(names)) < len(names)
        or [name.lower() for name in value] in (["z", "y", "x"], ["y", "x"])
    ):
        return None
    return tuple(name or None for name in value)


def pyramid_of(view: View, group: GroupNode) -> Pyramid | None:
    """The pyramid whose levels are a group's children; None if no metadata declares one."""
    level_names = {
        int(match[1]): name for name in view.children(group.path) if (match := _LEVEL.fullmatch(name))
    }
    nodes = [view.array(join(group.path, name)) for _, name in sorted(level_names.items())]
    arrays = [node for node in nodes if node is not None]
    n5_nodes = [
        node for node in arrays if node.layout is not None and isinstance(node.layout.frame, N5Blocks)
    ]
    first = n5_nodes[0].layout if n5_nodes else None
    if first is None or not isinstance(first.frame, N5Blocks):
        return None
    ndim = len(first.shape)
    if ndim not in (2, 3) or any(node.layout is None or len(node.layout.shape) != ndim for node in n5_nodes):
        return None
    numbers = [
        number
        for number, name in sorted(level_names.items())
        if join(group.path, name) in {n.path for n in n5_nodes}
    ]
    metadata = _cosem(group, n5_nodes, ndim) or _factored(view, group, n5_nodes, numbers, ndim)
    if metadata is None:
        return None
    axes, units, levels, name = metadata
    return Pyramid(
        axes=axes,
        units=units,
        levels=levels,
        reversed=first.frame.axes == "reversed",
        name=name,
        refused=tuple(node.path for node in arrays if node.layout is None),
    )


_Made: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[Level, ...], str | None]
"""Axes, units, levels, and the image's name."""


# ----- COSEM


def _cosem(group: GroupNode, arrays: Sequence[ArrayNode], ndim: int) -> _Made | None:
    listed, name = _listed(group.attributes)
    read = []
    for node in arrays:
        own = _transform(node.attributes.get("transform"), ndim)
        transform = own or _transform(listed.get(node.path.rpartition("/")[2]), ndim)
        if transform is None:
            return None
        read.append(transform)
    axes, units = read[0][0], read[0][1]
    if any((other[0], other[1]) != (axes, units) for other in read):
        return None
    levels = (
        Level(path=node.path, scale=scale, translation=translation)
        for node, (_, _, scale, translation) in zip(arrays, read, strict=True)
    )
    return axes, units, tuple(levels), name


def _listed(attributes: Mapping[str, JSON]) -> tuple[dict[str, JSON], str | None]:
    """The transforms in a group's `multiscales`, by the level's name; and the image's name."""
    value = attributes.get("multiscales")
    first = value[0] if isinstance(value, list) and value else None
    if not isinstance(first, dict) or not isinstance(first.get("datasets"), list):
        return {}, None
    listed = {
        str(item["path"]): item["transform"]
        for item in first["datasets"]
        if isinstance(item, dict) and "path" in item and "transform" in item
    }
    name = first.get("name")
    return listed, name if isinstance(name, str) and name else None


def _transform(value: JSON, ndim: int) -> tuple[tuple[str, ...], tuple[str, ...], Numbers, Numbers] | None:
    """Axes, units, scale and translation of COSEM's `transform`, in N5's order."""
    if not isinstance(value, dict):
        return None
    axes, units = _texts(value.get("axes"), ndim), _texts(value.get("units", [""] * ndim), ndim)
    scale = _numbers(value.get("scale"), ndim)
    translation = _numbers(value.get("translate", [0.0] * ndim), ndim)
    if axes is None or units is None or scale is None or translation is None:
        return None
    if set(axes) != set(_SPACE[:ndim]):
        return None
    turn = 1 if value.get("ordering") == "F" else -1
    return axes[::turn], units[::turn], scale[::turn], translation[::turn]


def _texts(value: JSON, ndim: int) -> tuple[str, ...] | None:
    if isinstance(value, list) and len(value) == ndim and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


# ----- a resolution and a factor per level


def _factored(
    view: View, group: GroupNode, arrays: Sequence[ArrayNode], numbers: Sequence[int], ndim: int
) -> _Made | None:
    above = [group.attributes, *(node.attributes for node in _parents(view, group.path))]
    resolution, unit = _resolution([*(node.attributes for node in arrays[:1]), *above], ndim)
    factors = [
        _factor(node, number, group.attributes, above[1] if len(above) > 1 else {}, ndim)
        for node, number in zip(arrays, numbers, strict=True)
    ]
    is_declared = (
        resolution is not None
        or group.attributes.get("multiScale") is True
        or any(f is not None for f in factors)
    )
    if not is_declared:
        return None
    full = resolution or (1.0,) * ndim
    offset = _numbers(group.attributes.get("offset"), ndim) or (0.0,) * ndim
    levels = []
    for node, number, own_factor in zip(arrays, numbers, factors, strict=True):
        factor = own_factor or (2.0 ** min(number, _MAX_HALVINGS),) * ndim
        levels.append(
            Level(
                path=node.path,
                scale=tuple(a * b for a, b in zip(full, factor, strict=True)),
                translation=tuple(
                    start + (f - 1) / 2 * size for start, f, size in zip(offset, factor, full, strict=True)
                ),
            )
        )
    return _SPACE[:ndim], (unit,) * ndim, tuple(levels), None


def _parents(view: View, path: str) -> list[GroupNode]:
    """The group above a path: BigDataViewer's setup, or the image whose channels have pyramids."""
    parent = view.group(path.rpartition("/")[0]) if path else None
    return [] if parent is None else [parent]


def _resolution(places: Sequence[Mapping[str, JSON]], ndim: int) -> tuple[Numbers | None, str]:
    """The voxel size of the full resolution and its unit, from the nearest metadata that contains them."""
    for attributes in places:
        value = attributes.get("pixelResolution", attributes.get("resolution"))
        unit = ""
        if isinstance(value, dict):
            unit = value["unit"] if isinstance(value.get("unit"), str) else ""
            value = value.get("dimensions")
        if (numbers := _numbers(value, ndim)) is not None and all(number > 0 for number in numbers):
            return numbers, unit
    return None, ""


def _factor(
    node: ArrayNode, number: int, group: Mapping[str, JSON], setup: Mapping[str, JSON], ndim: int
) -> Numbers | None:
    """The factor of a level, if any metadata contains it."""
    lists = (group.get("scales"), group.get("downsamplingFactors"), setup.get("downsamplingFactors"))
    values = [node.attributes.get("downsamplingFactors")]
    values += [items[number] for items in lists if isinstance(items, list) and number < len(items)]
    for value in values:
        if (factor := _numbers(value, ndim)) is not None and all(item >= 1 for item in factor):
            return factor
    return None


def _numbers(value: JSON, ndim: int) -> Numbers | None:
    """A finite number per axis, or None."""
    if not isinstance(value, list) or len(value) != ndim:
        return None
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
        return None
    try:
        numbers = tuple(float(item) for item in value)
    except OverflowError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else None

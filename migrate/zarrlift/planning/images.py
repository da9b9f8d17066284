"""Which arrays of an archive are shown as pictures, and which part of each is read.

An image has two spatial axes of at least 64 elements: those that its dimension names or OME's axes call so,
else its last two, or the two before three or four channels of uint8. Of a multiscale, the coarsest level that
is large enough stands for all of them.

All channels of an image are mixed, in the colours and between the limits of OME's `omero`, as viewers do.

Labels are integers below a group `labels` or with OME's `image-label`, or with a name such as `segmentation`.
Other integers of 32 or 64 bits are taken for labels if most neighbouring pixels are equal (`pictures`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.paths import join, parents

if TYPE_CHECKING:
    from .plans import ArrayPlan, Plan

MIN_SIDE: Final = 64
MAX_READ: Final = 32_000_000
"""Maximum number of decoded bytes that are read on each side of an image."""
_ROWS: Final = frozenset({"y", "lat", "latitude", "row", "rows", "height", "northing"})
_COLUMNS: Final = frozenset({"x", "lon", "longitude", "col", "cols", "column", "columns", "width", "easting"})
_MIXED: Final = frozenset({"c", "ch", "channel", "channels"})
"""Names of axes whose elements are images of the same place, mixed in a colour each."""
_MOST_MIXED: Final = 8
"""Maximum number of channels of a picture."""
_COLOURS: Final[Mapping[int, str]] = {1: "FFFFFF", 2: "FF00FF 00FF00", 3: "FF0000 00FF00 0000FF"}
"""Colours of channels without one, by their number, as vizarr 0.3.0 chooses them."""
_MORE_COLOURS: Final = "00FFFF FFFF00 FF00FF FF0000 00FF00 0000FF FFFFFF FF8000"
_CHANNELS: Final = frozenset(
    {None, "c", "ch", "channel", "channels", "rgb", "rgba", "band", "bands", "s", "samples"}
)
_LABELS: Final = re.compile(
    r"label|segment|(^|[^a-z])(seg|mask|instance|annotation|supervoxel)s?([^a-z]|$)", re.IGNORECASE
)
_LEVEL: Final = re.compile(r"s?\d+")


@dataclass(frozen=True, slots=True)
class Channel:
    """How a channel is mixed into a picture."""

    colour: tuple[int, ...]
    """Red, green and blue, to 255; all 0 for a channel that is switched off."""
    limits: tuple[float, float] | None = None
    """The values that are black and of full brightness; None if the values decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An array that is shown."""

    path: str
    shape: tuple[int, ...]
    rows: int
    """The axis of the rows of the picture."""
    columns: int
    channels: int | None
    """The axis of the colours or channels, if there is one."""
    labels: bool | None
    """Whether the values are labels; None if the values decide."""
    levels: int = 1
    """Number of levels of its multiscale."""
    mixed: tuple[Channel, ...] = ()
    """Channels to mix; none if the elements of the axis are red, green and blue."""

    def selection(self, chunks: Sequence[int], itemsize: int, side: int) -> tuple[int | slice, ...] | None:
        """The middle plane in at most `side` rows and columns, from chunks that are small enough to be read.

        If that takes too many chunks, the chunks in the middle of the plane, and then fewer channels. None if
        one chunk is too large.
        """
        unit = math.prod(chunks) * max(itemsize, 1)
        allowed = MAX_READ // unit
        chosen: list[int | slice] = [length // 2 for length in self.shape]
        if self.channels is not None:
            count, chunk = len(self.mixed) or 3, chunks[self.channels]
            if self.mixed:
                count = min(count, allowed * chunk)
            chosen[self.channels] = slice(0, count)
            allowed //= max(_touched(slice(0, count), chunk), 1)
        if not allowed:
            return None
        spatial = (self.rows, self.columns)
        whole = {axis: slice(0, self.shape[axis], -(-self.shape[axis] // side)) for axis in spatial}
        if math.prod(_touched(whole[axis], chunks[axis]) for axis in spatial) > allowed:
            few = math.isqrt(allowed)
            whole = {axis: _middle(self.shape[axis], chunks[axis], few, side) for axis in spatial}
        for axis in spatial:
            chosen[axis] = whole[axis]
        return tuple(chosen)


def cost(selection: Sequence[int | slice], shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> int:
    """Decoded bytes of the chunks that a selection touches."""
    touched = (
        1 if isinstance(part, int) else _touched(slice(*part.indices(length)), chunk)
        for part, length, chunk in zip(selection, shape, chunks, strict=True)
    )
    return math.prod(touched) * math.prod(chunks) * max(itemsize, 1)


def images_of(plan: Plan) -> Iterator[Image]:
    """The images of an archive, by path."""
    arrays = {array.path: array for array in plan.arrays}
    attributes: dict[str, Mapping[str, Any]] = {
        group.path: group.document.get("attributes") or {} for group in plan.groups
    }
    chosen: dict[str, Image] = {}
    passed: set[str] = set()
    for group, members, axes in _multiscales(arrays, attributes):
        images = [_image(arrays[member], attributes, axes) for member in members]
        enough = [image for image in images if image is not None]
        passed.update(members)
        if enough:
            coarsest = min(enough, key=lambda image: math.prod(image.shape))
            if coarsest.mixed and group is not None:
                coarsest = replace(coarsest, mixed=_mixed(len(coarsest.mixed), attributes[group]))
            chosen[coarsest.path] = replace(coarsest, levels=len(members))
    for path, array in arrays.items():
        if path in chosen:
            yield chosen[path]
        elif path not in passed and (single := _image(array, attributes, None)) is not None:
            yield single


def _multiscales(
    arrays: Mapping[str, ArrayPlan], attributes: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str | None, list[str], Sequence[str | None] | None]]:
    """Group, paths and names of axes of each multiscale; those of N5 are siblings `s0`, `s1`, without one."""
    below: dict[str, list[str]] = {}
    for path in arrays:
        parent, _, name = path.rpartition("/")
        if re.fullmatch(r"s\d+", name):
            below.setdefault(parent, []).append(path)
    for path, values in attributes.items():
        ome = values.get("ome")
        entries = (ome if isinstance(ome, dict) else values).get("multiscales")
        for entry in entries if isinstance(entries, list) else ():
            datasets = entry.get("datasets") if isinstance(entry, dict) else None
            names = (
                [item.get("path") for item in datasets or () if isinstance(item, dict)]
                if isinstance(datasets, list)
                else []
            )
            members = [
                join(path, name) for name in names if isinstance(name, str) and join(path, name) in arrays
            ]
            if members:
                below.pop(path, None)
                yield path, members, _axis_names(entry.get("axes"))
    for members in below.values():
        if len(members) > 1:
            yield None, members, None


def _axis_names(axes: Any) -> list[str | None] | None:
    if not isinstance(axes, list):
        return None
    return [
        ("c" if axis.get("type") == "channel" else axis.get("name"))
        if isinstance(axis, dict)
        else axis
        if isinstance(axis, str)
        else None
        for axis in axes
    ]


def _image(
    array: ArrayPlan, attributes: Mapping[str, Mapping[str, Any]], axes: Sequence[str | None] | None
) -> Image | None:
    """The array as an image, if it is one."""
    shape, kind = array.source.shape, array.source.data_type
    numpy = kind.numpy if kind.itemsize else None
    if len(shape) < 2 or numpy is None or numpy.kind not in "biuf" or not all(shape):
        return None
    stored = array.destination.dimension_names or array.source.dimension_names
    axis_names = axes if axes is not None and len(axes) == len(shape) else stored
    names = [name.lower() if isinstance(name, str) else None for name in axis_names or [None] * len(shape)]
    rows = next((axis for axis, name in enumerate(names) if name in _ROWS), None)
    columns = next((axis for axis, name in enumerate(names) if name in _COLUMNS), None)
    channels = None
    colours = shape[-1] in (3, 4) and str(numpy) == "uint8" and len(shape) > 2 and names[-1] in _CHANNELS
    if rows is None or columns is None:
        rows, columns = (len(shape) - 3, len(shape) - 2) if colours else (len(shape) - 2, len(shape) - 1)
    if colours and len(shape) - 1 not in (rows, columns):
        channels = len(shape) - 1
    if shape[rows] < MIN_SIDE or shape[columns] < MIN_SIDE:
        return None
    labels = _labels(array, attributes, numpy)
    mixed: tuple[Channel, ...] = ()
    axis = next((axis for axis, name in enumerate(names) if name in _MIXED), None)
    if axis not in (None, rows, columns) and channels is None and not labels:
        channels, mixed = axis, _mixed(shape[axis], {})
    return Image(
        path=array.path,
        shape=shape,
        rows=rows,
        columns=columns,
        channels=channels,
        labels=labels,
        mixed=mixed,
    )


def _mixed(count: int, attributes: Mapping[str, Any]) -> tuple[Channel, ...]:
    """How the channels of an image are mixed: as `omero` says, where that can be read."""
    ome = attributes.get("ome")
    omero = (ome if isinstance(ome, dict) else attributes).get("omero")
    stated = omero.get("channels") if isinstance(omero, dict) else None
    stated = [item if isinstance(item, dict) else {} for item in stated] if isinstance(stated, list) else []
    count = min(count, _MOST_MIXED)
    stated = (stated + [{}] * count)[:count]
    colours = _COLOURS.get(count, _MORE_COLOURS).split()
    on = [item.get("active") is not False for item in stated]
    return tuple(
        Channel(
            _colour(item.get("color"), colour) if is_on or not any(on) else (0, 0, 0),
            _window(item.get("window")),
        )
        for item, colour, is_on in zip(stated, colours, on, strict=False)
    )


def _colour(stated: Any, default: str) -> tuple[int, ...]:
    text = stated.removeprefix("#") if isinstance(stated, str) else ""
    return tuple(bytes.fromhex(text if re.fullmatch("[0-9A-Fa-f]{6}", text) else default))


def _window(stated: Any) -> tuple[float, float] | None:
    ends = [stated.get(name) for name in ("start", "end")] if isinstance(stated, dict) else []
    numbers = [float(end) for end in ends if isinstance(end, int | float) and abs(end) < 1e300]
    return (numbers[0], numbers[1]) if len(numbers) == 2 and numbers[0] < numbers[1] else None


def _labels(array: ArrayPlan, attributes: Mapping[str, Mapping[str, Any]], kind: Any) -> bool | None:
    if kind.kind not in "iu":
        return False
    for place in parents(array.path):
        values = attributes.get(place, {})
        ome = values.get("ome")
        if "image-label" in values or (isinstance(ome, dict) and "image-label" in ome):
            return True
    names = [name for name in array.path.split("/") if not _LEVEL.fullmatch(name)]
    if any(_LABELS.search(name) for name in names):
        return True
    return None if kind.itemsize >= 4 else False


def _touched(part: slice, chunk: int) -> int:
    """Number of chunks along an axis in which a slice has an element."""
    start, stop, step = int(part.start), int(part.stop), int(part.step or 1)
    if stop <= start:
        return 0
    return -(-(stop - start) // step) if step >= chunk else (stop - 1) // chunk - start // chunk + 1


def _middle(length: int, chunk: int, count: int, side: int) -> slice:
    """The middle `count` chunks of an axis."""
    first = max((-(-length // chunk) - count) // 2, 0) * chunk
    last = min(first + count * chunk, length)
    return slice(first, last, max(-(-(last - first) // side), 1))

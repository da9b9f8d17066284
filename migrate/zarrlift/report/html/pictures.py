"""Pictures of the middle planes of images: what a job read and what it wrote, or those of one archive.

The source is read by our view of it, the result by zarr-python alone. A picture is for orientation: it may be
a sample of the pixels, and shows 8 bits of them.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import ZarrstackError

from ...jobs.units import bytes_text, count_text, shape_text
from ...planning.images import MAX_READ, Image, cost, images_of
from ...storage.open_storage import open_storage
from ...storage.redact import redact_foreign
from ...storage.transformer_stack import with_layers
from ..blocks import Block

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...planning.plans import Plan
    from ...recipe.options import Places

    Pixels = npt.NDArray[np.uint8]
    Values = npt.NDArray[Any]
    from zarr.abc.store import Store

    from ...jobs.ledger.ledger import Job

OpenArray = Any
"""Gives the array at a path, for a side of a picture; raises if it cannot be read."""
_SIDE: Final = 256
_SMALL: Final = 128
_MAX_BYTES: Final = 10_000_000
_MAX_IMAGES: Final = 200
"""Maximum number of images that are read for a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One image, before and after."""

    path: str
    image: Image
    about: str
    width: int
    height: int
    sides: tuple[tuple[str, str], ...]
    """(what it shows, the picture as a `data:` URL)"""
    archive: str | None = None
    anchor: str = ""
    """Id of the element with the array's details."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures(Block):
    """The pictures of a page, and what is to be said of those that are not there."""

    shown: tuple[Picture, ...] = ()
    left_out: int = 0
    """Images for which there was no room."""
    too_large: int = 0
    """Images of which one chunk is larger than what is read."""
    unread: tuple[str, ...] = ()
    """Why images could not be read, one text each."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not shown, and why."""
        notes = []
        if self.left_out:
            most = bytes_text(_MAX_BYTES)
            notes.append(
                f"{count_text(self.left_out, 'further image')} not shown: a page has at most {most}."
            )
        if self.too_large:
            most = bytes_text(MAX_READ)
            notes.append(f"{count_text(self.too_large, 'image')} not shown: a chunk is larger than {most}.")
        if self.unread:
            notes.append(f"{count_text(len(self.unread), 'picture')} could not be made: {self.unread[0]}")
        return tuple(notes)

    def linked(self, anchor: Callable[[str], str], *, archive: str | None = None) -> Pictures:
        """The same with the id of the details of each path, and the name of the archive."""
        pictures = (replace(picture, anchor=anchor(picture.path), archive=archive) for picture in self.shown)
        return replace(self, shown=tuple(pictures))

    def plus(self, other: Pictures) -> Pictures:
        """Both together."""
        return Pictures(
            shown=(*self.shown, *other.shown),
            left_out=self.left_out + other.left_out,
            too_large=self.too_large + other.too_large,
            unread=(*self.unread, *other.unread),
        )


NO_PICTURES: Final = Pictures()


class PictureMaker:
    """Makes the pictures of a page, as many as it has room for."""

    def __init__(self, *, small: bool = False, images: int = _MAX_IMAGES) -> None:
        """`small`: for a page with many archives; `images`: how many are read."""
        self._side = _SMALL if small else _SIDE
        self._room = _MAX_BYTES
        self._images = images

    def pictures(self, plan: Plan, sides: Mapping[str, Callable[[str], OpenArray]]) -> Pictures:
        """Pictures of the images of a plan; a side opens the array at a path, or gives None."""
        pictures = NO_PICTURES
        for image in images_of(plan):
            if self._room <= 0 or self._images <= 0:
                pictures = replace(pictures, left_out=pictures.left_out + 1)
                continue
            self._images -= 1
            pictures = pictures.plus(self._picture(image, sides))
        return pictures

    def _picture(self, image: Image, sides: Mapping[str, Callable[[str], OpenArray]]) -> Pictures:
        arrays: dict[str, OpenArray] = {}
        unread: list[str] = []
        for side, opened in sides.items():
            try:
                if (array := opened(image.path)) is not None:
                    arrays[side] = array
            except Exception as error:  # noqa: BLE001 - a page is made whatever an archive holds
                unread.append(_why(error))
        selection = _selection(image, list(arrays.values()), self._side)
        if arrays and selection is None:
            return Pictures(too_large=1)
        values: dict[str, Values] = {}
        for side, array in arrays.items():
            try:
                values[side] = _plane(image, array, selection)
            except Exception as error:  # noqa: BLE001
                unread.append(_why(error))
        if not values:
            return Pictures(unread=tuple(unread[:1]))
        first = next(iter(values.values()))
        labels = image.labels if image.labels is not None else _in_patches(first)
        limits = _all_limits(image, first)
        urls = {
            side: _url(_pixels(image, plane, labels=labels, limits=limits)) for side, plane in values.items()
        }
        size = sum(map(len, urls.values()))
        if size > self._room:
            self._room = 0
            return Pictures(left_out=1)
        self._room -= size
        height, width = first.shape[:2]
        picture = Picture(
            path=image.path,
            image=image,
            about=_about(image, selection, labels=labels),
            width=width,
            height=height,
            sides=tuple(urls.items()),
        )
        return Pictures(shown=(picture,), unread=tuple(unread))


def _selection(image: Image, arrays: Sequence[OpenArray], side: int) -> tuple[int | slice, ...] | None:
    """One selection for all sides that is small enough for each of them."""
    forms = [(_unit(array), array.dtype.itemsize) for array in arrays if array.shape == image.shape]
    for unit, itemsize in forms:
        selection = image.selection(unit, itemsize, side)
        if selection is not None and all(cost(selection, image.shape, *form) <= MAX_READ for form in forms):
            return selection
    return None


def _unit(array: OpenArray) -> tuple[int, ...]:
    """Shape of what zarr-python decodes together: an inner chunk, unless a shard is compressed as a whole."""
    whole = array.shards is not None and len(array.metadata.codecs) > 1
    return tuple(array.shards if whole else array.chunks)


def _plane(image: Image, array: OpenArray, selection: Any) -> Values:
    """Values of shape (rows, columns), or (rows, columns, channels)."""
    import numpy as np

    plane = np.asarray(array[selection])
    # Axes with one index are gone.
    left = [axis for axis, part in enumerate(selection) if isinstance(part, slice)]
    order = [left.index(axis) for axis in (image.rows, image.columns)]
    order += [place for place in range(len(left)) if place not in order]
    return plane.transpose(order)


def _limits(values: Values) -> tuple[float, float]:
    """The 1st and the 99th percentile, or the least and the largest if these are equal."""
    import numpy as np

    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return 0.0, 1.0
    low, high = map(float, np.percentile(finite, (1, 99)))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def _all_limits(image: Image, values: Values) -> list[tuple[float, float]]:
    """The values that are black and white: of each channel that is mixed, or of all values."""
    if not image.mixed:
        return [_limits(values)]
    channels = zip(image.mixed, range(values.shape[-1]), strict=False)
    return [channel.limits or _limits(values[..., number]) for channel, number in channels]


def _pixels(image: Image, values: Values, *, labels: bool, limits: Sequence[tuple[float, float]]) -> Pixels:
    import numpy as np

    if labels:
        return _coloured(values)
    if not image.mixed:
        if image.channels is not None:
            return np.ascontiguousarray(values, dtype=np.uint8)
        return (_scaled(values, *limits[0]) * 255).astype(np.uint8)
    light = np.zeros((*values.shape[:2], 3))
    for number, (channel, ends) in enumerate(zip(image.mixed, limits, strict=False)):
        light += _scaled(values[..., number], *ends)[..., None] * channel.colour
    return np.clip(light, 0, 255).astype(np.uint8)


def _scaled(values: Values, low: float, high: float) -> Values:
    """Brightness from 0 to 1."""
    import numpy as np

    scaled = (values.astype(np.float64) - low) / ((high - low) or 1.0)
    return np.clip(np.nan_to_num(scaled, nan=0.0, posinf=1.0, neginf=0.0), 0, 1)


def _coloured(values: Values) -> Pixels:
    """A colour for each label, the same in every picture; 0 is black."""
    import numpy as np

    mixed = values.astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # golden ratio
    channels = [
        ((mixed >> np.uint64(shift)) & np.uint64(0x7F)).astype(np.uint8) + np.uint8(96)
        for shift in (57, 47, 37)
    ]
    colours = np.stack(channels, axis=-1)
    colours[values == 0] = 0
    return colours


def _in_patches(values: Values) -> bool:
    """Whether most neighbouring pixels are equal although there are several values, as in labels."""
    if values.ndim != 2 or (values == values.flat[0]).all():
        return False
    equal = [(values[1:] == values[:-1]).mean(), (values[:, 1:] == values[:, :-1]).mean()]
    return bool(min(equal) > 0.6)


def _about(image: Image, selection: Any, *, labels: bool) -> str:
    parts = [shape_text(image.shape)]
    if labels:
        parts.append("labels")
    if image.mixed and image.channels is not None:
        mixed, count = selection[image.channels].stop, image.shape[image.channels]
        parts.append(count_text(count, "channel") if mixed == count else f"{mixed} of {count} channels")
    if image.levels > 1:
        parts.append(f"the coarsest of {count_text(image.levels, 'level')} that is large enough")
    spatial = [(selection[axis], image.shape[axis]) for axis in (image.rows, image.columns)]
    if any(part.start > 0 or part.stop < length for part, length in spatial):
        parts.append("the middle of the plane")
    step = max(part.step for part, _ in spatial)
    if step > 1:
        parts.append(f"one pixel of {step} on each axis")
    return ", ".join(parts)


def _url(pixels: Pixels) -> str:
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def _why(error: Exception) -> str:
    return redact_foreign(f"{type(error).__name__}: {error}")[:300]


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A file for pixels of shape (height, width), which are grey, or (height, width, 3)."""
    height, width, *channels = pixels.shape
    rows = pixels.reshape(height, -1)
    filtered = b"".join(b"\0" + row.tobytes() for row in rows)  # 9.2: filter type 0, none
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pictures_of_job(job: Job, maker: PictureMaker, places: Places) -> Pictures:
    """Pictures of the images of an open job, from its source and its result, so far as they can be read."""
    plan = job.plan()
    reading, finished = plan.reading, job.state == "finished"
    options = places.dest_storage_options or places.of_result(in_place=plan.in_place)

    def before() -> Store:
        from ...jobs.ledger.recorded_places import existing
        from ...views.legacy import view_of

        place = existing(job.sources)[0].place
        source = open_storage(
            place, storage_options=places.storage_options, follow_links=reading.follow_links
        )
        return view_of(with_layers(source, job.record.source_through), format=plan.format, reading=reading)

    def after() -> Store:
        result = open_storage(plan.destination, storage_options=options)
        return with_layers(result, job.record.dest_through).zarr_store()

    complete = frozenset(row.path for row in job.nodes("array") if row.state == "done")
    sides = {"before": opener(before), "after": opener(after, complete)}
    if plan.in_place and finished:  # the legacy documents are gone
        del sides["before"]
    if job.state == "undone":
        del sides["after"]
    return maker.pictures(plan, sides)


def opener(opened: Callable[[], Store], paths: Container[str] | None = None) -> Callable[[str], Any]:
    """Opens arrays of a store, which is opened for the first of them; None for one that is not in `paths`."""
    store: list[Store | ZarrstackError] = []

    def array(path: str) -> Any:
        import zarr

        if paths is not None and path not in paths:
            return None
        if not store:
            try:
                store.append(opened())
            except ZarrstackError as error:
                store.append(error)
        if isinstance(store[0], ZarrstackError):
            raise store[0]
        return zarr.open_array(store[0], path=path, mode="r", zarr_format=3)

    return array

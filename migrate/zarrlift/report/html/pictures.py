"""Pictures of the middle planes of images, before and after: what a job read and what it wrote.

The source is read by our view of it, the result by zarr-python alone. A picture is for orientation: it may be
a sample of the pixels, and shows 8 bits of them.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...core.units import bytes_text, count_text, shape_text
from ...jobs.ledger.job_places import existing
from ...storage.open_storage import open_storage
from ...storage.redact import redact_foreign
from ...storage.transformer_stack import with_layers
from ..blocks import Block

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from zarr.abc.store import Store

    from ...jobs.ledger.ledger import Job
    from ...planning.plans import ArrayPlan, Plan
    from ...recipe.options import Places

    Pixels = npt.NDArray[np.uint8]
    OpenArray = Callable[[str], Any]
    """Gives the array at a path, None if it is not to be shown; raises if it cannot be read."""

MIN_SIDE: Final = 64
"""Fewer rows or columns are no image."""
MAX_READ: Final = 32_000_000
"""Maximum number of decoded bytes that are read for a side of an image, about."""
_SIDE: Final = 256
_MAX_BYTES: Final = 3_000_000
"""Of all pictures of a page, which people send by mail."""
_MAX_IMAGES: Final = 100
_LEVEL: Final = re.compile(r"s?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One image, before and after."""

    path: str
    about: str
    sides: tuple[tuple[str, str], ...]
    """(what it shows, the picture as a `data:` URL)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures(Block):
    """The pictures of a page."""

    shown: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    """What is not shown, and why."""


def pictures_of_job(job: Job, places: Places) -> Pictures:
    """Pictures of the images of an open job, from its source and its result, so far as they can be read."""
    plan = job.plan()

    def before() -> Store:
        from ...views.legacy import view_of

        place = existing(job.sources)[0].place
        follow = plan.reading.follow_links
        source = open_storage(place, storage_options=places.storage_options, follow_links=follow)
        layers = job.record.source_through
        return view_of(with_layers(source, layers), format=plan.format, reading=plan.reading)

    def after() -> Store:
        options = places.dest_storage_options or places.of_result(in_place=plan.in_place)
        result = open_storage(plan.destination, storage_options=options)
        return with_layers(result, job.record.dest_through).zarr_store()

    complete = frozenset(row.path for row in job.nodes("array") if row.state == "done")
    sides = {"before": _opener(before), "after": _opener(after, complete)}
    if plan.in_place and job.state == "finished":  # the legacy documents are gone
        del sides["before"]
    if job.state == "undone":
        del sides["after"]
    return pictures(plan, sides)


def _opener(opened: Callable[[], Store], paths: Collection[str] | None = None) -> OpenArray:
    """Opens arrays of a store, which is opened once; None for one that is not in `paths`."""
    store: list[Store | Exception] = []

    def array(path: str) -> Any:
        import zarr

        if paths is not None and path not in paths:
            return None
        if not store:
            try:
                store.append(opened())
            except Exception as error:  # noqa: BLE001 - raised below, for each array
                store.append(error)
        if isinstance(store[0], Exception):
            raise store[0]
        return zarr.open_array(store[0], path=path, mode="r", zarr_format=3)

    return array


def pictures(plan: Plan, sides: Mapping[str, OpenArray]) -> Pictures:
    """Pictures of the images of a plan, as many as a page has room for, of each side that can be read."""
    shown: list[Picture] = []
    errors: list[str] = []
    left_out, room = 0, _MAX_BYTES
    for number, (image, plane) in enumerate(images_of(plan)):
        if number >= _MAX_IMAGES or room <= 0:
            left_out += 1
            continue
        if (picture := _picture(image, plane, sides, errors)) is not None:
            shown.append(picture)
            room -= sum(len(url) for _, url in picture.sides)
    notes = [f"{count_text(left_out, 'further image')} not shown."] if left_out else []
    if errors:
        notes.append(f"{count_text(len(errors), 'picture')} could not be made: {errors[0]}")
    return Pictures(shown=tuple(shown), notes=tuple(notes))


def images_of(plan: Plan) -> Iterator[tuple[ArrayPlan, tuple[int, int]]]:
    """Arrays that are shown, with the axes of their rows and columns.

    These are the last two, or the two before three or four colours of uint8, with at least 64 elements each.
    Of levels, which are siblings with numbers for names, the smallest one stands for all that are larger.
    """
    found = [(array, plane) for array in plan.arrays if (plane := _plane(array)) is not None]
    smallest: dict[str, int] = {}
    for array, _ in found:
        group, size = _levels(array), math.prod(array.source.shape)
        smallest[group] = min(size, smallest.get(group, size))
    for array, plane in found:
        if math.prod(array.source.shape) == smallest[_levels(array)]:
            yield array, plane


def _levels(array: ArrayPlan) -> str:
    """The group of a level, and the path of any other array."""
    parent, _, name = array.path.rpartition("/")
    return f"{parent}/" if _LEVEL.fullmatch(name) else array.path


def _plane(array: ArrayPlan) -> tuple[int, int] | None:
    """The axes of rows and columns, if the array is an image."""
    shape, kind = array.source.shape, array.source.data_type
    numpy = kind.numpy if kind.itemsize else None
    if len(shape) < 2 or numpy is None or numpy.kind not in "biuf" or not all(shape):
        return None
    end = len(shape) - (len(shape) > 2 and shape[-1] in (3, 4) and str(numpy) == "uint8")
    return (end - 2, end - 1) if min(shape[end - 2 : end]) >= MIN_SIDE else None


def _picture(
    image: ArrayPlan, plane: tuple[int, int], sides: Mapping[str, OpenArray], errors: list[str]
) -> Picture | None:
    """A picture of the sides that have the array, None if none has; adds to the `errors` of the others."""
    import numpy as np

    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for side, opened in sides.items():
        with _noted(errors):
            if (array := opened(image.path)) is not None:
                arrays[side] = array
    if not arrays:
        return None
    unit = [max(lengths) for lengths in zip(*map(_unit, arrays.values()), strict=True)]
    itemsize = max(array.dtype.itemsize for array in arrays.values())
    with _noted(errors):
        selection = middle_plane(image.source.shape, plane, unit, itemsize)
        for side, array in arrays.items():
            with _noted(errors):
                values[side] = np.asarray(array[selection])
    if not values:
        return None
    limits = _limits(next(iter(values.values())))
    urls = ((side, _url(each, limits)) for side, each in values.items())
    return Picture(path=image.path, about=shape_text(image.source.shape), sides=tuple(urls))


@contextmanager
def _noted(errors: list[str]) -> Iterator[None]:
    """Note an error instead of raising it: a page is made whatever an archive holds."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        errors.append(redact_foreign(f"{type(error).__name__}: {error}")[:300])


def _unit(array: Any) -> tuple[int, ...]:
    """Shape of what zarr-python decodes together: an inner chunk, unless a shard is compressed as a whole."""
    whole = array.shards is not None and len(array.metadata.codecs) > 1
    return tuple(array.shards if whole else array.chunks)


def middle_plane(
    shape: tuple[int, ...], plane: tuple[int, int], unit: list[int], itemsize: int
) -> tuple[int | slice, ...]:
    """At most 256 rows and columns of the middle plane, from as many chunks in its middle as may be read.

    ValueError if one chunk is too large.
    """
    selection: list[int | slice] = [length // 2 for length in shape]
    allowed = MAX_READ // (math.prod(unit) * itemsize)
    for axis in range(plane[1] + 1, len(shape)):  # colours
        selection[axis] = slice(0, 3)
        allowed //= -(-3 // unit[axis])
    if not allowed:
        raise ValueError(f"a chunk is larger than {bytes_text(MAX_READ)}")
    for axis in plane:
        count = -(-shape[axis] // unit[axis])
        most = min(count, math.isqrt(allowed) if axis == plane[0] else allowed)
        allowed //= most
        start = (count - most) // 2 * unit[axis]
        stop = min(start + most * unit[axis], shape[axis])
        selection[axis] = slice(start, stop, -(-(stop - start) // _SIDE))
    return tuple(selection)


def _limits(values: Any) -> tuple[float, float]:
    """The values that are black and white: the 1st and 99th percentile, or the extremes."""
    import numpy as np

    if values.ndim == 3:  # colours
        return 0.0, 255.0
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return 0.0, 1.0
    low, high = map(float, np.percentile(finite, (1, 99)))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def _url(values: Any, limits: tuple[float, float]) -> str:
    import numpy as np

    low, high = limits
    scaled = np.nan_to_num((values.astype(np.float64) - low) / ((high - low) or 1.0), posinf=1.0, neginf=0.0)
    file = png(np.rint(np.clip(scaled, 0, 1) * 255).astype(np.uint8))
    return "data:image/png;base64," + base64.b64encode(file).decode()


def png(pixels: Pixels) -> bytes:
    """A file for pixels of shape (height, width), which are grey, or (height, width, 3)."""
    height, width, *channels = pixels.shape
    rows = pixels.reshape(height, -1)
    filtered = b"".join(b"\0" + row.tobytes() for row in rows)  # 9.2: filter type 0, none
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""Which images are shown, how much is read for them, and that pictures show what is there."""

from __future__ import annotations

import base64
import math
import struct
import zlib

import numpy as np
import pytest
import zarr
from tests.support.image_archives import plane, write_images

import zarrlift
from zarrlift.recipe.options import Reading
from zarrlift.report.html.archive_page import pictures
from zarrlift.report.html.images import MAX_READ, Image, cost, images_of
from zarrlift.report.html.pictures import PictureMaker
from zarrlift.report.html.png import png
from zarrlift.storage.open_storage import open_storage


def decoded(file: bytes) -> np.ndarray:
    """The pixels of a file that `png` wrote."""
    width, height, _, kind = struct.unpack(">IIBB", file[16:26])
    start = file.index(b"IDAT")
    (size,) = struct.unpack(">I", file[start - 4 : start])
    channels = 3 if kind == 2 else 1
    rows = np.frombuffer(zlib.decompress(file[start + 4 : start + 4 + size]), np.uint8).reshape(height, -1)
    pixels = rows[:, 1:].reshape(height, width, channels)
    return pixels if channels == 3 else pixels[..., 0]


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_a_file_holds_its_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
    assert np.array_equal(decoded(png(pixels)), pixels)


def test_one_level_of_a_multiscale_stands_for_all_and_labels_are_known(tmp_path):
    found = {image.path: image for image in images_of(zarrlift.plan(write_images(tmp_path / "a")))}
    assert found.keys() == {"image/2", "image/labels/cells/0", "photo"}
    assert (found["image/2"].place, found["image/2"].levels, found["image/2"].labels) == ("image", 3, False)
    assert found["image/labels/cells/0"].labels
    assert found["photo"].channels == 2


@pytest.mark.parametrize(
    ("names", "shape", "axes"),
    [
        (["y", "x", "t"], (100, 200, 5), (0, 1)),
        (["lon", "lat"], (100, 200), (1, 0)),
        (["time", "cell", "gene"], (5, 100, 200), (1, 2)),
        (["y", "x"], (63, 200), None),
    ],
)
def test_spatial_axes_are_those_with_such_names_else_the_last_two(names, shape, axes, tmp_path):
    attributes = {"_ARRAY_DIMENSIONS": names}
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=shape, chunks=shape, dtype="<u2", attributes=attributes)
    found = [(image.rows, image.columns) for image in images_of(zarrlift.plan(tmp_path / "a"))]
    assert found == ([] if axes is None else [axes])


@pytest.mark.parametrize(
    "chunks", [(1, 64, 64), (1, 4096, 4096), (64, 256, 256), (1, 1, 65536), (8, 1000, 1000)]
)
@pytest.mark.parametrize("shape", [(100, 65536, 65536), (3, 300, 300), (1, 64, 100_000)])
def test_no_selection_reads_more_than_it_may(chunks, shape):
    image = Image(path="a", place="a", shape=shape, rows=1, columns=2, channels=None, labels=None)
    selection = image.selection(chunks, 2, 256)
    if selection is None:
        assert math.prod(chunks) * 2 > MAX_READ
        return
    assert cost(selection, shape, chunks, 2) <= MAX_READ
    sizes = [len(range(*part.indices(length))) for part, length in zip(selection[1:], shape[1:], strict=True)]
    assert all(0 < size <= 256 for size in sizes)


def test_a_picture_is_the_middle_plane(tmp_path):
    values = np.zeros((5, 96, 128), "<u2")
    values[2] = plane()
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=values.shape, chunks=(2, 50, 50), dtype="<u2")[...] = values
    storage = open_storage(tmp_path / "a")
    (picture,) = pictures(storage, None, Reading(), PictureMaker()).shown
    pixels = decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))
    low, high = np.percentile(plane(), (1, 99))
    expected = (np.clip((plane() - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(pixels, expected)


def test_equal_labels_have_equal_colours_and_zero_is_black(tmp_path):
    values = (plane() // 100).astype("<u8")
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("segmentation", shape=values.shape, chunks=(50, 50), dtype="<u8")[...] = values
    (picture,) = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker()).shown
    pixels = decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))
    colours = {
        int(label): {tuple(colour) for colour in pixels[values == label].tolist()}
        for label in np.unique(values)
    }
    assert colours[0] == {(0, 0, 0)}
    assert all(len(of_label) == 1 for of_label in colours.values())
    assert len(set().union(*colours.values())) > len(colours) // 2


def test_damaged_images_and_those_without_room_are_counted(tmp_path):
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    for name in "abc":
        root.create_array(name, shape=(96, 128), chunks=(96, 128), dtype="<u2")[...] = plane()
    (tmp_path / "a/a/0.0").write_bytes(b"damaged")
    found = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker(images=2))
    assert [picture.path for picture in found.shown] == ["b"]
    assert (found.left_out, len(found.unread), len(found.notes)) == (1, 1, 2)

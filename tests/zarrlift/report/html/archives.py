"""Archives with images, and one whose names and attributes are hostile to a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Zlib

HOSTILE = (
    "<script>window.hacked=1</script>",
    "\"'><img src=x onerror=window.hacked=1>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "javascript:window.hacked=1",
    "</style><script>window.hacked=1</script>",
    "\x1b[31mred\x1b[0m\x07",
    "\u202eesrever\u202c \u200f\u2066",
    "https://example.invalid/" + "long" * 60,
    "&lt;b&gt; &amp;amp; <!-- -->",
)


def plane(height: int = 96, width: int = 128) -> np.ndarray:
    """Values that differ along each axis."""
    rows, columns = np.mgrid[0:height, 0:width]
    return (rows * 7 + columns * 3).astype("<u2")


def write_images(path: Path) -> Path:
    """A multiscale with labels, colours, and an array that is not an image."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    names = [{"name": name, "type": "space"} for name in "zyx"]
    scale = [{"type": "scale", "scale": [1, 1, 1]}]
    levels = [{"path": name, "coordinateTransformations": scale} for name in ("0", "1", "2")]
    image = root.create_group(
        "image", attributes={"multiscales": [{"version": "0.4", "axes": names, "datasets": levels}]}
    )
    for name, step in (("0", 1), ("1", 2), ("2", 4)):
        values = np.stack([plane(256, 256)[::step, ::step]] * 3)
        _array(image, name, values, (1, 64, 64))
    labels = image.create_group("labels", attributes={"labels": ["cells"]})
    label = {
        "image-label": {"version": "0.4"},
        "multiscales": [{"version": "0.4", "axes": names, "datasets": levels[:1]}],
    }
    cells = labels.create_group("cells", attributes=label)
    _array(cells, "0", np.stack([plane(128, 128) // 300] * 3).astype("<u4"), (1, 64, 64))
    _array(root, "photo", np.stack([plane(80, 90).astype("u1")] * 3, axis=-1), (40, 45, 3))
    _array(root, "table", np.arange(500), (50,))
    return path


def write_hostile(path: Path) -> Path:
    """Names, attributes, units and damaged parts that hold all of `HOSTILE`."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2, attributes={text: text for text in HOSTILE})
    for number, text in enumerate(HOSTILE):
        name = text.replace("/", "_")[:200]
        group = root.create_group(name, attributes={"title": text, "nested": [{text: [text]}]})
        dims = [f"{text}-{axis}" for axis in "yx"]
        array = _array(
            group, f"{number}{name}", plane(), (48, 64), attributes={"_ARRAY_DIMENSIONS": dims, "units": text}
        )
        if number == 0:
            document = path / array.path / ".zarray"
            document.write_text(json.dumps({**json.loads(document.read_text()), "dtype": text}))
        if number == 1:
            (path / array.path / "0.0").write_bytes(b"damaged")
    return path


def _array(
    group: zarr.Group, name: str, values: np.ndarray, chunks: tuple[int, ...], **more: object
) -> zarr.Array:
    array = group.create_array(
        name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=Zlib(1), **more
    )
    array[...] = values
    return array

"""`zarrlift demo`: small archives to play with, as of xarray, Fiji and ome-zarr-py, and what to try."""

from __future__ import annotations

import gzip
import json
import struct
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .exit_codes import DONE
from .options import Given, usage
from .session import Answer

if TYPE_CHECKING:
    from ..report import blocks as b

_MISSING: Final = -32768
"""Fill value of the temperatures, on land."""
_BLOCK: Final = 64
"""Length of the blocks of an N5 dataset on each axis."""
_Array = np.ndarray[Any, Any]


def demo(given: Given) -> Answer:
    """Write small archives of Zarr v2, N5 and OME-NGFF, and say what to try with them."""
    root = Path(given.folder).expanduser()
    if root.exists():
        raise usage(f"it exists already: {root}", advice="Give another name: zarrlift demo DIR")
    ocean, cells, spots = root / "ocean.zarr", root / "cells.n5", root / "spots.zarr"
    write_ocean(ocean)
    write_cells(cells)
    write_spots(spots)
    written = {"zarr2": str(ocean), "n5": str(cells), "ome": str(spots)}
    return Answer(code=DONE, text=lambda: _blocks(root), data=lambda: {"written": written})


def _blocks(root: Path) -> Iterator[b.Block]:
    from ..core.problems import command
    from ..core.units import safe
    from ..report import blocks as b

    place = safe(str(root))
    archives = (
        f"{place}/ocean.zarr  a year of sea surface temperatures, Zarr v2",
        f"{place}/cells.n5    an image in two resolutions, N5",
        f"{place}/spots.zarr  the image in two colours, OME-NGFF 0.4 on Zarr v2",
    )
    yield b.Lines(archives, indent=0, tone="title")
    yield b.Section()
    yield b.Text("Try:")
    ocean, cells = f"{root}/ocean.zarr", f"{root}/cells.n5"
    result, image = f"{root}/ocean-v3.zarr", f"{root}/cells.zarr"
    commands = (
        ("inspect", ocean),
        ("migrate", ocean, result, "--dry-run"),
        ("migrate", ocean, result),
        ("verify", ocean, result, "--full"),
        ("migrate", cells, image, "--set", "multiscale=ome", "--codecs", "zstd:3"),
        ("migrate", ocean, "--in-place"),
        ("undo", ocean),
    )
    yield b.Lines([command(*words) for words in commands])


def write_ocean(path: Path) -> None:
    """A year of sea temperatures as a Zarr v2 group, with named dimensions; some chunks are missing."""
    import zarr
    from numcodecs import Blosc, Zlib

    lat, lon, month = np.linspace(-89, 89, 90), np.linspace(0, 358, 180), np.arange(12)
    warmth = 28 * np.cos(np.radians(lat))[None, :, None] - 2
    season = 6 * np.sin(np.radians(30.0 * month))[:, None, None] * np.sin(np.radians(lat))[None, :, None]
    current = np.cos(np.radians(3 * lon))[None, None, :] * np.sin(np.radians(4 * lat))[None, :, None]
    values = np.round((warmth - season + current) * 100).astype("<i2")
    values[:, :45, :90] = _MISSING  # a continent, which fills whole chunks
    arrays: dict[str, tuple[_Array, tuple[int, ...], Any, list[str], dict[str, Any]]] = {
        "lat": (lat, (90,), Blosc(), ["lat"], {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": (lon, (180,), Blosc(), ["lon"], {"units": "degrees_east", "standard_name": "longitude"}),
        "time": (30 * month, (12,), None, ["time"], {"units": "days since 2020-01-15"}),
        "sst": (
            values,
            (4, 45, 90),
            Zlib(5),
            ["time", "lat", "lon"],
            {
                "long_name": "sea surface temperature",
                "units": "degC",
                "scale_factor": 0.01,
                "add_offset": 0.0,
            },
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata is no part of Zarr v3, this is v2
        group = zarr.create_group(path, zarr_format=2, attributes={"title": "A year of the sea, made up"})
        for name, (data, chunks, compressor, dimensions, attributes) in arrays.items():
            array = group.create_array(
                name,
                shape=data.shape,
                chunks=chunks,
                dtype=data.dtype,
                compressors=compressor,
                fill_value=_MISSING if name == "sst" else None,
                attributes={"_ARRAY_DIMENSIONS": dimensions, **attributes},
            )
            array[...] = data
        zarr.consolidate_metadata(path, zarr_format=2)


@cache
def _cells() -> list[_Array]:
    """A microscope's image of bright spots, and the same with voxels of twice the size."""
    image = np.zeros((32, 192, 256))
    for number in range(40):
        spread = 2 * (5.0 + number % 7) ** 2
        places = zip(image.shape, (7, 53, 97), (3, 1, 1), strict=True)  # voxels are longer along z
        z, y, x = (
            np.exp(-(((np.arange(length) - (step * number) % length) * size) ** 2) / spread)
            for length, step, size in places
        )
        image += (800 + 40 * number) * z[:, None, None] * y[:, None] * x
    return [image, image.reshape(16, 2, 96, 2, 128, 2).mean(axis=(1, 3, 5))]


def write_cells(path: Path) -> None:
    """An image in two resolutions as an N5 container, with the attributes of n5-viewer."""
    levels = _cells()
    scales = [[1, 1, 1], [2, 2, 2]]
    _describe(path, {"n5": "2.5.1"})
    voxel = {"unit": "um", "dimensions": [0.5, 0.5, 1.5]}
    _describe(path / "cells" / "c0", {"scales": scales, "pixelResolution": voxel})
    for level, (data, factors) in enumerate(zip(levels, scales, strict=True)):
        _write_dataset(
            path / "cells" / "c0" / f"s{level}", data.astype(">u2"), {"downsamplingFactors": factors}
        )


def write_spots(path: Path) -> None:
    """The image in two colours as OME-NGFF 0.4 on Zarr v2, as ome-zarr-py and bioformats2raw write it."""
    import zarr
    from numcodecs import Zstd

    axes = [{"name": "c", "type": "channel"}, *({"name": name, "type": "space"} for name in "zyx")]
    scales = [[1.0, 1.5, 0.5, 0.5], [1.0, 3.0, 1.0, 1.0]]
    datasets = [
        {"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": scale}]}
        for level, scale in enumerate(scales)
    ]
    image = {"version": "0.4", "name": "spots", "axes": axes, "datasets": datasets}
    group = zarr.create_group(path, zarr_format=2, attributes={"multiscales": [image]})
    for level, data in enumerate(_cells()):
        array = group.create_array(
            str(level),
            shape=(2, *data.shape),
            chunks=(1, 16, 96, 128),
            dtype="<u2",
            compressors=Zstd(3),
            fill_value=0,
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )
        array[...] = np.stack([data, data[::-1]])


def _write_dataset(path: Path, data: _Array, attributes: dict[str, Any]) -> None:
    """An N5 dataset of big-endian uint16 with gzip, its axes reversed on disk; blocks at an edge are cut.

    https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification
    """
    members = {
        "dimensions": list(data.shape[::-1]),
        "blockSize": [_BLOCK] * data.ndim,
        "dataType": "uint16",
        "compression": {"type": "gzip", "level": -1, "useZlib": False},
    }
    _describe(path, {**members, **attributes})
    for position in np.ndindex(*(-(-length // _BLOCK) for length in data.shape)):
        part = data[tuple(slice(_BLOCK * at, _BLOCK * (at + 1)) for at in position)]
        header = struct.pack(f">HH{data.ndim}I", 0, data.ndim, *part.shape[::-1])
        file = path.joinpath(*map(str, position[::-1]))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(header + gzip.compress(part.tobytes(), mtime=0))


def _describe(path: Path, attributes: dict[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "attributes.json").write_text(json.dumps(attributes))

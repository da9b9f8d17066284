"""Writes the sources of `peers` with other people's writers, in a process of its own.

python peers_sources.py DIRECTORY SIZE NAME...

NAME is one of SOURCES; SIZE is `full`, or `small` for trying whether everything runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorstore
import zarr
from main_job_sources import microscopy, write_large, write_many, write_tiny
from numcodecs import Blosc, Zlib, Zstd


def write_n5(path: Path, shape: tuple[int, ...] = (500, 500, 1000)) -> None:
    """500 MB of uint16 in 64^3 gzip blocks by tensorstore, which pads the edges (`n5.py` has cut ones).

    In a container, without which z5py opens no dataset.
    """
    path.parent.mkdir()
    (path.parent / "attributes.json").write_text('{"n5": "2.5.1"}')
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": str(path)},
        "metadata": {
            "dimensions": list(shape),
            "blockSize": [64, 64, 64],
            "dataType": "uint16",
            "compression": {"type": "gzip", "level": 6},
        },
        "create": True,
    }
    array = tensorstore.open(spec).result()
    rng = np.random.default_rng(3)
    for start in range(0, shape[0], 64):
        part = microscopy((min(64, shape[0] - start), *shape[1:]), rng)
        array[start : start + part.shape[0]].write(part).result()


def write_float(path: Path, shape: tuple[int, ...] = (256, 512, 1024)) -> None:
    """512 MiB of big-endian float32 in F order, zlib level 1."""
    array = zarr.create_array(
        str(path),
        shape=shape,
        chunks=(64, 128, 128),
        dtype=">f4",
        order="F",
        zarr_format=2,
        compressors=Zlib(1),
    )
    rng = np.random.default_rng(4)
    for start in range(0, shape[0], 64):
        array[start : start + 64] = microscopy((64, *shape[1:]), rng).astype("f4") / 8


def write_planes(path: Path, shape: tuple[int, ...] = (2048, 512, 512)) -> None:
    """1 GiB of uint16 planes of 512 x 512, zstd: what rechunking to cubes has to turn over."""
    array = zarr.create_array(
        str(path),
        shape=shape,
        chunks=(1, *shape[1:]),
        dtype="<u2",
        zarr_format=2,
        compressors=Zstd(3),
    )
    rng = np.random.default_rng(5)
    for start in range(0, shape[0], 64):
        array[start : start + 64] = microscopy((64, *shape[1:]), rng)


def write_deep(path: Path) -> None:
    """2 GiB of the same, for memory limits below and above what it takes."""
    write_planes(path, (4096, 512, 512))


def write_sparse(path: Path, present: int = 10_000) -> None:
    """10^9 chunks of 64^3 uint16 in one array, of which `present` are there."""
    path.mkdir()
    packed = Blosc("lz4", 5, 1)
    document = {
        "zarr_format": 2,
        "shape": [64_000] * 3,
        "chunks": [64] * 3,
        "dtype": "<u2",
        "order": "C",
        "fill_value": 0,
        "filters": None,
        "compressor": packed.get_config(),
        "dimension_separator": "/",
    }
    (path / ".zarray").write_text(json.dumps(document))
    chunk = packed.encode(np.arange(64**3, dtype="<u2"))
    # Numbers apart by a prime: everywhere in the grid, and never the same one twice.
    for number in range(present):
        place = number * 99_991 % 1000**3
        file = path / str(place // 1000**2) / str(place // 1000 % 1000) / str(place % 1000)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(chunk)


def write_absent(path: Path) -> None:
    """The same array with its metadata alone."""
    write_sparse(path, 0)


SOURCES: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "large.zarr": (
        lambda path: write_large(path, (1024, 512, 1024)),
        lambda path: write_large(path, (128, 128, 192)),
    ),
    "tiny.zarr": (write_tiny, lambda path: write_tiny(path, (4, 8, 9))),
    "many.zarr": (write_many, lambda path: write_many(path, 2)),
    "container/blocks.n5": (write_n5, lambda path: write_n5(path, (100, 70, 130))),
    "float.zarr": (write_float, lambda path: write_float(path, (128, 128, 200))),
    "planes.zarr": (write_planes, lambda path: write_planes(path, (100, 128, 96))),
    "deep.zarr": (write_deep, lambda path: write_planes(path, (300, 128, 96))),
    "sparse.zarr": (write_sparse, lambda path: write_sparse(path, 100)),
    "absent.zarr": (write_absent, write_absent),
}
"""Writers by name: of the full source, and of a small one."""


def main() -> None:
    """Write those that were asked for."""
    base, size, *names = sys.argv[1:]
    for name in names:
        full, small = SOURCES[name]
        (small if size == "small" else full)(Path(base, name))


if __name__ == "__main__":
    main()

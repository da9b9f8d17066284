"""Writes the sources of `peers` with other people's writers, in a process of its own.

python peers_sources.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorstore
import zarr
from main_job_sources import microscopy, write_large, write_many, write_tiny
from numcodecs import Zlib


def write_n5(path: Path) -> None:
    """500 MB of uint16 in 64^3 gzip blocks by tensorstore, which pads the edges (`n5.py` has cut ones)."""
    shape = (500, 500, 1000)
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


def write_float(path: Path) -> None:
    """512 MiB of big-endian float32 in F order, zlib level 1."""
    shape = (256, 512, 1024)
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


def write_planes(path: Path) -> None:
    """512 MiB of uint16 planes of 512 x 512, zstd: what rechunking to cubes has to turn over."""
    from numcodecs import Zstd

    shape = (1024, 512, 512)
    array = zarr.create_array(
        str(path),
        shape=shape,
        chunks=(1, 512, 512),
        dtype="<u2",
        zarr_format=2,
        compressors=Zstd(3),
    )
    rng = np.random.default_rng(5)
    for start in range(0, shape[0], 64):
        array[start : start + 64] = microscopy((64, *shape[1:]), rng)


def main() -> None:
    """Write them all."""
    base = Path(sys.argv[1])
    write_large(base / "large.zarr")
    write_tiny(base / "tiny.zarr")
    write_many(base / "many.zarr")
    write_n5(base / "blocks.n5")
    write_float(base / "float.zarr")
    write_planes(base / "planes.zarr")


if __name__ == "__main__":
    main()

"""Writes the sources of `main_job`: a process of its own, so that the one that measures stays small.

python main_job_sources.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Blosc


def microscopy(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """uint16 that compresses as camera images do: a smooth scene and a few bits of noise."""
    axes = np.ogrid[tuple(slice(0, n) for n in shape)]
    scene = sum(np.sin(axis / 17.0) for axis in axes)
    return (scene * 500 + 2000).astype("<u2") + rng.integers(0, 32, shape, dtype="<u2")


def write_large(path: Path, shape: tuple[int, ...] = (512, 512, 1024)) -> None:
    """512 MiB of uint16 in 64^3 blosc chunks."""
    rng = np.random.default_rng(1)
    array = zarr.create_array(
        str(path),
        shape=shape,
        chunks=(64, 64, 64),
        dtype="<u2",
        zarr_format=2,
        compressors=Blosc("lz4", 5, 1),
    )
    for start in range(0, shape[0], 64):
        array[start : start + 64] = microscopy((64, *shape[1:]), rng)


def write_tiny(path: Path, grid: tuple[int, int, int] = (28, 28, 26)) -> None:
    """20,384 chunks of some 4 KB, in a grid of 28 x 28 x 26."""
    rng = np.random.default_rng(2)
    array = zarr.create_array(
        str(path),
        shape=(grid[0] * 8, grid[1] * 16, grid[2] * 16),
        chunks=(8, 16, 16),
        dtype="<u2",
        zarr_format=2,
        compressors=Blosc("lz4", 5, 1),
    )
    array[:8, :16, :16] = rng.integers(0, 65536, (8, 16, 16), dtype="<u2")
    chunk = (path / "0.0.0").read_bytes()
    for position in np.ndindex(grid):
        (path / ".".join(map(str, position))).write_bytes(chunk)


def write_many(path: Path, groups: int = 200) -> None:
    """2,000 arrays in 200 groups."""
    root = zarr.create_group(str(path), zarr_format=2)
    for number in range(groups):
        group = root.create_group(f"group{number:03}", attributes={"number": number})
        for name in range(10):
            array = group.create_array(f"array{name}", shape=(10, 10), chunks=(5, 5), dtype="<f4")
            array.attrs["units"] = "m"
    some = root["group000/array0"]
    assert isinstance(some, zarr.Array)
    some[...] = 1


if __name__ == "__main__":
    base = Path(sys.argv[1])
    write_large(base / "large.zarr")
    write_tiny(base / "tiny.zarr")
    write_many(base / "many.zarr")

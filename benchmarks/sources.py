"""Writes the sources of the workloads, in a process of its own: `sources.py FOLDER SIZE NAME...`.

NAME is one of SOURCES; SIZE is `full`, or `small` for trying whether everything runs. What the process that
measures holds in memory would count as that of each command.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import Blosc, Zlib, Zstd


def microscopy(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """uint16 that compresses as camera images do: a smooth scene and a few bits of noise."""
    axes = np.ogrid[tuple(slice(0, n) for n in shape)]
    scene = sum(np.sin(axis / 17.0) for axis in axes)
    return (scene * 500 + 2000).astype("<u2") + rng.integers(0, 32, shape, dtype="<u2")


def created(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], packed: Any, **more: Any) -> Any:
    """An array of Zarr v2."""
    given = {"dtype": "<u2", **more}
    return zarr.create_array(path, shape=shape, chunks=chunks, compressors=packed, zarr_format=2, **given)


def filled(array: Any, seed: int, scale: int = 1) -> None:
    """Write 64 planes at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, array.shape[0], 64):
        length = min(64, array.shape[0] - start)
        values = microscopy((length, *array.shape[1:]), rng)
        array[start : start + length] = values if scale == 1 else values.astype("f4") / scale


def write_large(path: Path, shape: tuple[int, ...]) -> None:
    """1 GiB of uint16 in 64^3 blosc chunks."""
    filled(created(path, shape, (64, 64, 64), Blosc("lz4", 5, 1)), 1)


def write_float(path: Path, shape: tuple[int, ...]) -> None:
    """537 MB of float32 that suits nobody: zlib, big-endian, F order."""
    filled(created(path, shape, (64, 128, 128), Zlib(1), dtype=">f4", order="F"), 4, scale=8)


def write_planes(path: Path, shape: tuple[int, ...]) -> None:
    """1 GiB, or twice as much, of uint16 planes, zstd: what rechunking to cubes has to turn over."""
    filled(created(path, shape, (1, *shape[1:]), Zstd(3)), 5)


def write_store(path: Path, shape: tuple[int, ...]) -> None:
    """1,000 chunks of 32^3 for an object store."""
    filled(created(path / "a", shape, (32, 32, 32), Blosc("lz4", 5, 1)), 5)


def write_tiny(path: Path, grid: tuple[int, ...]) -> None:
    """20,384 or 216,000 chunks of 4 KB, which are equal."""
    rng = np.random.default_rng(2)
    shape = (grid[0] * 8, grid[1] * 16, grid[2] * 16)
    array = created(path, shape, (8, 16, 16), Blosc("lz4", 5, 1))
    array[:8, :16, :16] = rng.integers(0, 65536, (8, 16, 16), dtype="<u2")
    chunk = (path / "0.0.0").read_bytes()
    for position in np.ndindex(grid):
        (path / ".".join(map(str, position))).write_bytes(chunk)


def write_updated(path: Path, grid: tuple[int, ...]) -> None:
    """100,000 chunks of 16 KB; as many different ones as there are in a row."""
    side = grid[0]
    array = created(path / "a", (side * 64, side * 64), (64, 64), Zlib(1), dtype="<i4")
    array[:64] = np.random.default_rng(0).integers(0, 1 << 10, (64, 64 * side))
    row = [(path / f"a/0.{number}").read_bytes() for number in range(side)]
    for first, second in product(range(1, side), range(side)):
        (path / f"a/{first}.{second}").write_bytes(row[(first + second) % side])


def write_sparse(path: Path, present: tuple[int, ...]) -> None:
    """10^9 chunks of 64^3 uint16 in one array, of which some exist."""
    packed = Blosc("lz4", 5, 1)
    keys = {"name": "v2", "separator": "/"}
    created(path, (64_000,) * 3, (64,) * 3, packed, chunk_key_encoding=keys)
    chunk = packed.encode(np.arange(64**3, dtype="<u2"))
    # Numbers apart by a prime: everywhere in the grid, and never the same one twice.
    for number in range(*present):
        place = number * 99_991 % 1000**3
        file = path / str(place // 1000**2) / str(place // 1000 % 1000) / str(place % 1000)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(chunk)


def write_many(path: Path, groups: tuple[int, ...]) -> None:
    """2,000 arrays in 200 groups."""
    root = zarr.create_group(path, zarr_format=2)
    for number in range(*groups):
        group = root.create_group(f"group{number:03}", attributes={"number": number})
        for name in range(10):
            array = group.create_array(f"array{name}", shape=(10, 10), chunks=(5, 5), dtype="<f4")
            array.attrs["units"] = "m"
    root["group000/array0"][...] = 1


def write_n5(path: Path, shape: tuple[int, ...], *, cut: bool = True) -> None:
    """500 MB of uint16 in gzip blocks of 64^3, in a container, without which z5py opens no dataset.

    Blocks at the edges are cut to the array, as Java writes them, or whole, as tensorstore does.
    """
    path.mkdir(parents=True)
    (path.parent / "attributes.json").write_text('{"n5": "4.0.0"}')
    document = {"dimensions": shape[::-1], "blockSize": [64] * 3, "dataType": "uint16"}
    document["compression"] = {"type": "gzip", "useZlib": False, "level": -1}
    (path / "attributes.json").write_text(json.dumps(document))
    rng = np.random.default_rng(1)
    for k, start in enumerate(range(0, shape[0], 64)):
        slab = microscopy((min(64, shape[0] - start), *shape[1:]), rng)

        def put(index: tuple[int, int], k: int = k, slab: np.ndarray = slab) -> None:
            j, i = index
            block = slab[:, j * 64 : (j + 1) * 64, i * 64 : (i + 1) * 64]
            if not cut:
                block = np.pad(block, [(0, 64 - length) for length in block.shape])
            file = path / str(i) / str(j) / str(k)
            file.parent.mkdir(parents=True, exist_ok=True)
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # 6 is what Java's -1 means
            data = packer.compress(block.astype(">u2").tobytes()) + packer.flush()
            file.write_bytes(struct.pack(">HH3I", 0, 3, *block.shape[::-1]) + data)

        with ThreadPoolExecutor() as pool:
            list(pool.map(put, product(*(range(-(-n // 64)) for n in shape[1:]))))


Shape = tuple[int, ...]
SOURCES: dict[str, tuple[Callable[[Path, Shape], None], Shape, Shape]] = {
    "large.zarr": (write_large, (1024, 512, 1024), (128, 128, 192)),
    "float.zarr": (write_float, (256, 512, 1024), (128, 128, 200)),
    "planes.zarr": (write_planes, (2048, 512, 512), (100, 128, 96)),
    "deep.zarr": (write_planes, (4096, 512, 512), (300, 128, 96)),
    "container/blocks.n5": (partial(write_n5, cut=False), (1000, 500, 500), (130, 70, 100)),
    "container/cut.n5": (write_n5, (625, 650, 660), (130, 70, 100)),
    "store.zarr": (write_store, (320, 320, 320), (64, 64, 64)),
    "tiny.zarr": (write_tiny, (28, 28, 26), (4, 8, 9)),
    "many_tiny.zarr": (write_tiny, (60, 60, 60), (5, 8, 9)),
    "updated.zarr": (write_updated, (316, 316), (20, 20)),
    "sparse.zarr": (write_sparse, (10_000,), (100,)),
    "absent.zarr": (write_sparse, (0,), (0,)),
    "many.zarr": (write_many, (200,), (2,)),
}
"""Writers by name, and for a full and a small source, lengths or numbers of chunks or groups."""


if __name__ == "__main__":
    folder, size, *names = sys.argv[1:]
    for name in names:
        writer, full, small = SOURCES[name]
        writer(Path(folder, name), small if size == "small" else full)

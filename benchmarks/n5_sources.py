"""Writes the source of `n5`: a process of its own, so that the one that measures stays small.

python n5_sources.py DIRECTORY

An N5 dataset as Java writes it, (x, y, z) = (660, 650, 625) uint16 in blocks of 64^3, gzip with its
default level, and edge blocks cut to the array: 1,210 blocks, of which 310 are cut.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from main_job_sources import microscopy

SHAPE = (625, 650, 660)
"""As C-ordered arrays have it, (z, y, x)."""
BLOCK = 64


def gzipped(data: bytes) -> bytes:
    """Level 6, which is what Java's -1 means."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def write(path: Path) -> None:
    """The container and its one dataset, `volume`."""
    place = path / "volume"
    place.mkdir(parents=True)
    (path / "attributes.json").write_text('{"n5": "4.0.0"}')
    document = {
        "dimensions": list(SHAPE[::-1]),
        "blockSize": [BLOCK] * 3,
        "dataType": "uint16",
        "compression": {"type": "gzip", "useZlib": False, "level": -1},
    }
    (place / "attributes.json").write_text(json.dumps(document))
    rng = np.random.default_rng(1)
    for k in range(-(-SHAPE[0] // BLOCK)):
        slab = microscopy((min(BLOCK, SHAPE[0] - k * BLOCK), *SHAPE[1:]), rng)

        def put(index: tuple[int, int], k: int = k, slab: np.ndarray = slab) -> None:
            j, i = index
            block = slab[:, j * BLOCK : (j + 1) * BLOCK, i * BLOCK : (i + 1) * BLOCK]
            file = place / str(i) / str(j) / str(k)
            file.parent.mkdir(parents=True, exist_ok=True)
            header = struct.pack(">HH3I", 0, 3, *block.shape[::-1])
            file.write_bytes(header + gzipped(block.astype(">u2").tobytes()))

        with ThreadPoolExecutor() as pool:
            list(pool.map(put, product(*(range(-(-n // BLOCK)) for n in SHAPE[1:]))))


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "old.n5")

"""The peers of `n5`, each run as a process of its own: `n5_peers.py WHAT SOURCE DESTINATION`.

- `tensorstore`: its n5 driver to its zarr3 driver, same blocks, gzip kept, in one `write`.
- `z5py`: to its Zarr v3, block by block along the first axis, with two threads.
- `edges`: no copy, but the pure work on edge blocks: those that are cut are unpacked, filled up and packed
  again, from memory to memory, by two threads; DESTINATION gets the seconds it took.
"""

from __future__ import annotations

import sys
from pathlib import Path

BLOCK = 64


def by_tensorstore(source: str, destination: str) -> None:
    """Axes as N5 has them on one side, reversed on the other."""
    import tensorstore as ts

    old = ts.open({"driver": "n5", "kvstore": {"driver": "file", "path": f"{source}/volume/"}}).result()
    metadata = {
        "shape": list(old.shape[::-1]),
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [BLOCK] * 3}},
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "gzip", "configuration": {"level": 6}},
        ],
    }
    place = {"driver": "file", "path": f"{destination}/volume/"}
    new = ts.open({"driver": "zarr3", "kvstore": place, "metadata": metadata}, create=True).result()
    new.write(old.T).result()


def by_z5py(source: str, destination: str) -> None:
    """What its own users write: it has no copy."""
    import z5py

    old = z5py.File(source, "r", use_zarr_format=False)["volume"]
    file = z5py.File(destination, "w", use_zarr_format=True, zarr_format=3)
    options = {"dtype": "uint16", "chunks": (BLOCK,) * 3, "compression": "gzip", "level": 6}
    new = file.create_dataset("volume", shape=old.shape, **options)
    old.n_threads = new.n_threads = 2
    for start in range(0, old.shape[0], BLOCK):
        new[start : start + BLOCK] = old[start : start + BLOCK]


def edges(source: str, destination: str) -> None:
    """With the fastest deflate that zarrlift would use here."""
    import struct
    import time
    import zlib
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    try:
        import deflate
    except ImportError:
        deflate = None
    whole = struct.pack(">HH3I", 0, 3, *(BLOCK,) * 3)
    blocks = []
    for file in sorted(Path(source, "volume").rglob("*")):
        if file.is_file() and file.name != "attributes.json":
            data = file.read_bytes()
            if not data.startswith(whole):
                blocks.append(data)

    def work(data: bytes) -> int:
        shape = struct.unpack(">3I", data[4:16])[::-1]
        if deflate is None:
            raw = zlib.decompress(data[16:], 31)
        else:
            raw = deflate.gzip_decompress(data[16:], originalsize=2 * int(np.prod(shape)))
        cell = np.zeros((BLOCK,) * 3, ">u2")
        cell[tuple(slice(0, n) for n in shape)] = np.frombuffer(raw, ">u2").reshape(shape)
        if deflate is not None:
            return len(deflate.gzip_compress(cell.tobytes(), 6))
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        return len(packer.compress(cell.tobytes()) + packer.flush())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, blocks[:2]))
        started = time.perf_counter()
        list(pool.map(work, blocks))
        seconds = time.perf_counter() - started
    with open(destination, "a") as out:
        out.write(f"{seconds}\n")


if __name__ == "__main__":
    {"tensorstore": by_tensorstore, "z5py": by_z5py, "edges": edges}[sys.argv[1]](*sys.argv[2:])

"""N5 arrays as zarr 2.18 writes and reads them: `n5.py ROOT WISHES`, run in this environment.

ROOT is the folder of an archive that is made, WISHES a JSON list of arrays: path, dtype, shape,
chunks, compressor (a numcodecs configuration or null), seed, boxes ([[start, stop], ...] that are
written, each with random bits), and whether the array is written through N5FSStore. What zarr reads
back lies in ROOT.PATH.npy for each.
"""

import json
import sys
import warnings

import numcodecs
import numpy as np
import zarr

warnings.filterwarnings("ignore")


def values(dtype, shape, rng):
    """Random bits: every NaN, negative zeros, the largest numbers."""
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)


def write(root, wish):
    store = zarr.N5FSStore(root) if wish["fs"] else zarr.N5Store(root)
    compressor = numcodecs.get_codec(wish["compressor"]) if wish["compressor"] else None
    array = zarr.create(
        tuple(wish["shape"]),
        chunks=tuple(wish["chunks"]),
        dtype=wish["dtype"],
        compressor=compressor,
        store=store,
        path=wish["path"],
        fill_value=0,
    )
    rng = np.random.default_rng(wish["seed"])
    for start, stop in wish["boxes"]:
        box = tuple(slice(a, b) for a, b in zip(start, stop, strict=True))
        lengths = [b - a for a, b in zip(start, stop, strict=True)]
        if 0 not in lengths:  # zarr 2.18 fails on writing nothing
            array[box] = values(wish["dtype"], lengths, rng)
    np.save(f"{root}.{wish['path']}.npy", array[...])


if __name__ == "__main__":
    for each in json.loads(sys.argv[2]):
        write(sys.argv[1], each)

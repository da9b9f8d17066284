"""Sharded draft arrays as zarr 2.18 sees them: `shards.py ROOT STEPS`, run in this environment.

ROOT is the folder of an archive, STEPS a JSON list of steps. Prints a JSON list, an answer per step:

    ["create", PATH, SHAPE, CHUNKS, CHUNKS_PER_SHARD, SEPARATOR, COMPRESSED]   null
    ["write", PATH, START, STOP, VALUE]     values VALUE, VALUE + 1, ... into a box; null
    ["delete", PATH, [CHUNK, ...]]          removes chunks by their indexes; null
    ["read", PATH]                          all values, as nested lists
    ["list", PATH]                          the chunk keys, as the transformer names them
"""

import json
import os
import sys
import types
import warnings

os.environ["ZARR_V3_EXPERIMENTAL_API"] = "1"
os.environ["ZARR_V3_SHARDING"] = "1"

# zarr 2.18.7 imports a test module of its own, and with it pytest, to decode any storage transformer.
stub = types.ModuleType("zarr.tests.test_storage_v3")
stub.DummyStorageTransfomer = types.SimpleNamespace(extension_uri=None, valid_types=())
sys.modules[stub.__name__] = stub
warnings.filterwarnings("ignore", "The experimental Zarr V3", FutureWarning)

import numcodecs
import numpy as np
import zarr
from zarr._storage.v3 import DirectoryStoreV3
from zarr._storage.v3_storage_transformers import ShardingStorageTransformer


def step(store, name, path, *rest):
    if name == "create":
        shape, chunks, per_shard, separator, compressed = rest
        zarr.create(
            tuple(shape),
            chunks=tuple(chunks) or True,
            dtype="<i4",
            fill_value=-1,
            path=path,
            store=store,
            compressor=numcodecs.GZip(1) if compressed else None,
            dimension_separator=separator,
            storage_transformers=[ShardingStorageTransformer("indexed", chunks_per_shard=per_shard)],
            zarr_version=3,
        )
        return None
    array = zarr.open_array(store, mode="r+", path=path, zarr_version=3)
    if name == "write":
        start, stop, first = rest
        box = tuple(slice(a, b) for a, b in zip(start, stop))
        shape = [b - a for a, b in zip(start, stop)]
        array[box] = first + np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)
        return None
    if name == "delete":
        for chunk in rest[0]:
            del array.chunk_store[array._chunk_key(tuple(chunk))]
        return None
    if name == "read":
        return np.asarray(array[...]).tolist()
    prefix = "data/root/%s/" % path
    return sorted(key for key in array.chunk_store if key.startswith(prefix))


if __name__ == "__main__":
    place = DirectoryStoreV3(sys.argv[1])
    json.dump([step(place, *each) for each in json.loads(sys.argv[2])], sys.stdout)

"""An archive of the 2022 draft as zarr 2.18 sees it: `draft.py ROOT STEPS`, run in this environment.

ROOT is the folder of an archive, STEPS a JSON list of steps. Prints a JSON list, an answer per step:

    ["tree"]                 every node below the root: {path: "array" or "group"}
    ["read", PATH]           an array: {dtype, shape, chunks, order, fill, attributes, values};
                             values as hexadecimal bytes, in C order and the stored byte order
    ["attributes", PATH]     those of a group
    ["write", PATH, VALUE]   VALUE into every element; null
    ["create", PATH, SHAPE, CHUNKS, DTYPE, ORDER, SEPARATOR, COMPRESSED]   values 0, 1, ...; null
    ["delete", PATH]         a node; null
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


def fill_of(array):
    value = array.fill_value
    return None if value is None else np.asarray(value, array.dtype).tobytes().hex()


def step(store, name, path="", *rest):
    if name == "tree":
        found = {}
        root = zarr.open_group(store, mode="r", zarr_version=3)
        root.visititems(
            lambda path, node: found.update({path: "array" if hasattr(node, "chunks") else "group"})
        )
        return found
    if name == "create":
        shape, chunks, dtype, order, separator, compressed = rest
        array = zarr.create(
            tuple(shape),
            chunks=tuple(chunks) or True,
            dtype=dtype,
            order=order,
            path=path,
            store=store,
            compressor=numcodecs.Zlib(1) if compressed else None,
            dimension_separator=separator,
            zarr_version=3,
        )
        array[...] = np.arange(array.size).reshape(array.shape).astype(dtype)
        return None
    if name == "attributes":
        return zarr.open_group(store, mode="r", path=path, zarr_version=3).attrs.asdict()
    if name == "delete":
        del zarr.open_group(store, mode="r+", zarr_version=3)[path]
        return None
    array = zarr.open_array(store, mode="r" if name == "read" else "r+", path=path, zarr_version=3)
    if name == "write":
        array[...] = np.full(array.shape, rest[0]).astype(array.dtype)
        return None
    return {
        "dtype": array.dtype.descr if array.dtype.names else array.dtype.str,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "order": array.order,
        "fill": fill_of(array),
        "attributes": array.attrs.asdict(),
        "values": np.ascontiguousarray(array[...]).tobytes().hex(),
    }


if __name__ == "__main__":
    place = DirectoryStoreV3(sys.argv[1])
    json.dump([step(place, *each) for each in json.loads(sys.argv[2])], sys.stdout)

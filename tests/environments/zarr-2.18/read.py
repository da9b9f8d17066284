"""Archives as zarr 2.18 reads them: `read.py KIND PLACES`, run in this environment.

KIND is zarr2 or n5, PLACES a JSON list of [PLACE, [PATH, ...]]: a folder or an http URL, and which
arrays are read; none named is every array of a folder. Over HTTP a Zarr v2 hierarchy is opened by its
consolidated metadata. Prints a JSON list, for each place {path: {dtype, shape, chunks, order, fill,
attributes, values}}; values and fill as hexadecimal bytes, in C order and little-endian, or of objects
a list of str and {"bytes": hex}.
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import zarr


def arrays(kind, place, paths):
    remote = "://" in place
    if kind == "n5":
        store = zarr.N5FSStore(place) if remote else zarr.N5Store(place)
    else:
        store = zarr.storage.FSStore(place, mode="r") if remote else zarr.DirectoryStore(place)
    if remote and kind == "zarr2":
        root = zarr.open_consolidated(store, mode="r")
        yield from ((path, root[path]) for path in paths)
        return
    for path in paths or every_array(store):
        yield path, zarr.open_array(store, mode="r", path=path)


def every_array(store):
    try:
        root = zarr.open_group(store, mode="r")
    except (zarr.errors.GroupNotFoundError, zarr.errors.ContainsArrayError):
        return [""]
    found = []
    root.visititems(lambda path, node: found.append(path) if isinstance(node, zarr.Array) else None)
    return found


def raw(values):
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).tobytes().hex()


def packed(item):
    return {"bytes": bytes(item).hex()} if isinstance(item, (bytes, bytearray)) else item


def seen(array):
    dtype = array.dtype
    values = np.empty(array.shape, dtype)
    values[...] = array[...]
    if dtype == object:
        content, fill = [packed(item) for item in values.ravel()], packed(array.fill_value)
    else:
        content = raw(values)
        fill = None if array.fill_value is None else raw(np.asarray(array.fill_value, dtype=dtype))
    return {
        "dtype": dtype.descr if dtype.names else dtype.str,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "order": array.order,
        "fill": fill,
        "attributes": array.attrs.asdict(),
        "values": content,
    }


if __name__ == "__main__":
    kind, places = sys.argv[1], json.loads(sys.argv[2])
    answers = [{path: seen(array) for path, array in arrays(kind, *place)} for place in places]
    json.dump(answers, sys.stdout)

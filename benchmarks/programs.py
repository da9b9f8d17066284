"""Other libraries doing what zarrlift does, one process each: `programs.py NAME SOURCE RESULT WORK`.

WORK is JSON that describes the result: chunks, shards, codecs. Each library is used as its documentation
shows, with as many threads as it takes by itself. SOURCE and RESULT are folders, or URLs of S3.
z5py runs in an environment of its own, where nothing else of this folder is imported.
`same` compares values; it fails if they differ.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
Work = dict[str, Any]


# tensorstore


def opened(place: str) -> Any:
    """An array by tensorstore, N5 with its axes as others have them."""
    import tensorstore as ts

    drivers = ("n5",) if place.endswith(".n5") else ("zarr3", "zarr")
    for driver in drivers:
        try:
            array = ts.open({"driver": driver, "kvstore": kvstore(place)}, read=True).result()
        except ValueError:
            if driver == drivers[-1]:
                raise
            continue
        return array[ts.d[:].transpose[::-1]] if driver == "n5" else array
    raise AssertionError


def kvstore(place: str) -> Work:
    """Where tensorstore finds a folder, or a prefix of a bucket."""
    if not place.startswith("s3://"):
        return {"driver": "file", "path": f"{place}/"}
    bucket, _, path = place.removeprefix("s3://").partition("/")
    endpoint = {"endpoint": os.environ["AWS_ENDPOINT_URL"], "aws_region": "us-east-1"}
    return {"driver": "s3", "bucket": bucket, "path": f"{path}/", **endpoint}


def by_tensorstore(source: str, result: str, work: Work) -> None:
    """Open both, write one into the other, four objects of the result at a time along the first axis."""
    import tensorstore as ts

    old = opened(source)
    outer = list(work.get("shards", work["chunks"]))
    codecs = list(work["codecs"])
    if "shards" in work:
        inner = {"chunk_shape": work["chunks"], "codecs": codecs, "index_location": "end"}
        inner["index_codecs"] = [LITTLE, {"name": "crc32c"}]
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
    metadata = {
        "shape": list(old.shape),
        "data_type": old.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
        "codecs": codecs,
    }
    spec = {"driver": "zarr3", "kvstore": kvstore(result), "metadata": metadata}
    new = ts.open(spec, create=True).result()
    step = work.get("slab", 4 * outer[0])
    for start in range(0, old.shape[0], step):
        part = slice(start, min(start + step, old.shape[0]))
        new[part].write(old[part]).result()


# zarr-python


def regions(shape: tuple[int, ...], step: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Regions that cover an array."""
    for place in product(*(range(0, n, s) for n, s in zip(shape, step, strict=True))):
        yield tuple(slice(p, min(p + s, n)) for p, s, n in zip(place, step, shape, strict=True))


def _zarr(source: str, result: str, work: Work) -> tuple[Any, Any]:
    import zarr
    from zarr.registry import get_codec_class

    options: Work = {}
    if "concurrency" in work:
        zarr.config.set({"async.concurrency": work["concurrency"]})
        options = {"storage_options": {"config_kwargs": {"max_pool_connections": work["concurrency"]}}}
    old = zarr.open_array(source, mode="r", **options)
    new = zarr.create_array(
        result,
        shape=old.shape,
        chunks=tuple(work["chunks"]),
        shards=tuple(work["shards"]) if "shards" in work else None,
        dtype=old.dtype.newbyteorder("="),
        compressors=[get_codec_class(codec["name"]).from_dict(codec) for codec in work["codecs"][1:]],
        fill_value=old.fill_value,
        **options,
    )
    return old, new


def by_zarr(source: str, result: str, work: Work) -> None:
    """Region by region, an object each if no other is given, in two threads."""
    old, new = _zarr(source, result, work)

    def copy(region: tuple[slice, ...]) -> None:
        new[region] = old[region]

    step = tuple(work.get("region", work.get("shards", work["chunks"])))
    with ThreadPoolExecutor(work.get("threads", 2)) as pool:
        list(pool.map(copy, regions(old.shape, step)))


def by_zarrs(source: str, result: str, work: Work) -> None:
    """zarr-python with the pipeline of zarrs."""
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    by_zarr(source, result, work)


def by_dask(source: str, result: str, work: Work) -> None:
    """dask.array, threads."""
    import dask.array as da

    old, new = _zarr(source, result, work)
    array = da.from_array(old, chunks=tuple(work.get("shards", work["chunks"])))
    da.store(array, new, lock=False)


def by_z5py(source: str, result: str, work: Work) -> None:
    """Slab by slab with two threads: it has no copy (z5py 3.0.2)."""
    import z5py

    # A dataset is opened by the container above it; what is Zarr must be called so.
    path, target = Path(source), Path(result)
    old = z5py.File(str(path.parent), "r", use_zarr_format=False)[path.name]
    file = z5py.File(str(target.parent), "w", use_zarr_format=True, zarr_format=3)
    packer = work["codecs"][-1]
    new = file.create_dataset(
        target.name,
        shape=old.shape,
        dtype=old.dtype,
        chunks=tuple(work["chunks"]),
        compression=packer["name"],
        level=packer["configuration"]["level"],
    )
    old.n_threads = new.n_threads = 2
    step = work["chunks"][0]
    for start in range(0, old.shape[0], step):
        new[start : start + step] = old[start : start + step]


# What cannot be left out


def codecs_only(source: str, result: str, work: Work) -> None:  # noqa: ARG001
    """Every payload decoded and encoded in memory, in two threads; of N5, only blocks that are `only_cut`.

    Nothing is written; `result` is not touched. Start-up and reading are part of it.
    """
    from zarrlift.archive.nodes import ArrayNode
    from zarrlift.archive.shard_reader import chunk_reader
    from zarrlift.core.chain.chain import Chain
    from zarrlift.core.codecs.pipeline import Pipeline
    from zarrlift.formats.describe import describe
    from zarrlift.storage.open_storage import open_storage

    storage = open_storage(source)
    node = describe(storage).nodes[0]
    assert isinstance(node, ArrayNode)
    assert node.layout is not None
    reader = chunk_reader(storage, "", node.layout)
    chain = Chain.from_json(work["codecs"])
    writer = Pipeline(chain, node.layout.chunk_shape, node.layout.data_type)
    # The header of a whole block: mode, rank, shape with the first axis last.
    whole = b"\0\0" + len(work["chunks"]).to_bytes(2, "big")
    whole += b"".join(length.to_bytes(4, "big") for length in reversed(work["chunks"]))

    def one(key: str) -> int:
        data = storage.get(key)
        if data is None or (work.get("only_cut") and bytes(data[: len(whole)]) == whole):
            return 0
        return sum(len(writer.encode(reader.decode(chunk))) for chunk in reader.split(0, data))

    grid = node.layout.grid
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, (node.layout.key("", grid.coordinates(i)) for i in range(grid.total))))


def same(source: str, result: str, work: Work) -> None:  # noqa: ARG001
    """Compare bit by bit, 64 planes at a time; SystemExit where a value differs."""
    import numpy as np

    old, new = opened(source), opened(result)
    if tuple(old.shape) != tuple(new.shape):
        raise SystemExit(f"its shape is {new.shape}, not {old.shape}")
    for start in range(0, old.shape[0], 64):
        part = slice(start, min(start + 64, old.shape[0]))
        expected, found = (np.asarray(array[part]) for array in (old, new))
        plain = expected.dtype.newbyteorder("=")
        if found.dtype.newbyteorder("=") != plain:
            raise SystemExit(f"its data type is {found.dtype}, not {expected.dtype}")
        if expected.astype(plain).tobytes() != found.astype(plain).tobytes():
            raise SystemExit(f"values differ in {part}")


PROGRAMS: dict[str, Callable[[str, str, Work], None]] = {
    "tensorstore": by_tensorstore,
    "zarr-python": by_zarr,
    "zarr-python with zarrs": by_zarrs,
    "dask": by_dask,
    "z5py": by_z5py,
    "codecs alone": codecs_only,
    "same": same,
}


if __name__ == "__main__":
    name, source, result, work = sys.argv[1:]
    PROGRAMS[name](source, result, json.loads(work))

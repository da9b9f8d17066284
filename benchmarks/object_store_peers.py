"""The peers of `object_store`, each a process of its own: `object_store_peers.py WHAT FROM TO SHARDS`.

- `tensorstore`: its zarr or zarr3 driver to its zarr3 driver, in one `write`.
- `zarr`: zarr-python as it comes, over s3fs, one block of the destination after another.
- `zarr-64`: the same, told to make 64 requests at once, with as many connections.

SHARDS is the number of chunks along each axis of a shard; 0 writes chunks.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BLOCK = 128


def by_tensorstore(source: str, destination: str, shards: int) -> None:
    """Values decoded and encoded; it copies no payload."""
    import tensorstore as ts

    def place(name: str) -> dict[str, Any]:
        bucket, _, path = name.partition("/")
        endpoint = os.environ["AWS_ENDPOINT_URL"]
        store = {"driver": "s3", "bucket": bucket, "path": f"{path}/a/"}
        return store | {"endpoint": endpoint, "aws_region": "us-east-1"}

    driver = "zarr3" if source.endswith("-v3") else "zarr"
    old = ts.open({"driver": driver, "kvstore": place(source)}).result()
    chunk = [32] * 3
    inner = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2},
        },
    ]
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    sharding = {"chunk_shape": chunk, "codecs": inner, "index_codecs": index}
    metadata = {
        "shape": list(old.shape),
        "data_type": "uint16",
        "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [32 * max(shards, 1)] * 3},
        },
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}] if shards else inner,
    }  # fmt: skip
    new = ts.open(
        {"driver": "zarr3", "kvstore": place(destination), "metadata": metadata},
        create=True,
        delete_existing=True,
    ).result()
    new.write(old).result()


def by_zarr(source: str, destination: str, shards: int, concurrency: int | None = None) -> None:
    """What its own users write."""
    import zarr
    from zarr.codecs import BloscCodec

    options: dict[str, Any] = {}
    if concurrency is not None:
        zarr.config.set({"async.concurrency": concurrency})
        options = {"config_kwargs": {"max_pool_connections": concurrency}}
    old = zarr.open_array(f"s3://{source}/a", mode="r", storage_options=options)
    new = zarr.create_array(
        f"s3://{destination}",
        name="a",
        shape=old.shape,
        chunks=(32,) * 3,
        shards=(32 * shards,) * 3 if shards else None,
        dtype="uint16",
        compressors=BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
        storage_options=options,
        overwrite=True,
    )
    step = max(BLOCK, 32 * shards)
    for start in range(0, old.shape[0], step):
        new[start : start + step] = old[start : start + step]


if __name__ == "__main__":
    what, before, after, many = sys.argv[1:]
    if what == "tensorstore":
        by_tensorstore(before, after, int(many))
    else:
        by_zarr(before, after, int(many), 64 if what == "zarr-64" else None)

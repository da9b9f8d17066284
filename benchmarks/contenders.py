"""Other libraries doing what zarrlift does, one process each: `python contenders.py NAME SOURCE RESULT WORK`.

WORK names the result: chunk shape, shard shape, codecs. Each library is used as its documentation
shows, with as many threads as it takes by itself. z5py and rechunker run in environments of their own,
where nothing else of this folder is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

GZIP = {"name": "gzip", "configuration": {"level": 6}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def blosc(cname: str, level: int, typesize: int) -> dict[str, Any]:
    """A blosc codec with shuffle."""
    said = {"cname": cname, "clevel": level, "shuffle": "shuffle", "typesize": typesize, "blocksize": 0}
    return {"name": "blosc", "configuration": said}


WORK: dict[str, dict[str, Any]] = {
    "copy": {"chunks": (64, 64, 64), "codecs": [LITTLE, blosc("lz4", 5, 2)]},
    "shards": {"chunks": (64, 64, 64), "shards": (256, 256, 256), "codecs": [LITTLE, blosc("lz4", 5, 2)]},
    "n5 gzip": {"chunks": (64, 64, 64), "codecs": [BIG, GZIP]},
    "n5 zstd": {"chunks": (64, 64, 64), "codecs": [LITTLE, ZSTD]},
    "float": {"chunks": (64, 128, 128), "codecs": [LITTLE, blosc("zstd", 5, 4)]},
    "tiny": {"chunks": (8, 16, 16), "codecs": [LITTLE, blosc("lz4", 5, 2)]},
    "tiny shards": {"chunks": (8, 16, 16), "shards": (56, 112, 112), "codecs": [LITTLE, blosc("lz4", 5, 2)]},
    "rechunk": {"chunks": (64, 64, 64), "shards": (256, 256, 256), "codecs": [LITTLE, ZSTD]},
}


def sharded(work: dict[str, Any]) -> list[dict[str, Any]]:
    """The codecs of the document."""
    if "shards" not in work:
        return list(work["codecs"])
    index = [LITTLE, {"name": "crc32c"}]
    inner = {"chunk_shape": list(work["chunks"]), "codecs": work["codecs"], "index_codecs": index}
    return [{"name": "sharding_indexed", "configuration": {**inner, "index_location": "end"}}]


def by_tensorstore(source: Path, result: Path, work: dict[str, Any]) -> None:
    """Open both, write one into the other."""
    import tensorstore as ts

    driver = "n5" if source.suffix == ".n5" else "zarr"
    old = ts.open({"driver": driver, "kvstore": f"file://{source}/"}, read=True).result()
    if driver == "n5":
        old = old[ts.d[:].transpose[::-1]]
    metadata = {
        "shape": list(old.shape),
        "data_type": old.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": list(work.get("shards", work["chunks"]))},
        },
        "codecs": sharded(work),
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{result}/", "metadata": metadata, "create": True}
    new = ts.open(spec).result()
    step = work.get("shards", work["chunks"])[0]
    for start in range(0, old.shape[0], step * 4):
        part = slice(start, min(start + step * 4, old.shape[0]))
        new[part].write(old[part]).result()


def regions(shape: tuple[int, ...], step: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """The regions of all objects of the result."""
    for place in product(*(range(0, n, s) for n, s in zip(shape, step, strict=True))):
        yield tuple(slice(p, min(p + s, n)) for p, s, n in zip(place, step, shape, strict=True))


def _zarr(source: Path, result: Path, work: dict[str, Any]) -> tuple[Any, Any]:
    import zarr

    old = zarr.open_array(str(source), mode="r")
    from zarr.registry import get_codec_class

    tail = work["codecs"][1:]
    compressors = [get_codec_class(codec["name"]).from_dict(codec) for codec in tail]
    new = zarr.create_array(
        str(result),
        shape=old.shape,
        chunks=work["chunks"],
        shards=work.get("shards"),
        dtype=old.dtype.newbyteorder("="),
        compressors=compressors,
        fill_value=old.fill_value,
    )
    return old, new


def by_zarr(source: Path, result: Path, work: dict[str, Any]) -> None:
    """Region by region, in two threads."""
    old, new = _zarr(source, result, work)
    step = work.get("shards", work["chunks"])
    if "tiny" in work["name"]:
        step = (56, 112, 112)

    def copy(region: tuple[slice, ...]) -> None:
        new[region] = old[region]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(copy, regions(old.shape, step)))


def by_zarrs(source: Path, result: Path, work: dict[str, Any]) -> None:
    """zarr-python with the pipeline of zarrs."""
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    by_zarr(source, result, work)


def by_dask(source: Path, result: Path, work: dict[str, Any]) -> None:
    """dask.array, threads."""
    import dask.array as da

    old, new = _zarr(source, result, work)
    array = da.from_array(old, chunks=work.get("shards", work["chunks"]))
    da.store(array, new, lock=False)


def by_z5py(source: Path, result: Path, work: dict[str, Any]) -> None:
    """Slab by slab with two threads, to its Zarr v3 in `z5py.zarr/volume`: it has no copy (z5py 3.0.2)."""
    import z5py

    # A dataset is opened by the container above it; what is Zarr must be called so.
    old = z5py.File(str(source.parent), "r", use_zarr_format=False)[source.name]
    result.mkdir()
    file = z5py.File(str(result / "z5py.zarr"), "w", use_zarr_format=True, zarr_format=3)
    packer = work["codecs"][-1]
    new = file.create_dataset(
        "volume",
        shape=old.shape,
        dtype=old.dtype,
        chunks=work["chunks"],
        compression=packer["name"],
        level=packer["configuration"]["level"],
    )
    old.n_threads = new.n_threads = 2
    step = work["chunks"][0]
    for start in range(0, old.shape[0], step):
        new[start : start + step] = old[start : start + step]


def by_rechunker(source: Path, result: Path, work: dict[str, Any]) -> None:
    """To Zarr v2 without shards, which is all it writes: rechunker 0.5.4 needs zarr 2. dask runs it.

    1 GB for each of dask's threads, which is what it takes to go in one pass here.
    """
    import zarr
    from numcodecs import Zstd
    from rechunker import rechunk

    plan = rechunk(
        zarr.open_array(str(source), mode="r"),
        target_chunks=work["chunks"],
        max_mem="1GB",
        target_store=str(result),
        temp_store=str(result.with_suffix(".between")),
        target_options={"compressor": Zstd(work["codecs"][-1]["configuration"]["level"])},
    )
    plan.execute()


def codecs_only(source: Path, result: Path, work: dict[str, Any]) -> None:  # noqa: ARG001
    """What cannot be left out: every payload decoded and encoded in memory, in two threads.

    Nothing is written; `result` is not touched. Start-up and reading are part of it.
    """
    from zarrlift.archive.decoder import object_decoder
    from zarrlift.archive.nodes import ArrayNode
    from zarrlift.core.chain.chain import Chain
    from zarrlift.core.codecs.pipeline import Pipeline
    from zarrlift.formats.describe import describe
    from zarrlift.storage.open_storage import open_storage

    storage = open_storage(source)
    node = describe(storage).nodes[0]
    assert isinstance(node, ArrayNode)
    assert node.layout is not None
    decoder = object_decoder(node.layout)
    chain = Chain.from_json(work["codecs"])
    writer = Pipeline(chain, node.layout.chunk_shape, node.layout.data_type)

    def one(key: str) -> int:
        data = storage.get(key)
        return 0 if data is None else len(writer.encode(decoder.decode(data)))

    grid = node.layout.grid
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, (node.layout.key("", grid.coordinates(i)) for i in range(grid.total))))


CONTENDERS: dict[str, Callable[[Path, Path, dict[str, Any]], None]] = {
    "tensorstore": by_tensorstore,
    "zarr-python": by_zarr,
    "zarr-python with zarrs": by_zarrs,
    "dask": by_dask,
    "z5py": by_z5py,
    "rechunker": by_rechunker,
    "codecs alone": codecs_only,
}


if __name__ == "__main__":
    name, source, result, work = sys.argv[1:]
    CONTENDERS[name](Path(source), Path(result), {**WORK[work], "name": work})

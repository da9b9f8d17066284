"""Sources for other grids: one array for each kind of trouble, and what to look at afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import JSON, Blosc, GZip, VLenUTF8, Zlib
from tests.support.damaged_archives import write_array
from tests.support.job_archives import written_once
from tests.support.readers import OF_ALL_FEATURES, READERS, parametrize_readers
from tests.support.unpacking import unpacked

from zarrlift import ArrayRecipe, Recipe
from zarrstack.core.shard_index import IndexFormat, ShardIndex

DRAFT = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
"""Shards of 2 x 2 chunks, many of which are missing."""
N5 = unpacked("n5/java-1.5.0/old.n5")
"""Blocks at the edges are shorter than their cells; one is missing in each dataset."""

each_reader = parametrize_readers(OF_ALL_FEATURES)


def read(reader: str, root: Path, path: str) -> np.ndarray[Any, Any]:
    """Values of an array as a reader sees them."""
    return READERS[reader](root, path).values


def wish(memory: int | None = None, **options: Any) -> Recipe:
    """A recipe of one wish for every array."""
    return Recipe(base=ArrayRecipe(**options), memory=memory)


@written_once
def write_numbers(path: Path) -> None:
    """`a`: three axes that nothing divides, blosc; every third chunk is missing, and reads as 7."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    array = root.create_array(
        "a", shape=(11, 13, 7), chunks=(4, 3, 2), dtype="<u2", compressors=Blosc("lz4"), fill_value=7
    )
    array[...] = np.random.default_rng(1).integers(8, 999, (11, 13, 7))
    for number, place in enumerate(np.ndindex(3, 5, 4)):
        if number % 3 == 1:
            (path / "a" / ".".join(map(str, place))).unlink()


def write_kinds(path: Path) -> Path:
    """Byte orders, order F, nothing compressed, text, objects, a scalar, no elements."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    big = root.create_array("big", shape=(9, 8), chunks=(4, 3), dtype=">f4", order="F", compressors=Zlib(1))
    big[...] = np.random.default_rng(2).random((9, 8))
    root.create_array("plain", shape=(10,), chunks=(3,), dtype="<i8", compressors=None)[:8] = range(8)
    root.create_array("gzip", shape=(5, 5), chunks=(2, 5), dtype="|u1", compressors=GZip(1))[...] = 3
    words = root.create_array(
        "words", shape=(10,), chunks=(3,), dtype=str, compressors=Zlib(1), filters=[VLenUTF8()]
    )
    words[:] = np.array([f"ä{number}" * number for number in range(10)], dtype=object)
    (path / "words" / "1").unlink()
    root.create_array("scalar", shape=(), dtype="<i2", compressors=None)[...] = 5
    root.create_array("nothing", shape=(0, 4), chunks=(2, 2), dtype="<i2", compressors=None)
    return path


def write_objects(path: Path, fill: Any = 0) -> Path:
    """`objects`: four of them as JSON in chunks of three; the chunk of the first three is missing."""
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    second = bytes(JSON().encode(np.array(["x", "y", "z"], dtype=object)))
    write_array(
        path / "objects",
        {"1": second},
        shape=[6],
        chunks=[3],
        dtype="|O",
        filters=[JSON().get_config()],
        fill_value=fill,
    )
    return path


def shards(root: Path, path: str) -> dict[str, bytes]:
    """The stored objects of an array, by what follows its path."""
    files = (file for file in (root / path).rglob("*") if file.is_file() and file.name != "zarr.json")
    return {file.relative_to(root / path).as_posix(): file.read_bytes() for file in files}


def index_of(shard: bytes, counts: tuple[int, ...], form: IndexFormat) -> ShardIndex:
    """The index of a shard, checked."""
    index = ShardIndex.from_bytes(shard[form.place(counts, len(shard))], counts, form)
    index.check(len(shard), form)
    return index


def payloads(shard: bytes, counts: tuple[int, ...], form: IndexFormat) -> dict[tuple[int, ...], bytes]:
    """The payloads in a shard, by place."""
    index = index_of(shard, counts, form)
    found = {place: index.get(place) for place in np.ndindex(*counts)}
    return {place: shard[where] for place, where in found.items() if where is not None}

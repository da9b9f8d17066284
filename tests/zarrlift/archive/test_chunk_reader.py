"""What every reader of chunks promises, of payloads, N5 blocks and shards alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from zarrlift.archive.chunk_reader import ChunkReader, MissingObject
from zarrlift.archive.nodes import ArrayNode
from zarrlift.archive.shard_reader import chunk_reader
from zarrlift.formats.describe import describe
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import ChunkError

VALUES = np.arange(35, dtype=">u2").reshape(5, 7)
KINDS = ["payloads", "blocks", "shards"]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An array of shape (5, 7) with inner chunks of (2, 4), of which the last one is missing."""
    if request.param == "blocks":
        attributes = {"dimensions": [7, 5], "blockSize": [4, 2], "dataType": "uint16"}
        (tmp_path / "attributes.json").write_text(json.dumps({**attributes, "compression": {"type": "raw"}}))
        for row in range(3):
            for column in range(2):
                block = VALUES[2 * row : 2 * row + 2, 4 * column : 4 * column + 4]  # cut at the edges
                header = np.array([0, 2], ">u2").tobytes() + np.array(block.shape[::-1], ">u4").tobytes()
                (tmp_path / str(column)).mkdir(exist_ok=True)
                (tmp_path / str(column) / str(row)).write_bytes(header + block.tobytes())
        (tmp_path / "1" / "2").unlink()
        return tmp_path
    sharded = request.param == "shards"
    array = zarr.create_array(
        tmp_path / "a",
        shape=(5, 7),
        chunks=(2, 4),
        shards=(4, 8) if sharded else None,
        dtype=">u2" if not sharded else "<u2",
        compressors=None,
        fill_value=0,
        zarr_format=3 if sharded else 2,
        config={"write_empty_chunks": True},
    )
    array[:4] = VALUES[:4]
    array[4, :4] = VALUES[4, :4]
    if not sharded:
        (tmp_path / "a" / "2.1").unlink(missing_ok=True)
    return tmp_path / "a"


def opened(place: Path) -> ChunkReader:
    (node,) = describe(open_storage(str(place))).nodes
    assert isinstance(node, ArrayNode)
    assert node.layout is not None
    return chunk_reader(open_storage(str(place)), "", node.layout)


def test_regions_within_the_array_have_native_values_and_missing_chunks_have_none(place: Path) -> None:
    reader = opened(place)
    found = np.zeros(VALUES.shape, bool)
    for number in range(reader.layout.objects.total):
        try:
            regions = list(reader.decoded(number))
        except MissingObject:
            continue
        for region, values in regions:
            if values is not None:
                assert values.dtype.isnative
                assert values.tolist() == VALUES[region].tolist()
                found[region] = True
    assert found[:4].all()
    assert found[4].tolist() == [True] * 4 + [False] * 3


def test_only_what_overlaps_a_region_is_decoded(place: Path) -> None:
    ((region, values),) = opened(place).decoded(0, (slice(1, 2), slice(0, 3)))
    assert region == (slice(0, 2), slice(0, 4))
    assert values is not None
    assert values.tolist() == VALUES[:2, :4].tolist()


def test_a_missing_object_is_no_empty_one(place: Path) -> None:
    for file in place.rglob("*"):
        if file.is_file() and not file.name.startswith(".") and not file.name.endswith(".json"):
            file.unlink()
    reader = opened(place)
    with pytest.raises(MissingObject):
        next(reader.encoded(0))
    with pytest.raises(MissingObject):
        next(reader.decoded(0))


@pytest.mark.parametrize("damage", ["too large", "cut short"])
def test_an_object_of_another_size_is_a_chunk_error(place: Path, damage: str) -> None:
    reader = opened(place)
    file = place / reader.key(0)
    data = file.read_bytes()
    file.write_bytes(data + bytes(1 << 20) if damage == "too large" else data[:-1])
    with pytest.raises(ChunkError):
        list(reader.decoded(0))

"""Every chunk in the fixtures decodes to what the old writer itself reads.

The `.zarray` is turned into a chain here, in a few lines, so that the codecs are tested
alone: the real reader of v2 has its own tests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.support.chances import try_each
from tests.support.fixtures_index import ExpectedArray, archive, archives, same

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.base import HeadAndTail
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v2 import parse_v2_dtype
from zarrlift.core.grid.grid import Grid
from zarrstack.core.errors import ZarrstackError

OBJECT_CODECS = {
    "vlen-utf8": "vlen-utf8",
    "vlen-bytes": "vlen-bytes",
    "categorize": "numcodecs.object-categorize",
}
PLAIN_NAMES = ("gzip", "zstd", "blosc")

CANNOT_BE_WRITTEN = ("/blosc_snappy",)
"""numcodecs today has no snappy."""
READ_RIGHT_BY_ZARR_2_2 = ("zarr-2.2/old:dtypes/F/json2", "zarr-2.2/old:dtypes/F/msgpack2")
"""The same bytes as zarr 2.4 to 2.18 wrote and misread; their reading is the one that counts."""


@dataclass(frozen=True, slots=True)
class StoredType:
    """Stands in for a DataType, since v3 has no name for some of these types."""

    name: str
    numpy: np.dtype[Any]


def _spec(config: dict[str, Any], *, objects: bool) -> CodecSpec:
    members = {name: value for name, value in config.items() if name != "id"}
    name = config["id"] if config["id"] in PLAIN_NAMES else f"numcodecs.{config['id']}"
    if objects:
        name = OBJECT_CODECS.get(config["id"], name)
    return CodecSpec(name, members)


def _document(array: ExpectedArray) -> dict[str, Any]:
    return json.loads((array.archive.path / array.path / ".zarray").read_bytes())


def _pipeline(document: dict[str, Any]) -> Pipeline:
    stored = parse_v2_dtype(document["dtype"])
    filters = list(document.get("filters") or ())
    chain = []
    if document.get("order", "C") == "F" and len(document["shape"]) > 1:
        chain.append(CodecSpec("transpose", {"order": "F"}))
    object_codecs = (*OBJECT_CODECS, "vlen-array", "json2", "msgpack2", "pickle")
    if stored.hasobject or (filters and filters[0]["id"] in ("vlen-utf8", "json2", "msgpack2", "pickle")):
        assert filters[0]["id"] in object_codecs
        chain.append(_spec(filters.pop(0), objects=True))
    else:
        chain.append(CodecSpec("numpy_bytes", {"dtype": document["dtype"]}))
    chain += [_spec(config, objects=False) for config in filters]
    if document["compressor"]:
        chain.append(_spec(document["compressor"], objects=False))
    data_type = StoredType("test", stored.newbyteorder("="))
    return Pipeline(Chain(tuple(chain)), tuple(document["chunks"]), data_type, allow_pickle=True)


def _readable(array: ExpectedArray) -> bool:
    return (
        array.archive.kind == "directory"
        and (array.archive.path / array.path / ".zarray").exists()
        and array.unreadable is None
        and "deviations" not in array.archive.name
        and "netcdf-4.9.0" not in array.archive.name  # where <U1 is another type than it says
        and "dtype" in _document(array)
    )


READABLE = {one.name: [array for array in one.arrays.values() if _readable(array)] for one in archives()}


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("one", [one for one in archives() if READABLE[one.name]], ids=str)
def test_chunks_hold_what_the_old_writer_reads_from_them(one):
    try_each(READABLE[one.name], reads_as_written)


def reads_as_written(array):
    """Every chunk of an array, decoded, and once more after it was encoded here."""
    document = _document(array)
    pipeline = _pipeline(document)
    grid = Grid(array.shape, array.chunks)
    values = array.values
    if array.id in READ_RIGHT_BY_ZARR_2_2:
        values = archive("zarr-2.4/old")[array.path].values
    compared = 0
    for number in range(grid.total):
        coordinates = grid.coordinates(number)
        names = list(map(str, coordinates)) or ["0"]
        for separator in "./":
            file = array.archive.path / array.path / separator.join(names)
            if file.is_file():
                break
        else:
            continue
        payload = file.read_bytes()
        chunk = pipeline.decode(payload)
        assert chunk.dtype.isnative
        assert chunk.flags.c_contiguous
        part = chunk[(*grid.valid(coordinates), ...)]
        expected = values[(*grid.region(coordinates), ...)]
        if array.dtype.kind != "O":
            expected = expected.astype(part.dtype)
        assert same(part, expected)
        assert pipeline.check(HeadAndTail.of(payload))
        compared += 1
        if array.id.endswith(CANNOT_BE_WRITTEN):
            continue
        again = pipeline.decode(pipeline.encode(chunk))
        assert same(again, chunk)
    assert compared or not array.stored_chunks or not array.path


@pytest.mark.parametrize("codec", ["json2_str", "json2_mixed", "msgpack2_str", "msgpack2_bytes"])
def test_objects_in_f_order_come_back_as_zarr_2_4_to_2_18_misread_them(codec):
    # What they read, not what was written, counts (see codecs/objects.py).
    assert archive("zarr-2.18/dtypes")[f"F/{codec}"].misread


def test_a_pickle_is_refused_by_name_unless_it_is_allowed():
    with pytest.raises(ZarrstackError, match="pickle"):
        Pipeline(Chain((CodecSpec("numcodecs.pickle"),)), (2,), StoredType("object", np.dtype(object)))

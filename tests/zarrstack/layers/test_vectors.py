"""The test vectors of docs/transformers/stored-format.md are what these layers read and write."""

from __future__ import annotations

import asyncio
import json
import random

import numpy as np
import pytest
import zarr
from tests.zarrstack.layers import vectors
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarrstack
from zarrstack import PerArray, stack
from zarrstack.errors import ZarrstackError

CRC32C = {"name": "crc32c"}
"""zarr-python 3.1.6 reads no codec that is a name alone."""
BUFFER = default_buffer_prototype()


def load(name):
    return json.loads((vectors.FOLDER / name).read_text(encoding="utf-8"))


VECTORS = {
    f"{folder}: {each['name']}": each
    for folder in ("sharding", "checksum")
    for each in load(f"zarrstack.{folder}/vectors.json")
}
DOCUMENTS = load("documents.json")


def named(condition):
    return [pytest.param(each, id=name) for name, each in VECTORS.items() if condition(each)]


def is_codec(each):
    """Whether a vector with values has one layer of sharding, with a number for each axis."""
    layers = each["document"]["storage_transformers"]
    counts = layers[0].get("configuration", {}).get("chunks_per_shard", [])
    return "values" in each and len(layers) == 1 and 0 < len(counts) == len(each["document"]["shape"])


def document_key(path):
    return f"{path}/zarr.json" if path else "zarr.json"


def below(each, objects=None):
    """The array of a vector as it is stored."""
    objects = each["objects"] if objects is None else objects
    stored = {key: cpu.Buffer.from_bytes(bytes.fromhex(data)) for key, data in objects.items()}
    stored[document_key(each["path"])] = cpu.Buffer.from_bytes(json.dumps(each["document"]).encode())
    return MemoryStore(stored)


def get(store, key, part=None):
    value = sync(store.get(key, BUFFER, part))
    return None if value is None else value.to_bytes()


@pytest.mark.parametrize("name", vectors.FILES)
def test_the_files_are_those_of_the_program(name):
    made = vectors.text(vectors.FILES[name]())
    assert (vectors.FOLDER / name).read_text(encoding="utf-8") == made, vectors.__doc__


@pytest.mark.parametrize("each", named(lambda each: "chunks" in each))
def test_chunks_and_ranges_of_them_are_read_as_stated(each):
    store = stack(below(each), PerArray())
    parts = (RangeByteRequest(1, 3), OffsetByteRequest(1), SuffixByteRequest(1))
    for key, text in each["chunks"].items():
        expected = None if text is None else bytes.fromhex(text)
        assert get(store, key) == expected
        assert sync(store.exists(key)) == (expected is not None)
        for part, where in zip(parts, (slice(1, 3), slice(1, None), slice(-1, None)), strict=True):
            assert get(store, key, part) == (None if expected is None else expected[where])
    if "values" in each:
        array = zarrstack.open_array(below(each), path=each["path"], mode="r")
        expected = np.array(each["values"], "u1").reshape(each["document"]["shape"])
        assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("each", named(is_codec))
def test_zarr_python_reads_the_shards_as_those_of_the_ratified_codec(each):
    document = dict(each["document"])
    (entry,) = document.pop("storage_transformers")
    del document["zarrstack.storage_transformers"]
    index = {"index_codecs": [vectors.LITTLE], "index_location": "end"} | entry["configuration"]
    index["index_codecs"] = [CRC32C if codec == "crc32c" else codec for codec in index["index_codecs"]]
    counts, sizes = index.pop("chunks_per_shard"), document["chunk_grid"]["configuration"]["chunk_shape"]
    configuration = {"chunk_shape": sizes, "codecs": document["codecs"], **index}
    document["codecs"] = [{"name": "sharding_indexed", "configuration": configuration}]
    shape = [count * size for count, size in zip(counts, sizes, strict=True)]
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": shape}}
    array = zarr.open_array(below({**each, "document": document}), path=each["path"], mode="r")
    assert array[...].ravel().tolist() == each["values"]


@pytest.mark.parametrize("each", named(lambda each: each.get("exact")))
def test_chunks_are_written_as_stated_in_any_order(each):
    chunks = [(key, bytes.fromhex(text)) for key, text in each["chunks"].items() if text is not None]
    for seed in range(3):
        random.Random(seed).shuffle(chunks)
        store = below(each, {})
        layers = stack(store, PerArray())
        for number, (key, data) in enumerate(chunks):
            if number % 2:  # overwritten, and deleted in between
                sync(layers.set(key, cpu.Buffer.from_bytes(b"something else")))
                sync(layers.delete(key))
            sync(layers.set(key, cpu.Buffer.from_bytes(data)))
        stored = {key: value.to_bytes().hex() for key, value in store._store_dict.items()}
        del stored[document_key(each["path"])]
        assert stored == each["objects"]
        for key, _ in chunks:
            sync(layers.delete(key))
        assert [*store._store_dict] == [document_key(each["path"])]


@pytest.mark.parametrize("each", named(lambda each: "refused" in each))
def test_damage_is_refused_by_reads_of_all_and_of_parts(each):
    store = stack(below(each), PerArray())
    for key in each["refused"]:
        for part in (None, RangeByteRequest(0, 1), SuffixByteRequest(1)):
            with pytest.raises(ZarrstackError):
                get(store, key, part)
    with pytest.raises(ZarrstackError):
        zarrstack.open_array(below(each), path=each["path"], mode="r")[...]


@pytest.mark.parametrize("each", DOCUMENTS["cases"], ids=lambda each: each["name"])
def test_a_document_may_be_used_as_stated(each):
    path = each.get("path", "a")
    store = below({"path": path, "document": DOCUMENTS["base"] | each["change"]}, {})
    if each["may"] == "nothing":
        with pytest.raises(ZarrstackError):
            zarrstack.open_array(store, path=path, mode="r")
        return
    assert (zarrstack.open_array(store, path=path, mode="r")[...] == 255).all()
    array = zarrstack.open_array(store, path=path)
    if each["may"] == "read":
        with pytest.raises(ZarrstackError):
            array[...] = 7
    else:
        array[...] = 7
        assert (zarrstack.open_array(store, path=path, mode="r")[...] == 7).all()
        assert asyncio.run(store.exists("a/c/0/0"))
